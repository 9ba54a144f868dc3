"""Metadata as tags: what checkpoints are found by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from locus._ids import check_name
from locus.errors import InputError
from locus.storage.base import Scalar

__all__ = ["metadata_tags", "metadata_where"]


def metadata_tags(metadata: Mapping[str, Any]) -> dict[str, Scalar]:
    """A tag for each metadata field; lists and dicts are compared as canonical JSON."""
    tags: dict[str, Scalar] = {}
    for name, value in metadata.items():
        tag, scalar = _tag(name, value)
        tags[tag] = scalar
    return tags


def metadata_where(name: str, value: Any) -> dict[str, Scalar]:
    """The filter for one metadata field."""
    tag, scalar = _tag(check_name(name, "a metadata key"), value)
    return {tag: scalar}


def _tag(name: str, value: Any) -> tuple[str, Scalar]:
    if value is None or isinstance(value, str | int | float | bool):
        return f"m.{name}", value
    try:
        return f"j.{name}", json.dumps(value, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"metadata {name!r} must be plain JSON, not nested too deeply: {error}") from error
