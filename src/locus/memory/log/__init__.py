"""Threads as logs: deltas, removal, copying, leases and runs, written once on the storage contract."""
