"""What a tool returned, as the text that the model reads."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

from pydantic import BaseModel
from pydantic_core import to_json, to_jsonable_python

__all__ = ["render_result"]

SUCCESS = "Done. The tool finished without returning a value."


def render_result(value: object) -> str:
    """None -> a plain success text; text as it is; dicts, lists, models and dataclasses -> JSON; all else `str`."""
    if value is None:
        return SUCCESS
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        if isinstance(value, (Mapping, list, tuple, set, frozenset, BaseModel)) or _is_dataclass(value):
            return _json(value)
        return str(value)
    except Exception as error:  # noqa: BLE001  # whatever the value raises: the tool has run, and must not pass for failed
        return f"Done. What the tool returned ({type(value).__name__}) cannot be shown: {error}"


def _json(value: object) -> str:
    # inf and nan have no JSON, and a value of an unknown class should not fail the call: both become text.
    try:
        return to_json(value, fallback=str, inf_nan_mode="strings").decode("utf-8")
    except ValueError:  # a lone surrogate, or bytes that are no text: escaped, or as base64, they can be sent
        return json.dumps(to_jsonable_python(value, fallback=str, inf_nan_mode="strings", bytes_mode="base64"))


def _is_dataclass(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)
