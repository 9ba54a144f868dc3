"""Names and ids: how any string becomes a safe key, and how new unique ids are made."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import threading
import time

from locus.errors import InputError

__all__ = ["check_name", "encode_name", "new_id", "new_token"]

_SAFE = re.compile(r"[a-z0-9_-]+\Z")
_KEPT = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
_LONGEST = 48
_HEAD = 15


def check_name(value: object, what: str = "id") -> str:
    """Return `value` if it can be an id: any non-empty string can, nothing else can."""
    if not isinstance(value, str):
        raise InputError(f"{what} must be a string, not {type(value).__name__}")
    if not value:
        raise InputError(f"{what} must not be empty")
    return value


def encode_name(name: str) -> str:
    """Map any non-empty string to at most 48 ASCII bytes of one case, distinct names to distinct codes.

    Letters a-z, digits, `-` and `_` stay; every other UTF-8 byte becomes `%xx`. What is then longer than 48 bytes
    becomes its first 15 bytes, `~`, and 160 bits of SHA-256 in base32, so a stored record keeps the original name
    and readers compare it.
    """
    if len(name) <= _LONGEST and _SAFE.match(name):
        return name
    raw = check_name(name, "name").encode("utf-8", "surrogatepass")
    code = "".join(chr(b) if b in _KEPT else f"%{b:02x}" for b in raw)
    if len(code) <= _LONGEST:
        return code
    digest = base64.b32encode(hashlib.sha256(raw).digest()[:20]).decode("ascii").lower()
    return f"{code[:_HEAD]}~{digest}"


def new_token() -> str:
    """A random token, unique for one logical write."""
    return os.urandom(9).hex()


_last = 0
_lock = threading.Lock()


def new_id(prefix: str = "") -> str:
    """A unique id that sorts by the time it was made (within one process strictly)."""
    global _last
    with _lock:
        _last = max(_last + 1, time.time_ns() // 1000)
        stamp = _last
    return f"{prefix}{stamp:014x}{os.urandom(6).hex()}"


def _fresh_lock_after_fork() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fresh_lock_after_fork)
