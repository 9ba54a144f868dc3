"""One save on SQLite beside a raw driver transaction: the same bytes, the same full-text row, the same durability.

`python -m benchmarks.save [--saves N]`
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sqlite3
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path

from benchmarks.table import show
from benchmarks.thread import growing
from locus._sync import drive
from locus.memory.backends import SQLiteCheckpointer

_TABLE = """
CREATE TABLE raw (id INTEGER PRIMARY KEY, part INTEGER NOT NULL, sort TEXT NOT NULL, rev INTEGER NOT NULL,
    token TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL, body TEXT NOT NULL, UNIQUE (part, sort));
CREATE VIRTUAL TABLE words USING fts5(text, content='', tokenize='porter unicode61 remove_diacritics 2');
"""


def main(saves: int = 1000) -> None:
    """Measure all in turns and print the ratios: a call beside a call, an awaited one beside an awaited one."""
    with tempfile.TemporaryDirectory() as folder:
        raw, sync, threaded, awaited = asyncio.run(_measure(Path(folder), saves))
        shared = asyncio.run(_together(Path(folder), saves))
    rows = [
        ["raw sqlite3 transaction", f"{raw:.3f}", "1.00"],
        ["save, sync", f"{sync:.3f}", f"{sync / raw:.2f}"],
        ["raw transaction, awaited (asyncio.to_thread)", f"{threaded:.3f}", "1.00"],
        ["save, awaited", f"{awaited:.3f}", f"{awaited / threaded:.2f}"],
        ["save, 32 threads awaited together, each", f"{shared:.3f}", f"{shared / threaded:.2f}"],
    ]
    show(f"one save on SQLite, synchronous=FULL (median ms of {saves})", ["", "ms", "x raw"], rows)


async def _measure(folder: Path, saves: int) -> list[float]:
    """Median milliseconds of each, in turns and in changing order, so that all meet the same disk."""
    bodies = _bodies(folder / "bodies.db", saves)
    raw, threaded = _raw(folder / "raw.db"), _raw(folder / "threaded.db")
    one, other = SQLiteCheckpointer(folder / "sync.db"), SQLiteCheckpointer(folder / "async.db")
    times: tuple[list[float], ...] = ([], [], [], [])
    for at, state in enumerate(growing(saves)):
        row = (at, bodies[at], state.messages[-1].text)
        for turn in range(4):
            kind = (at + turn) % 4
            began = time.perf_counter()
            if kind == 0:
                _transaction(raw, *row)
            elif kind == 1:
                drive(one.save(state, "thread"))
            elif kind == 2:
                await asyncio.to_thread(_transaction, threaded, *row)
            else:
                await other.save(state, "thread")
            times[kind].append(time.perf_counter() - began)
    raw.close()
    threaded.close()
    await one.close()
    await other.close()
    return [statistics.median(series) * 1000 for series in times]


def _transaction(raw: sqlite3.Connection, at: int, body: str, text: str) -> None:
    raw.execute("BEGIN IMMEDIATE")
    now = time.time()
    row = (1, f"n{at:012d}", secrets.randbits(63), secrets.token_hex(9), now, now, body)
    raw.execute("INSERT INTO raw (part, sort, rev, token, created, updated, body) VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    raw.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (at + 1, text))
    raw.execute("COMMIT")


def _bodies(path: Path, saves: int) -> list[str]:
    """What Locus stores for each save, so that the raw transactions write the same bytes."""
    checkpointer = SQLiteCheckpointer(path, durability="process")
    for state in growing(saves):
        drive(checkpointer.save(state, "thread"))
    drive(checkpointer.close())
    with closing(sqlite3.connect(path)) as connection:
        return [str(body) for (body,) in connection.execute("SELECT body FROM locus_checkpoints ORDER BY id")]


def _raw(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA page_size = 8192")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.executescript(_TABLE)
    return connection


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
