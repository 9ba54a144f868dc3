"""A system call of a living process made to fail, or to be its last, by strace."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self


class Injection:
    """`strace` attached to a process, with one fault: `Injection(strace, pid, log, "fsync", "error=EIO:when=3")`."""

    def __init__(self, strace: str, pid: int, log: Path, calls: str, fault: str) -> None:
        # Traced and injected are the same calls: a call that is not traced is not tampered with either.
        how = ["-e", f"trace={calls}", "-e", f"inject={calls}:{fault}"]
        command = [strace, "-f", "-p", str(pid), "-o", str(log), *how]
        self._log = log
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        assert self._process.stderr is not None
        said = self._process.stderr.readline()
        if "attached" not in said:
            self._process.communicate(timeout=30)
            raise AssertionError(f"strace could not attach: {said}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()  # lets go of the process, which then runs as if never traced
        self._process.communicate(timeout=30)

    @property
    def happened(self) -> bool:
        """Whether the fault was met."""
        log = self._log.read_text(encoding="utf-8", errors="replace")
        return "INJECTED" in log or "killed by SIGKILL" in log
