"""The files of `FileStorage`: what is in them, and what their directories are called."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from locus._ids import encode_name
from locus.errors import CorruptRecordError
from locus.storage.base import Key, Record

__all__ = ["META", "PartMeta", "decode_directory", "decode_records", "encode_directory", "encode_record"]

META = "+part.json"
"""Beside the records of a part: what holds for all of them. `+` cannot begin a sort."""

_LONGEST = 240
_HEAD = 150
_PRETTY_CHARACTERS = 20_000  # beyond this, indenting costs more than the disk does
_ESCAPE = re.compile(r"%([0-9a-f]{2})")


@dataclass(frozen=True, slots=True)
class PartMeta:
    """What is known of a part besides its records: absent unless something needs saying.

    `names` are kept when the directory's name does not tell them, `expires_at` is that of a whole part of a log space,
    `expiring` is whether some record elsewhere was ever given an end.
    """

    names: tuple[str, ...] | None = None
    expires_at: float | None = None
    expiring: bool = False

    def expired(self, now: float) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, raw: bytes, path: str) -> PartMeta:
        try:
            fields = json.loads(raw)
            names = fields["names"]
            return cls(None if names is None else tuple(names), fields["expires_at"], fields["expiring"])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptRecordError(f"{path} is damaged: {error!r}; restore it or remove its directory") from error


def encode_directory(part: tuple[str, ...]) -> str:
    """The name of a part's directory: its encoded names joined by `+`, the end hashed if that is over 240 bytes."""
    name = "+".join(map(encode_name, part))
    if len(name) <= _LONGEST:
        return name
    # No encoded name begins with `~`, so this is never the name of another part.
    return f"{name[:_HEAD]}+~{hashlib.sha256(name.encode()).hexdigest()[:40]}"


def decode_directory(name: str) -> tuple[str, ...] | None:
    """The names of the part in a directory; None if a hash hides them."""
    if "~" in name:
        return None
    if "%" not in name:
        return tuple(name.split("+"))
    try:
        return tuple(_decode_name(code) for code in name.split("+"))
    except ValueError:  # not a directory of ours
        return None


def _decode_name(code: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), code).encode("latin-1").decode("utf-8", "surrogatepass")


def encode_record(record: Record, body_json: str, *, pretty: bool) -> bytes:
    """The content of a record's file: a line for each field when `pretty`."""
    fields: dict[str, Any] = {  # JSON
        "space": record.key.space,
        "part": record.key.part,
        "sort": record.key.sort,
        "rev": record.rev,
        "token": record.token,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "expires_at": record.expires_at,
        "tags": dict(record.tags),
        "text": record.text,
        "vector": record.vector,
        "blob": None if record.blob is None else base64.b64encode(record.blob).decode("ascii"),
    }
    written = [f'"{name}": {_encode(value)}' for name, value in fields.items() if value not in (None, {})]
    if not pretty:
        return f'{{{",".join(written)},"body":{body_json}}}'.encode()
    lines = ",\n  ".join([*written, f'"body": {_indented(body_json)}'])
    return f"{{\n  {lines}\n}}\n".encode()


def _encode(value: Any) -> str:  # JSON
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # lone surrogates travel as escapes
        return json.dumps(value)
    return text


def _indented(body_json: str) -> str:
    if len(body_json) > _PRETTY_CHARACTERS:
        return body_json
    text = json.dumps(json.loads(body_json), indent=2, ensure_ascii=body_json.isascii())
    return text.replace("\n", "\n  ")


def decode_records(files: Sequence[tuple[Key, str, bytes]], meta: PartMeta, *, log: bool) -> list[Record]:
    """The records in files of one part, given as key, path and content.

    One parse of the joined contents costs a fraction of one parse each; what does not come out as it should is looked
    at alone, so that the error names the file.
    """
    try:
        parsed = json.loads(b"[" + b",".join([raw for _, _, raw in files]) + b"]")
    except (ValueError, RecursionError):
        parsed = []
    if len(parsed) != len(files):
        parsed = [_parse(raw, path) for _, path, raw in files]
    records = [_record(key, path, fields) for (key, path, _), fields in zip(files, parsed, strict=True)]
    if log:
        for record in records:
            record.expires_at = meta.expires_at
    return records


def _parse(raw: bytes, path: str) -> object:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise CorruptRecordError(f"{path} is damaged: {error}; restore it from a copy or remove it") from error


def _record(key: Key, path: str, fields: Any) -> Record:  # JSON
    try:
        if (fields["part"], fields["sort"], fields["space"]) != ([*key.part], key.sort, key.space):
            raise ValueError(f"it holds the record {fields['space']}/{fields['part']}/{fields['sort']}")
        if not isinstance(fields["body"], dict):
            raise TypeError("its body is not a JSON object")
        vector = fields.get("vector")
        blob = fields.get("blob")
        return Record(
            key,
            fields["body"],
            fields["rev"],
            fields["token"],
            float(fields["created_at"]),
            float(fields["updated_at"]),
            fields.get("expires_at"),
            fields.get("tags", {}),
            fields.get("text"),
            None if vector is None else tuple(vector),
            None if blob is None else base64.b64decode(blob, validate=True),
        )
    except (KeyError, TypeError, ValueError, AttributeError, binascii.Error) as error:
        raise CorruptRecordError(f"{path} is damaged: {error!r}; restore it from a copy or remove it") from error
