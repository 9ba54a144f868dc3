"""What happened, line by line, in a file that outlives its writers: effects of tools, and what callers were told."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

__all__ = ["Ledger"]


class Ledger:
    """An append-only file of JSON objects.

    A line begins with its line break, so what a kill cut off spoils no other. It is written with `writev`, which no
    storage uses, so that a fault injected into `write` never hits the ledger. `sync` waits for the disk.
    """

    def __init__(self, path: str | Path, *, sync: bool = False) -> None:
        self.path = Path(path)
        self._sync = sync

    def note(self, **entry: Any) -> None:  # JSON
        """Add an entry; it is there when this returns."""
        self._add(entry, only_if_new=None)

    def once(self, key: str, **entry: Any) -> bool:  # JSON
        """Add an entry unless there is one with this key, as one act; False if there was."""
        return self._add({"key": key, **entry}, only_if_new=key)

    def entries(self) -> list[dict[str, Any]]:
        """All that is in it, in order."""
        return _parsed(self.path.read_bytes()) if self.path.exists() else []

    def _add(self, entry: dict[str, Any], only_if_new: str | None) -> bool:
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if only_if_new is not None:
                fcntl.flock(fd, fcntl.LOCK_EX)
                known = _parsed(os.pread(fd, os.fstat(fd).st_size, 0))
                if any(one.get("key") == only_if_new for one in known):
                    return False
            os.writev(fd, [b"\n", json.dumps(entry).encode()])
            if self._sync:
                os.fsync(fd)
            return True
        finally:
            os.close(fd)


def _parsed(content: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for line in content.split(b"\n"):
        try:
            found.append(json.loads(line))
        except ValueError:  # empty, or cut off by a kill: never acknowledged
            continue
    return found
