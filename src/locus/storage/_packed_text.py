"""A record's text without a second copy: most often it stands in the body already, and a reference will do."""

from __future__ import annotations

import json
import struct

from locus.errors import CorruptRecordError
from locus.storage._json import encode_checked

__all__ = ["pack_text", "unpack_text"]

_REFERENCE = struct.Struct("<II")


def pack_text(text: str | None, body_json: str) -> str | bytes | None:
    """References into the body's JSON, to the text as a whole or to each of its lines; the text where there is none."""
    if not text:
        return text
    return _references([text], body_json) or _references(text.split("\n"), body_json) or text


def unpack_text(stored: str | bytes | None, body_json: str) -> str | None:
    """The text that was packed with this body."""
    if not isinstance(stored, bytes):
        return stored
    try:
        pieces = [body_json[at : at + length] for at, length in _REFERENCE.iter_unpack(stored)]
        return "\n".join([json.loads(f'"{piece}"') for piece in pieces])
    except (ValueError, struct.error) as error:
        raise CorruptRecordError(f"the text of a record does not stand in its body: {error}") from error


def _references(pieces: list[str], body_json: str) -> bytes | None:
    packed = bytearray()
    at = 0
    for piece in pieces:
        code = encode_checked(piece)[1:-1]
        found = body_json.find(code, at)
        if found < 0 or len(packed) > len(body_json):
            return None
        packed += _REFERENCE.pack(found, len(code))
        at = found + len(code)
    return bytes(packed) if len(packed) < sum(map(len, pieces)) else None
