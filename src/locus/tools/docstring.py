"""Reading a docstring: what a function is for, and what each argument means."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

__all__ = ["parse_docstring"]

_HEADER = re.compile(
    r"(Args|Arguments|Parameters|Params|Returns?|Yields?|Raises|Examples?|Notes?|Attributes|See Also|Warnings?):\s*$"
)
_ARGUMENTS = frozenset({"Args", "Arguments", "Parameters", "Params"})
_ARGUMENT = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)$")


def parse_docstring(doc: str | None) -> tuple[str, dict[str, str]]:
    """Return the text before the first section, and the descriptions in a Google-style `Args:` section by name."""
    description: list[str] = []
    arguments: dict[str, str] = {}
    for section, lines in _sections(inspect.cleandoc(doc or "")):
        if section is None:
            description = lines
        elif section in _ARGUMENTS:
            arguments.update(_arguments(lines))
    return "\n".join(description).strip(), arguments


def _sections(text: str) -> Iterator[tuple[str | None, list[str]]]:
    name: str | None = None
    lines: list[str] = []
    for line in text.splitlines():
        header = _HEADER.match(line)
        if header is None:
            lines.append(line)
            continue
        yield name, lines
        name, lines = header.group(1), []
    yield name, lines


def _arguments(lines: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    depth = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    for line in lines:
        match = _ARGUMENT.match(line[depth:])
        if match is not None:
            current = found.setdefault(match["name"], [])
            current.append(match["text"].strip())
        elif current is not None and line.strip():
            current.append(line.strip())
    return {name: " ".join(parts).strip() for name, parts in found.items()}
