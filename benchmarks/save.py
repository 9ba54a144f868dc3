"""One save on SQLite beside a raw driver transaction: the same bytes, the same full-text row, the same durability.

`python -m benchmarks.save [--saves N]`
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.table import show
from benchmarks.thread import growing
from locus._sync import drive
from locus.memory.backends import SQLiteCheckpointer

_TABLE = """
CREATE TABLE raw (id INTEGER PRIMARY KEY, part INTEGER NOT NULL, sort TEXT NOT NULL, body TEXT NOT NULL,
    UNIQUE (part, sort));
CREATE VIRTUAL TABLE words USING fts5(text, content='', tokenize='porter unicode61 remove_diacritics 2');
"""


def main(saves: int = 1000) -> None:
    """Measure raw, sync and async in turns and print the ratios."""
    with tempfile.TemporaryDirectory() as folder:
        raw, sync, coroutine = asyncio.run(_measure(Path(folder), saves))
        shared = asyncio.run(_together(Path(folder), saves))
    rows = [
        ["raw sqlite3 transaction", f"{raw:.3f}", "1.00"],
        ["save, sync", f"{sync:.3f}", f"{sync / raw:.2f}"],
        ["save, awaited", f"{coroutine:.3f}", f"{coroutine / raw:.2f}"],
        ["save, 32 threads awaited together", f"{shared:.3f}", f"{shared / raw:.2f}"],
    ]
    show(f"one save on SQLite, synchronous=FULL (median ms of {saves})", ["", "ms", "x raw"], rows)


async def _measure(folder: Path, saves: int) -> tuple[float, float, float]:
    raw = _raw(folder / "raw.db")
    one, other = SQLiteCheckpointer(folder / "sync.db"), SQLiteCheckpointer(folder / "async.db")
    times: tuple[list[float], list[float], list[float]] = ([], [], [])
    for at, state in enumerate(growing(saves)):
        began = time.perf_counter()
        drive(one.save(state, "thread"))
        times[1].append(time.perf_counter() - began)
        body, text = _stored(folder / "sync.db", at + 1), state.messages[-1].text
        began = time.perf_counter()
        raw.execute("BEGIN IMMEDIATE")
        raw.execute("INSERT INTO raw (part, sort, body) VALUES (1, ?, ?)", (f"n{at:012d}", body))
        raw.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (at + 1, text))
        raw.execute("COMMIT")
        times[0].append(time.perf_counter() - began)
        began = time.perf_counter()
        await other.save(state, "thread")
        times[2].append(time.perf_counter() - began)
    raw.close()
    await one.close()
    await other.close()
    medians = [statistics.median(series) * 1000 for series in times]
    return medians[0], medians[1], medians[2]


def _raw(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA page_size = 8192")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.executescript(_TABLE)
    return connection


def _stored(path: Path, record: int) -> str:
    """The body that was just stored, so that the raw transaction writes the same bytes."""
    with sqlite3.connect(path) as connection:
        body = connection.execute("SELECT body FROM locus_checkpoints WHERE id = ?", (record,)).fetchone()[0]
    connection.close()
    return str(body)


async def _together(folder: Path, saves: int) -> float:
    """Milliseconds per save when 32 threads are saved at once and share their commits."""
    checkpointer = SQLiteCheckpointer(folder / "together.db")
    states = list(growing(max(2, saves // 32)))
    began = time.perf_counter()
    for state in states:
        await asyncio.gather(*(checkpointer.save(state, f"thread {at}") for at in range(32)))
    spent = time.perf_counter() - began
    await checkpointer.close()
    return spent / (len(states) * 32) * 1000


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--saves", type=int, default=1000)
    main(parser.parse_args().saves)
