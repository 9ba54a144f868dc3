"""What is said in a conversation: messages, the parts of their content, and the tool calls they carry."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, PlainValidator
from pydantic_core import CoreSchema, PydanticSerializationError, ValidationError, core_schema, to_jsonable_python

from locus._ids import new_id

__all__ = [
    "Content",
    "FilePart",
    "Frozen",
    "ImagePart",
    "JsonObject",
    "Message",
    "OpaquePart",
    "Part",
    "Role",
    "Text",
    "TextPart",
    "ToolCall",
]


class _AnyText:
    """pydantic's own `str` refuses lone surrogates, which tools and broken terminals do produce; this keeps them."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.json_or_python_schema(
            json_schema=core_schema.str_schema(), python_schema=core_schema.is_instance_schema(str)
        )


Text = Annotated[str, _AnyText()]


class _AnyKeys:
    """A dict of declared key type would have lone surrogates in its keys replaced silently; one of "any" says so."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.dict_schema(
            handler.generate_schema(Text), core_schema.any_schema(), serialization=core_schema.simple_ser_schema("any")
        )


JsonObject = Annotated[dict[str, Any], _AnyKeys()]  # JSON of somebody else: of a model, a tool or the caller


class Frozen(BaseModel):
    """Base of the values that are stored: immutable, no unknown fields, JSON that carries any text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def model_dump_json(self, **options: Any) -> str:  # the options are pydantic's own
        """JSON as pydantic writes it; where a text holds a lone surrogate, the same JSON with ASCII escapes."""
        try:
            return super().model_dump_json(**options)
        except (PydanticSerializationError, UnicodeEncodeError):
            indent = options.pop("indent", None)
            options.pop("ensure_ascii", None)
            separators = None if indent else (",", ":")
            body = self.model_dump(**options)
            return json.dumps(body, indent=indent, separators=separators, default=to_jsonable_python)

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """Read what `model_dump_json` wrote, escaped lone surrogates included."""
        try:
            return super().model_validate_json(json_data, **options)
        except ValidationError as error:
            if not any(detail["type"] == "json_invalid" for detail in error.errors(include_context=False)):
                raise
            try:
                value = json.loads(json_data)
            except ValueError:
                raise error from None  # it is no JSON for anybody: pydantic's message says where
            return cls.model_validate(value, **options)


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ToolCall(Frozen):
    """A model's wish to run a tool. The id is made when the provider gave none."""

    id: Text = Field(default_factory=lambda: new_id("call_"))
    name: Text
    arguments: JsonObject = Field(default_factory=dict)
    idempotency_key: Text | None = None


class TextPart(Frozen):
    """Text among other parts."""

    type: Literal["text"] = "text"
    text: Text


class ImagePart(Frozen):
    """An image, by address or as base64."""

    type: Literal["image"] = "image"
    url: Text | None = None
    data: Text | None = None
    media_type: Text | None = None


class FilePart(Frozen):
    """A file, by address, by a provider's id, or as base64."""

    type: Literal["file"] = "file"
    url: Text | None = None
    file_id: Text | None = None
    data: Text | None = None
    name: Text | None = None
    media_type: Text | None = None


OpaquePart: TypeAlias = dict[str, Any]
"""A provider's own block, such as signed reasoning. Nobody here reads it, so it is kept exactly as it came."""

_KNOWN: Mapping[str, type[TextPart | ImagePart | FilePart]] = {"text": TextPart, "image": ImagePart, "file": FilePart}
_FIELDS = {name: frozenset(part.model_fields) for name, part in _KNOWN.items()}


def _part(value: object) -> TextPart | ImagePart | FilePart | OpaquePart:
    """Ours when every key of it is ours; anything else is a provider's, and is not touched."""
    if isinstance(value, TextPart | ImagePart | FilePart):
        return value
    if isinstance(value, str):
        return TextPart(text=value)
    if not isinstance(value, dict):
        raise ValueError(f"a part is a text, a part object or a dict, not {type(value).__name__}")
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _KNOWN or not value.keys() <= _FIELDS[kind]:
        return value
    try:
        return _KNOWN[kind].model_validate(value)
    except ValidationError:
        return value


def _parts(value: object) -> tuple[TextPart | ImagePart | FilePart | OpaquePart, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"content is a text, None or a list of parts, not {type(value).__name__}")
    return tuple(_part(item) for item in value)


Part = TextPart | ImagePart | FilePart | OpaquePart
Content = Annotated[
    # Nearly every message is plain text: tried first, at the cost of one type check.
    Text | Annotated[tuple[Part, ...], PlainValidator(_parts, json_schema_input_type=list[Part])] | None,
    Field(union_mode="left_to_right"),
]


class Message(Frozen):
    """One message of a conversation."""

    role: Role
    content: Content = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: Text | None = None
    name: Text | None = None
    metadata: JsonObject = Field(default_factory=dict)

    @property
    def text(self) -> str:
        """The plain text of the content: its text parts, a line each."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        return "\n".join(part.text for part in self.content if isinstance(part, TextPart))

    @classmethod
    def system(cls, content: str | Iterable[Part], **fields: Any) -> Self:
        """A message of the application."""
        return cls(role=Role.SYSTEM, content=_given(content), **fields)

    @classmethod
    def user(cls, content: str | Iterable[Part], **fields: Any) -> Self:
        """A message of the person."""
        return cls(role=Role.USER, content=_given(content), **fields)

    @classmethod
    def assistant(
        cls, content: str | Iterable[Part] | None = None, tool_calls: Iterable[ToolCall] = (), **fields: Any
    ) -> Self:
        """A message of the model, with the tools it wants run."""
        return cls(role=Role.ASSISTANT, content=_given(content), tool_calls=tuple(tool_calls), **fields)

    @classmethod
    def tool(cls, content: str | Iterable[Part], tool_call_id: str, *, name: str | None = None, **fields: Any) -> Self:
        """The result of a tool call."""
        return cls(role=Role.TOOL, content=_given(content), tool_call_id=tool_call_id, name=name, **fields)


def _given(content: str | Iterable[Part] | None) -> str | tuple[Part, ...] | None:
    return content if content is None or isinstance(content, str) else tuple(content)
