"""How states are stored: short JSON that any backend can hold, read back without loss.

A state is split into its small fields, which every checkpoint stores whole, and its long ones, which mostly grow and
are stored item by item. What has its default value is not written. The defaults written here belong to the format: they
stay when the classes' own defaults change, or old records would change their meaning.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from pydantic import TypeAdapter, ValidationError

from locus.core.messages import FilePart, ImagePart, Message, Part, Text, TextPart, ToolCall
from locus.core.state import AgentState, ToolExecution
from locus.errors import CorruptRecordError, InputError, SetupError

__all__ = [
    "FORMAT",
    "LONG_FIELDS",
    "dump_items",
    "dumps",
    "join",
    "load_items",
    "loads",
    "split",
    "text_of",
    "text_of_all",
]

FORMAT = 1
_AT_ONCE = 1024  # items that are checked in one call, during which no other thread can run
LONG_FIELDS = ("messages", "tool_executions", "tool_history", "confidence_history")

_DEFAULTS: Mapping[str, object] = {
    "agent_id": "agent",
    "iteration": 0,
    "max_iterations": 20,
    "confidence": 0.0,
    "errors": (),
    "metadata": {},
    "prompt_tokens": 0,
    "completion_tokens": 0,
    "total_tokens": 0,
}
_TIMES = ("started_at", "updated_at")
_REQUIRED = ("run_id", *_TIMES)


def split(state: AgentState) -> tuple[dict[str, Any], dict[str, tuple[Any, ...]]]:
    """The small fields as JSON, and the long ones as the live objects they are."""
    small: dict[str, Any] = {"run_id": state.run_id}
    for name, default in _DEFAULTS.items():
        value = getattr(state, name)
        if value != default:
            small[name] = list(value) if name == "errors" else value
    for name in _TIMES:
        small[name] = _dump_time(getattr(state, name))
    _check(small.get("confidence"), "confidence")
    _check(small.get("metadata"), "metadata")
    return small, {name: getattr(state, name) for name in LONG_FIELDS}


def join(small: Mapping[str, Any], long: Mapping[str, Iterable[Any]]) -> AgentState:
    """The state of these fields. Long items are taken as they are; small fields of a later Locus are left out."""
    for name in _REQUIRED:
        if name not in small:
            raise CorruptRecordError(f"a stored state has no {name!r}")
    fields = {**_DEFAULTS, **{name: small[name] for name in ("run_id", *_DEFAULTS) if name in small}}
    for name in _TIMES:
        fields[name] = _load_time(small[name], name)
    try:
        state = AgentState.model_validate(fields)
    except ValidationError as error:
        raise CorruptRecordError(f"a stored state cannot be read: {_first(error)}") from error
    return state.model_copy(update={name: tuple(long.get(name, ())) for name in LONG_FIELDS})


def dump_items(field: str, items: Iterable[Any]) -> list[Any]:
    """Items of a long field as JSON. Refuses what JSON would change or lose, naming where it is."""
    try:
        dump = _DUMPS[field]
    except KeyError:
        raise _unknown(field) from None
    return [dump(item, f"{field}[{place}]") for place, item in enumerate(items)]


def load_items(field: str, items: Sequence[Any]) -> tuple[Any, ...]:
    """What `dump_items` wrote."""
    try:
        adapter = _ADAPTERS[field]
    except KeyError:
        raise _unknown(field) from None
    if not isinstance(items, list | tuple):
        raise CorruptRecordError(f"stored {field} are no list but a {type(items).__name__}")
    if field == "tool_executions":
        items = [_with_time(item) for item in items]
    try:
        if len(items) <= _AT_ONCE:
            return adapter.validate_python(items)
        parts = (adapter.validate_python(items[at : at + _AT_ONCE]) for at in range(0, len(items), _AT_ONCE))
        return tuple(chain.from_iterable(parts))
    except ValidationError as error:
        raise CorruptRecordError(f"stored {field} cannot be read: {_first(error)}") from error


def dumps(state: AgentState) -> str:
    """A whole state as one text."""
    small, long = split(state)
    body = {"locus": FORMAT, **small, **{name: dump_items(name, items) for name, items in long.items() if items}}
    try:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate travels as an escape
        return json.dumps(body, allow_nan=False, separators=(",", ":"))
    except RecursionError:
        raise InputError("the state is nested too deeply to be stored as JSON") from None
    return text


def loads(text: str | bytes) -> AgentState:
    """The state that `dumps` wrote."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptRecordError(f"a stored state is not JSON: {error}") from error
    version = body.get("locus") if isinstance(body, dict) else None
    if type(version) is not int or version < 1:
        raise CorruptRecordError("a stored state does not say its format: it was not written by Locus, or is damaged")
    if version > FORMAT:
        raise SetupError(
            f"this state was written in format {version}; this Locus reads up to format {FORMAT}: "
            f"upgrade locus-memory to a release that reads format {version}"
        )
    return join(body, {name: load_items(name, body[name]) for name in LONG_FIELDS if name in body})


def text_of(field: str, items: Iterable[Any]) -> str:
    """What full-text search should find in these items."""
    if field == "messages":
        texts: list[str] = []
        for message in items:
            texts.append(message.text)
            if message.tool_calls:
                texts += (text for call in message.tool_calls for text in _strings(call.arguments))
        return _lines(texts)
    if field == "tool_executions":
        return _lines(part for execution in items for part in _execution_texts(execution))
    return ""  # names of tools and numbers are no text


def text_of_all(long: Mapping[str, Iterable[Any]]) -> str:
    """What search should find in all long fields, without saying twice what a tool message and its execution share."""
    messages = tuple(long.get("messages", ()))
    executions = long.get("tool_executions", ())
    if not executions:
        return text_of("messages", messages)
    told = {message.tool_call_id for message in messages if message.tool_call_id is not None}
    untold = [execution for execution in executions if execution.tool_call_id not in told]
    return _lines((text_of("messages", messages), text_of("tool_executions", untold)))


def _dump_message(message: Message, where: str) -> dict[str, Any]:
    body: dict[str, Any] = {"role": message.role.value}
    content = message.content
    if content is not None:
        body["content"] = content if isinstance(content, str) else [_dump_part(part, where) for part in content]
    if message.tool_calls:
        body["tool_calls"] = [_dump_call(call, where) for call in message.tool_calls]
    if message.tool_call_id is not None:
        body["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        body["name"] = message.name
    if message.metadata:
        _check(message.metadata, f"{where}.metadata")
        body["metadata"] = message.metadata
    return body


def _dump_part(part: Part, where: str) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, ImagePart | FilePart):
        return part.model_dump(exclude_none=True)
    _check(part, f"{where}.content")
    return part


def _dump_call(call: ToolCall, where: str) -> dict[str, Any]:
    body: dict[str, Any] = {"id": call.id, "name": call.name}
    if call.arguments:
        _check(call.arguments, f"{where}.tool_calls[{call.name}].arguments")
        body["arguments"] = call.arguments
    if call.idempotency_key is not None:
        body["idempotency_key"] = call.idempotency_key
    return body


def _dump_execution(execution: ToolExecution, where: str) -> dict[str, Any]:
    body: dict[str, Any] = {"tool_name": execution.tool_name, "tool_call_id": execution.tool_call_id}
    for name in ("arguments", "result", "error", "duration_ms"):
        value = getattr(execution, name)
        if value is not None and value != _EXECUTION_DEFAULTS.get(name):
            _check(value, f"{where}.{name}")
            body[name] = value
    if execution.started_at is not None:
        body["started_at"] = _dump_time(execution.started_at)
    return body


_EXECUTION_DEFAULTS: Mapping[str, object] = {"arguments": {}, "duration_ms": 0.0}


def _dump_name(name: str, where: str) -> str:
    _check(name, where)
    return name


def _dump_number(number: float, where: str) -> float:
    _check(number, where)
    return number


_DUMPS: Mapping[str, Callable[[Any, str], Any]] = {
    "messages": _dump_message,
    "tool_executions": _dump_execution,
    "tool_history": _dump_name,
    "confidence_history": _dump_number,
}
# One call into pydantic's compiled code for a whole field: parsing two thousand messages is then no pause.
_ADAPTERS: Mapping[str, TypeAdapter[tuple[Any, ...]]] = {
    "messages": TypeAdapter(tuple[Message, ...]),
    "tool_executions": TypeAdapter(tuple[ToolExecution, ...]),
    "tool_history": TypeAdapter(tuple[Text, ...]),
    "confidence_history": TypeAdapter(tuple[float, ...]),
}


def _with_time(item: object) -> object:
    if isinstance(item, dict) and "started_at" in item:
        return {**item, "started_at": _load_time(item["started_at"], "started_at")}
    return item


def _dump_time(value: datetime) -> float | str:
    """Seconds since 1970, which is short; the ISO form outside 1970 to 2106, where a float may miss a microsecond."""
    seconds = value.timestamp()
    return seconds if 0 <= seconds < 2**32 else value.isoformat()


def _load_time(value: object, name: str) -> datetime:
    try:
        if isinstance(value, str):
            return datetime.fromisoformat(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise CorruptRecordError(f"a stored {name} is no time: {value!r}") from error
    raise CorruptRecordError(f"a stored {name} is no time: {value!r}")


def _check(value: object, where: str) -> None:
    """Refuse what JSON would change or lose."""
    try:
        flaw = _flaw(value)
    except RecursionError:
        raise InputError(f"{where} is nested too deeply, or refers to itself") from None
    if flaw:
        raise InputError(f"{where}{flaw}, which JSON cannot store")


def _flaw(value: object) -> str | None:
    """The path to the first such value and what it is; None when all is well."""
    if value is None or isinstance(value, str | int):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else f" is {value!r}"
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                return f" has the key {key!r}"
            if flaw := _flaw(inner):
                return f".{key}{flaw}"
        return None
    if isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            if flaw := _flaw(inner):
                return f"[{place}]{flaw}"
        return None
    return f" is a {type(value).__name__}"


def _execution_texts(execution: ToolExecution) -> Iterator[str]:
    yield from _strings(execution.arguments)
    yield from _strings(execution.result)
    yield execution.error or ""


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _lines(texts: Iterable[str]) -> str:
    return "\n".join(filter(None, texts))


def _unknown(field: str) -> InputError:
    return InputError(f"{field!r} is not a long field of a state; those are {', '.join(LONG_FIELDS)}")


def _first(error: ValidationError) -> str:
    detail = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(str(step) for step in detail['loc'])}: {detail['msg']}"
