"""Processes that hold threads: one that is killed holds nothing any more, and neither does a forked child."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from locus._sync import drive
from locus.errors import ThreadBusyError
from locus.memory import get_checkpointer
from locus.memory.durable import DurableCheckpointer
from locus.memory.log.lease import keeper
from locus.memory.run import Turn
from locus.memory.testing.rules import said, texts

HOLDER = """
import asyncio, sys
from locus.memory import get_checkpointer
from locus.memory.run import Turn
from locus.memory.testing.rules import said

async def main():
    run = await get_checkpointer(sys.argv[1]).begin("thread")
    await run.append(said("begun"), Turn("turn", "replied"))
    await run.settle("call", {"result": "done"})
    print("held", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.fixture(params=["file", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"file://{tmp_path}/threads" if request.param == "file" else f"sqlite:///{tmp_path}/threads.db"


@pytest.fixture
def checkpointer(url: str) -> Iterator[DurableCheckpointer]:
    checkpointer = get_checkpointer(url)
    yield checkpointer
    drive(checkpointer.close())


def held_by_a_process(url: str) -> subprocess.Popen[str]:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, url], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline().strip() == "held"
    return holder


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_thread_of_a_process_that_was_ended_is_free_at_once(
    url: str, checkpointer: DurableCheckpointer, how: signal.Signals
) -> None:
    with held_by_a_process(url) as holder:
        with pytest.raises(ThreadBusyError):
            drive(checkpointer.begin("thread"))
        holder.send_signal(how)
        assert holder.wait(timeout=20) == -how
    run = drive(checkpointer.begin("thread"))
    assert (texts(run.state), run.turn) == (["begun"], Turn("turn", "replied"))
    assert drive(run.settled()) == {"call": {"result": "done"}}
    drive(run.append(said("finished", after=run.state), Turn("turn", "done")))
    drive(run.release())
    assert texts(drive(checkpointer.load("thread"))) == ["begun", "finished"]


def test_a_zombie_holds_nothing(url: str, checkpointer: DurableCheckpointer) -> None:
    with held_by_a_process(url) as holder:
        os.kill(holder.pid, signal.SIGKILL)
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet waited for
        run = drive(checkpointer.begin("thread"))
        drive(run.release())


def test_a_stopped_process_keeps_its_thread(url: str, checkpointer: DurableCheckpointer) -> None:
    with held_by_a_process(url) as holder:
        holder.send_signal(signal.SIGSTOP)
        with pytest.raises(ThreadBusyError):
            drive(checkpointer.begin("thread"))
        holder.send_signal(signal.SIGCONT)
        holder.kill()


def test_a_forked_child_holds_nothing(checkpointer: DurableCheckpointer) -> None:
    run = drive(checkpointer.begin("thread"))
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what this is about
        child = os.fork()
    if child == 0:
        try:
            os.write(writing, b"holds" if keeper()._leases else b"free")
        finally:
            os._exit(0)
    os.close(writing)
    assert os.read(reading, 10) == b"free"
    os.close(reading)
    os.waitpid(child, 0)
    run.check()
    drive(run.append(said("still the parent's"), Turn("turn", "done")))
    drive(run.release())
