"""A process that has everything imported and forks a child for each piece of work, so that a life takes milliseconds.

It runs no thread and opens no storage of its own: a child inherits nothing but imported code. Requests come as lines of
JSON on stdin, answers go to stdout. Children that the caller forgot are killed when it hangs up.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
import traceback
from typing import Any, NoReturn

import locus.agent
import locus.memory.backends
import locus.storage.file
import locus.storage.sqlite  # noqa: F401  # imported once, here, for all children

_alive: set[int] = set()


def _start(work: str, args: dict[str, Any], log: str) -> int:
    pid = os.fork()
    if pid == 0:
        _live(work, args, log)
    _alive.add(pid)
    return pid


def _live(work: str, args: dict[str, Any], log: str) -> NoReturn:
    """The child: it does its work and never goes on as a server."""
    code = 1
    try:
        _alive.clear()
        _redirect(log)
        module, _, function = work.partition(":")
        getattr(importlib.import_module(module), function)(**args)
        code = 0
    except SystemExit:
        raise  # a real end, with all that Python does at exit
    except BaseException:  # noqa: BLE001  # whatever it was, it is for the log
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _redirect(log: str) -> None:
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(target, 1)
    os.dup2(target, 2)


def _wait(pid: int, seconds: float) -> int | None:
    """How a child ended, as `subprocess` has it; None if it has not."""
    deadline = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            _alive.discard(pid)
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            return None
        time.sleep(0.002)


def main() -> None:
    """Serve until stdin ends."""
    importlib.import_module("tests.faults.workers.clerk")
    for line in sys.stdin:
        request = json.loads(line)
        answer = _start(**request["start"]) if "start" in request else _wait(**request["wait"])
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()
    for pid in _alive:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
