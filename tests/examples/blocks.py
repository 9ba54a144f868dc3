"""The Python blocks of a Markdown file, and a program that runs them in order, as a reader would.

    python blocks.py DIRECTORY FILE.md ...

Each file's blocks run in a directory of their own below the given one. A block is left out when the line before it is
`<!-- not run: reason -->`. Blocks may `await`, as in `python -m asyncio`; all blocks of a file share their names and one
event loop. Where a line ends with `# -> text`, or is that alone, the block must print the text, in this order.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

FENCE = re.compile(r"^```(\w*)\s*$")
NOT_RUN = re.compile(r"^<!-- not run: \S.* -->$")
EXPECTED = re.compile(r"# -> (.+)$", re.MULTILINE)


class Block(NamedTuple):
    line: int
    code: str
    runs: bool


def blocks(path: Path) -> Iterator[Block]:
    """The blocks marked as Python."""
    before, language, begun, code = "", "", 0, list[str]()
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        fence = FENCE.match(line)
        if fence and not begun:
            language, begun, code = fence[1], number, []
        elif fence:
            if language == "python":
                yield Block(begun + 1, "\n".join(code), not NOT_RUN.match(before))
            begun, before = 0, ""
        elif begun:
            code.append(line)
        elif line.strip():
            before = line


def compiled(block: Block, path: Path) -> CodeType:
    """The block with the line numbers of its file."""
    source = "\n" * (block.line - 1) + block.code
    code: CodeType = compile(source, str(path), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return code


async def run(path: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(path):
        if not block.runs:
            continue
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            value = eval(compiled(block, path), names)
            if inspect.isawaitable(value):
                await value
        rest = said.getvalue()
        for expected in EXPECTED.findall(block.code):
            _, found, rest = rest.partition(expected.strip())
            if not found:
                sys.exit(f"{path.name}:{block.line}: {expected!r} was not printed; it printed:\n{said.getvalue()}")


if __name__ == "__main__":
    for path in map(Path, sys.argv[2:]):
        directory = Path(sys.argv[1], path.stem)
        directory.mkdir()
        os.chdir(directory)
        asyncio.run(run(path))
        sys.stdout.write(f"{path.name}\n")
