"""A clock for measuring how long something lasted, which counts the time the machine was asleep."""

from __future__ import annotations

import time

__all__ = ["elapsed_seconds"]

if hasattr(time, "CLOCK_BOOTTIME"):

    def elapsed_seconds() -> float:
        """Seconds since some fixed moment, suspension included."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:  # macOS's monotonic clock stops in sleep; its wall clock does not
    elapsed_seconds = time.time
