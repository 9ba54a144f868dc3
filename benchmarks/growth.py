"""A thread of 2,000 messages, a save after each: what a save costs at the end, what it takes on disk, what a load costs.

`python -m benchmarks.growth [--messages N]`
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.table import bars, show
from benchmarks.thread import growing
from locus._sync import drive
from locus.core.state import AgentState
from locus.memory.backends import FileCheckpointer, MemoryCheckpointer, SQLiteCheckpointer
from locus.memory.durable import DurableCheckpointer

STORAGES: dict[str, Callable[[Path], DurableCheckpointer]] = {
    "memory": lambda _: MemoryCheckpointer(),
    "sqlite": lambda path: SQLiteCheckpointer(path / "bench.db"),
    "file": lambda path: FileCheckpointer(path / "files"),
}


def main(messages: int = 2000) -> None:
    """Measure every storage and print one table."""
    rows = []
    for name, make in STORAGES.items():
        with tempfile.TemporaryDirectory() as folder:
            rows.append([name, *_measure(name, make(Path(folder)), Path(folder), messages)])
    head = ["storage", "first 100", "last 100", "ratio", "on disk", "load", "x state parse", "x json.loads", "list 100"]
    show(f"{messages} messages of 400 characters, one save after each (ms, medians; loads are cold)", head, rows)


def _measure(name: str, checkpointer: DurableCheckpointer, folder: Path, messages: int) -> list[str]:
    costs: list[float] = []
    state = AgentState()
    for state in growing(messages):
        began = time.perf_counter()
        drive(checkpointer.save(state, "thread"))
        costs.append((time.perf_counter() - began) * 1000)
        if sys.stderr.isatty() and len(costs) % 100 == 0:
            print(f"\r  {name}: {len(costs)} of {messages}", end="\r", file=sys.stderr)
    bars(f"{name:8} cost of a save as the thread grows", costs, "ms")
    text = state.model_dump_json()
    load, parse, plain = _alternately(
        lambda: drive(DurableCheckpointer(checkpointer.storage).load("thread")),
        lambda: AgentState.model_validate_json(text),
        lambda: json.loads(text),
    )
    listing = _alternately(lambda: drive(DurableCheckpointer(checkpointer.storage).list_checkpoints("thread", 100)))[0]
    loaded = drive(DurableCheckpointer(checkpointer.storage).load("thread"))
    if loaded != state:
        raise SystemExit(f"{name}: what was loaded is not what was saved")
    drive(checkpointer.close())
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    first, last = statistics.median(costs[:100]), statistics.median(costs[-100:])
    return [
        f"{first:.3f}",
        f"{last:.3f}",
        f"{last / first:.2f}",
        f"{size / 1e6:.2f} MB" if size else "-",
        f"{load:.1f}",
        f"{load / parse:.1f}",
        f"{load / plain:.1f}",
        f"{listing:.1f}",
    ]


def _alternately(*acts: Callable[[], Any], rounds: int = 15) -> list[float]:
    """The median milliseconds of each, taken in turns so that a busy moment hits all alike."""
    times: list[list[float]] = [[] for _ in acts]
    for _ in range(rounds):
        for at, act in enumerate(acts):
            gc.collect()
            began = time.perf_counter()
            act()
            times[at].append((time.perf_counter() - began) * 1000)
    return [statistics.median(one) for one in times]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2000)
    main(parser.parse_args().messages)
