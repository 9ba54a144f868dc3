"""`python -m benchmarks`: every measurement, one after another."""

from __future__ import annotations

from benchmarks import growth, save

if __name__ == "__main__":
    save.main()
    growth.main()
