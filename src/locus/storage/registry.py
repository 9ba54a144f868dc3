"""Storages by URL: which class a scheme means, imported only when it is used."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar, cast
from urllib.parse import parse_qsl

from locus.errors import ConfigError, InputError
from locus.storage.base import Storage

__all__ = ["known_schemes", "open_storage", "register"]

ENTRY_POINTS = "locus.storages"
_TRUE, _FALSE = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0"})

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Row:
    target: str
    extra: str | None = None


_rows: dict[str, _Row] = {
    "file": _Row("locus.storage.file:FileStorage"),
    "memory": _Row("locus.storage.memory:MemoryStorage"),
    "sqlite": _Row("locus.storage.sqlite:SQLiteStorage"),
}


def register(scheme: str, target: str, *, extra: str | None = None) -> None:
    """Let URLs of `scheme` open the storage class at `target` (`"package.module:Class"`).

    `extra` is what to install when its driver is missing. The class has `from_url(url, **options)`. An installed
    package does the same by an entry point of group `locus.storages`, named as the scheme.
    """
    if ":" not in target:
        raise ConfigError(f"{target!r} must name a class as 'package.module:Class'")
    _rows[scheme] = _Row(target, extra)


def known_schemes() -> list[str]:
    """The schemes that a URL may have here."""
    return sorted({*_rows, *_plugins()})


def open_storage(url: str, **options: Any) -> Storage:  # Any: each storage has its own options
    """The storage that `url` names: `sqlite:///file.db`, `file:///dir`, `memory://`, and what is registered.

    Options may be given here or as the URL's query (`file:///dir?pretty=false`); an unknown one is an error.
    """
    scheme, found, rest = str(url).partition("://")
    if not found:
        raise ConfigError(f"a storage URL begins with one of {_offer(known_schemes())}, as in sqlite:///file.db")
    target = _load(scheme)
    address, _, query = rest.partition("?")
    given = dict(parse_qsl(query, keep_blank_values=True))
    both = given.keys() & options.keys()
    if both:
        raise ConfigError(f"option {min(both)!r} is given both in the storage URL and as an argument")
    chosen = _checked(target, scheme, {**given, **options})
    try:
        return cast("Storage", target.from_url(f"{scheme}://{address}", **chosen))
    except InputError as error:
        raise ConfigError(str(error)) from error


def _load(scheme: str) -> Any:  # a class with `from_url`, of ours or a third party's
    row = _rows.get(scheme)
    plugin = None if row else _plugins().get(scheme)
    if row is None and plugin is None:
        raise ConfigError(_unknown(scheme))
    try:
        if plugin is not None:
            return plugin.load()
        module, _, name = cast("_Row", row).target.partition(":")
        return getattr(importlib.import_module(module), name)
    except ImportError as error:
        extra = row.extra if row else None
        install = f"pip install 'locus-memory[{extra}]'" if extra else f"install {error.name or 'its driver'}"
        raise ConfigError(f"{scheme}:// needs a driver that is not installed ({error}); {install}") from error


def _plugins() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


def _unknown(scheme: str) -> str:
    known = known_schemes()
    close = difflib.get_close_matches(scheme.lower(), known, n=1)
    way_out = f"did you mean {close[0]!r}?" if close else f"known: {_offer(known)}"
    return f"unknown scheme {_shown(scheme)!r} in storage URL; {way_out}"


def _shown(scheme: str) -> str:
    """A scheme to print: of a malformed URL it may be the whole beginning, with a password in it."""
    return scheme if len(scheme) <= 30 and scheme.replace("+", "").replace("-", "").isalnum() else "..."


def _offer(names: list[str]) -> str:
    return ", ".join(names) or "none"


def _checked(target: Any, scheme: str, options: Mapping[str, object]) -> dict[str, object]:
    known = _options_of(target)
    if known is None:
        return dict(options)
    for name in options:
        if name not in known:
            raise ConfigError(f"unknown option {name!r} in {scheme}:// storage URL; known: {_offer(sorted(known))}")
    return {name: _converted(name, value, known[name]) for name, value in options.items()}


def _options_of(target: Any) -> dict[str, object] | None:
    """The options a storage takes and their defaults, by `from_url` or, where that takes any, by the class; None: any."""
    for function in (target.from_url, target.__init__):
        parameters = inspect.signature(function).parameters.values()
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            return {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY}
    return None


def _converted(name: str, value: object, default: object) -> object:
    """Text from a query as the kind of value that the option's default is."""
    if not isinstance(value, str) or default is None or isinstance(default, str):
        return value
    if isinstance(default, bool):
        if value.lower() in _TRUE | _FALSE:
            return value.lower() in _TRUE
        raise ConfigError(f"option {name!r} must be true or false, not {value!r}")
    if isinstance(default, int | float):
        try:
            return type(default)(value)
        except ValueError as error:
            raise ConfigError(f"option {name!r} must be a number, not {value!r}") from error
    return value
