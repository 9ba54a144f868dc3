"""What the tests of SQLite share: records to write, and ways to look at the file past the storage."""

from __future__ import annotations

import hashlib
import os
import random
import sqlite3
import struct
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path
from typing import Any

from locus.storage.base import ABSENT, Key, Put

PART = ("thread",)
WORDS = [
    "".join(random.Random(seed).choices("abcdefghijklmnopqrstuvwxyz", k=2 + seed % 8)) for seed in range(3_000)
]  # fmt: skip


def key(sort: int | str, part: tuple[str, ...] = PART, space: str = "notes") -> Key:
    return Key(space, part, f"{sort:06d}" if isinstance(sort, int) else sort)


def message(number: int) -> Put:
    """About 650 bytes of body with 400 characters of text."""
    chosen = random.Random(number)
    text = ""
    while len(text) < 400:
        text += chosen.choice(WORDS) + " "
    return Put(key(number), {"text": text, "rest": "x" * (620 - len(text))}, ABSENT, text=text)


def transactions(path: Path) -> int:
    """How many transactions the write-ahead log holds: frames that end one carry the size of the file."""
    log = Path(f"{path}-wal").read_bytes()
    page, salt = struct.unpack_from(">I", log, 8)[0], log[16:24]
    frames = range(32, len(log) - page - 23, page + 24)
    return sum(log[at + 8 : at + 16] == salt and log[at + 4 : at + 8] != b"\0\0\0\0" for at in frames)


def execute(path: Path, sql: str, *bound: object) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(sql, bound).fetchall()


def contents(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    prelude = (
        "import sys, time\n"
        "from locus.errors import *\n"
        "from locus.storage.base import *\n"
        "from locus.storage.sqlite import SQLiteStorage\n"
        "from locus.storage.sync import SyncStorage\n"
    )
    command = [sys.executable, "-c", prelude + textwrap.dedent(code), *map(str, arguments)]
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
    )


def finish(processes: list[subprocess.Popen[str]]) -> list[str]:
    answers = [process.communicate(timeout=60) for process in processes]
    assert [(process.returncode, error) for process, (_, error) in zip(processes, answers, strict=True)] == [
        (0, "") for _ in processes
    ]
    return [out for out, _ in answers]


def wal_of(path: Path) -> Path:
    return Path(f"{path}-wal")
