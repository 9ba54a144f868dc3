"""Processes for tests to kill: each a fresh fork of a server that has Locus imported and nothing open."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE = 60.0


@dataclass(frozen=True)
class Life:
    """A process that works on its own."""

    server: LifeServer
    pid: int
    log: Path

    def wait(self, seconds: float = PATIENCE) -> int:
        """How it ended: its exit code, or the negative number of the signal that killed it."""
        code = self.server.ask({"wait": {"pid": self.pid, "seconds": seconds}})
        if code is None:
            self.signal(signal.SIGKILL)
            self.server.ask({"wait": {"pid": self.pid, "seconds": PATIENCE}})
            raise AssertionError(f"still running after {seconds:g} s:\n{self.output()}")
        assert isinstance(code, int)
        return code

    def succeed(self, seconds: float = PATIENCE) -> None:
        """Wait for it to end well."""
        assert self.wait(seconds) == 0, self.output()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal. The pid cannot be another's meanwhile: only `wait` gives it back."""
        os.kill(self.pid, number)

    def kill(self) -> int:
        """SIGKILL, and how it ended."""
        self.signal(signal.SIGKILL)
        return self.wait()

    def output(self) -> str:
        """What it printed."""
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""


class LifeServer:
    """Starts lives."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            # The interpreter itself and not a shim around it: what is traced or killed must be Python.
            [sys.executable, "-m", "tests.faults.workers.server"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def start(self, work: str, log: Path, **args: Any) -> Life:  # JSON
        """Run `module:function` of the workers in a new process, its output going to `log`."""
        request = {"work": f"tests.faults.workers.{work}", "args": args, "log": str(log)}
        return Life(self, self.ask({"start": request}), log)

    def ask(self, request: dict[str, Any]) -> Any:  # JSON both ways
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(request)}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=PATIENCE)
