"""A disk that fails at the n-th call, for every n of a turn: the error is clear, the thread loads, the next turn works."""

from __future__ import annotations

import itertools
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.audit import audit
from tests.faults.lives import Life, LifeServer
from tests.faults.traced import Injection
from tests.faults.workers.clerk import Desk

THREAD = "thread"
KILL = "signal=SIGKILL:when={n}"
EIO = "error=EIO:when={n}"
FULL = "error=ENOSPC:when={n}+"  # a full disk stays full
SYNC = "fsync,fdatasync"
CLEAR = {"UnavailableError", "StorageError"}


@dataclass(frozen=True)
class Fault:
    """What fails, and how."""

    kind: str
    calls: str
    how: str
    fresh: bool = False
    """Whether the turn is the first ever, so that its storage is made in it too."""
    step: int = 1
    """Of how many places one is tried by `make test`; `make certify` tries all."""

    def __str__(self) -> str:
        how = self.how.partition(":")[0].partition("=")[2]
        return f"{self.kind}-{how}-{self.calls.replace(',', '+').replace('?', '')}{'-fresh' if self.fresh else ''}"


SQLITE = [
    Fault("sqlite", SYNC, KILL),
    Fault("sqlite", "pwrite64", KILL, step=7),
    Fault("sqlite", SYNC, EIO),
    Fault("sqlite", "pwrite64", EIO, step=17),
    Fault("sqlite", "pwrite64", FULL, step=17),
    Fault("sqlite", SYNC, KILL, fresh=True, step=3),
    Fault("sqlite", "pwrite64", FULL, fresh=True, step=17),
]
FILE = [
    Fault("file", SYNC, KILL),
    Fault("file", "write", KILL),
    Fault("file", "?link,?linkat,?rename,?renameat,?renameat2,?unlink,?unlinkat", KILL, step=2),
    Fault("file", SYNC, EIO, step=2),
    Fault("file", "write", FULL, step=3),
    Fault("file", "?link,?linkat,?rename,?renameat,?renameat2", FULL, step=3),
    Fault("file", "write", EIO, step=3),
    Fault("file", SYNC, KILL, fresh=True, step=4),
]


@dataclass
class Campaign:
    """One fault at place after place of a turn."""

    fault: Fault
    strace: str
    lives: LifeServer
    root: Path

    async def try_at(self, place: int) -> tuple[bool, str | None]:
        """Let the fault happen at a place of the turn. Whether it did, and the error the caller was told."""
        desk = Desk(self.fault.kind, self.root / str(place))
        shutil.copytree(self._before(), desk.place)
        number = 0 if self.fault.fresh else 2
        life = self._start("turn", desk, number)
        how = self.fault.how.format(n=place)
        with Injection(self.strace, life.pid, desk.place / "strace", self.fault.calls, how) as injection:
            (desk.place / "begin").touch()
            ended = self._tried(desk, life)
        (desk.place / "passed").touch()
        code = life.wait() if ended is None else ended
        assert code == (-signal.SIGKILL if self.fault.how is KILL and injection.happened else 0), life.output()
        self._start("wrap_up", desk, number + 1).succeed()
        found = await audit(desk, [THREAD])
        assert not found.wrong, f"{self.fault} at {place}: {found.wrong}"
        failures = [one["failed"] for one in desk.told.entries() if "failed" in one]
        return injection.happened, failures[0] if failures else None

    def _before(self) -> Path:
        """What the turn finds: nothing, or a thread with two turns."""
        desk = Desk(self.fault.kind, self.root / "before")
        if not desk.place.exists():
            desk.place.mkdir()
            if not self.fault.fresh:
                self._start("wrap_up", desk, 0).succeed()
        return desk.place

    def _start(self, work: str, desk: Desk, number: int) -> Life:
        log = desk.place / "log"
        return self.lives.start(
            f"faulted:{work}", log, kind=desk.kind, place=str(desk.place), thread=THREAD, number=number
        )

    def _tried(self, desk: Desk, life: Life) -> int | None:
        """Wait until the turn has ended, well or not, or the process has; then how that ended."""
        deadline = time.monotonic() + 60
        while not any("tried" in one for one in desk.told.entries()):
            code = self.lives.ask({"wait": {"pid": life.pid, "seconds": 0}})
            if code is not None:
                assert isinstance(code, int)
                return code
            assert time.monotonic() < deadline, life.output()
            time.sleep(0.005)
        return None


@pytest.mark.parametrize("fault", [*SQLITE, *FILE], ids=str)
async def test_a_disk_that_fails_at_any_call_of_a_turn_costs_no_more_than_that_turn_sent_again(
    fault: Fault,
    require_tool: Callable[[str], str],
    lives: LifeServer,
    quick_disk: Path,
    certify: bool,
    record_property: Callable[[str, object], None],
) -> None:
    campaign = Campaign(fault, require_tool("strace"), lives, quick_disk)
    told: Counter[str | None] = Counter()
    for place in itertools.count(1, 1 if certify else fault.step):
        happened, error = await campaign.try_at(place)
        if not happened:
            break
        told[error] += 1
    errors = ", ".join(f"{name or 'nothing'} {count}" for name, count in told.items())
    record_property("campaign", f"{fault}: met at {told.total()} places; the caller was told: {errors}")
    assert told.total() > 0
    assert set(told) - {None} <= CLEAR
    assert fault.how is KILL or set(told) & CLEAR
