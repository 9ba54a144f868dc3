"""What Locus costs, measured beside what it is made of: ratios of one run, never times of another machine."""
