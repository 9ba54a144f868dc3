"""How the offline model fills a tool's arguments from a sentence, by the types and names in its schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from locus.models._words import MOMENT, content, number, numbers, stem, tokens, word_set
from locus.models.base import ToolSchema

__all__ = ["fill"]

_SKIPPED = word_set("a an the me us please new some")
_PARTICLES = word_set("for up down about to of that into out at on")
_MARKED = re.compile(r"(?i)\b(?:saying|says|that says|reading|with the text|called|named|titled|entitled)\s+(.+)$")
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]*\w")
_PROPER = r"[A-Z0-9][\w'’-]*(?:\s+(?:[A-Z0-9][\w'’-]*))*"
_ROLES = {
    "time": r"time|date|day|when|at|due|deadline|start|end|hour|until|datetime",
    "person": r"person|guest|attendee|contact|recipient|to|who|user|customer|name",
    "place": r"city|location|place|town|country|region|restaurant|venue|where|destination|address",
    "email": r"e?mail|recipient|to",
    "target": r"to|target|into|language|destination",
    "source": r"from|source|origin",
}


def fill(schema: ToolSchema, text: str, *, summary: str | None = None) -> dict[str, Any]:
    """Arguments for a tool: what the sentence holds for them. `summary`, when given, is what plain text fields get."""
    parameters: Mapping[str, Any] = schema.get("parameters") or {}
    properties: Mapping[str, Mapping[str, Any]] = parameters.get("properties") or {}
    required = set(parameters.get("required") or ())
    counts = list(numbers(text))
    filled: dict[str, Any] = {}
    free: list[str] = []
    for name, property_ in properties.items():
        value = _typed(name, property_, text, counts)
        if value is None and _type(property_) == "string" and "enum" not in property_:
            value = None if summary else _by_role(name, text)
            if value is None:
                free.append(name)
        elif value is None and _type(property_) == "array":
            value = _items(_payload(schema, text))
        if value is not None:
            filled[name] = value
    payload = summary or _without(filled, _payload(schema, text))
    for name in free:
        value = _mentioned(name, text) or (payload if name in required or not (required or filled) else None)
        if value is not None:
            filled[name] = _asked_of(name, value)
    for name in required - filled.keys():
        filled[name] = _fallback(properties.get(name) or {}, text)
    return {name: filled[name] for name in properties if name in filled}


def _type(property_: Mapping[str, Any]) -> str:
    """The type a property asks for, the one that is not null when there are two."""
    options: Iterable[Any] = property_.get("anyOf") or property_.get("oneOf") or ()
    kinds = [property_.get("type"), *(option.get("type") for option in options)]
    flat = [kind for entry in kinds for kind in (entry if isinstance(entry, list) else [entry])]
    return next((str(kind) for kind in flat if kind not in (None, "null")), "string")


def _typed(name: str, property_: Mapping[str, Any], text: str, counts: list[tuple[float, str]]) -> Any:
    if "enum" in property_:
        return _chosen(property_["enum"], text)
    kind = _type(property_)
    if kind in ("integer", "number"):
        return _count(name, property_, counts, whole=kind == "integer")
    if kind == "boolean":
        return _flag(name, text)
    return None


def _chosen(options: Iterable[object], text: str) -> object:
    words = set(content(text)) | {word.lower() for word in tokens(text)}
    for option in options:
        if set(content(str(option)) or [str(option).lower()]) <= words:
            return option
    return None


def _count(
    name: str, property_: Mapping[str, Any], counts: list[tuple[float, str]], *, whole: bool
) -> float | int | None:
    """The number whose next word names the property, else the first one not yet used."""
    if not counts:
        return None
    wanted = set(content(name.replace("_", " "))) | set(content(str(property_.get("description") or "")))
    place = next((place for place, (_, after) in enumerate(counts) if after and stem(after) in wanted), 0)
    value, _ = counts.pop(place)
    return int(value) if whole or value == int(value) else value


def _flag(name: str, text: str) -> bool | None:
    words = set(content(name.replace("_", " ")))
    if not words & set(content(text)):
        return None
    return not re.search(rf"(?i)\b(?:not|no|without|don't)\s+(?:\w+\s+)?{re.escape(name.partition('_')[0])}", text)


def _items(text: str) -> list[str]:
    return [item.strip(" .") for item in re.split(r",\s*(?:and\s+)?|\s+and\s+", text) if item.strip(" .")]


def _by_role(name: str, text: str) -> str | None:
    """What the name of a text field calls for, when the sentence holds it."""
    parts = re.findall(r"[a-z]+", name.lower())
    roles = [role for role, names in _ROLES.items() if any(re.fullmatch(names, part) for part in parts)]
    for role in ("email", "time", "source", "target", "place", "person"):
        if role in roles and (found := _for_role(role, text)):
            return found
    return None


def _moment(text: str) -> str | None:
    found = [match.span() for match in MOMENT.finditer(text)]
    if not found:
        return None
    start, end = found[0]
    for next_start, next_end in found[1:]:  # "noon on Friday" is one moment
        if not re.fullmatch(r"\s*(?:,|at|on|in the|of)?\s*", text[end:next_start]):
            break
        end = next_end
    return text[start:end]


def _after(prepositions: str, text: str) -> str | None:
    for match in re.finditer(rf"\b(?i:{prepositions})\s+(?:the\s+)?({_PROPER})", text):
        if not MOMENT.match(match.group(1)) and number(match.group(1).split()[0]) is None:
            return match.group(1).rstrip(".'’")
    return None


def _word_after(prepositions: str, text: str) -> str | None:
    match = re.search(rf"(?i)\b(?:{prepositions})\s+(?:the\s+|my\s+)?([\w@.'-]*\w)", text)
    return match.group(1) if match and not MOMENT.match(match.group(1)) else None


def _for_role(role: str, text: str) -> str | None:
    if role == "email":
        match = _EMAIL.search(text)
        return match.group(0) if match else None
    if role == "source" and (unit := re.search(r"\b\d[\d.,]*\s+([a-z]+)\s+(?:to|into|in)\b", text)):
        return unit.group(1)  # "5 miles to ..."
    if role == "time":
        return _moment(text)
    return _after(_BEFORE[role], text) or (_word_after(_BEFORE[role], text) if role in ("source", "target") else None)


_BEFORE = {
    "place": "in|at|near|from|to|for",
    "source": "from",
    "target": "to|into",
    "person": "for|with|to|named|called|invite|from",
}


def _asked_of(name: str, payload: str) -> str:
    """A whole question is a good query; any other field wants what the question is about."""
    if re.search(r"query|question|search|prompt|input|text|\bq\b", name.lower()):
        return payload
    about = re.match(
        r"(?i)(?:what|which|who|where|when|how|why)\b.*\b(?:of|for|about|in|on|from)\s+(?:the\s+)?(.+)$", payload
    )
    return about.group(1) if about else payload


def _mentioned(name: str, text: str) -> str | None:
    """`title Groceries`, `subject: hello`: the field named in the sentence itself."""
    match = re.search(rf"(?i)\b{re.escape(name.replace('_', ' '))}\b\s*(?:is|=|:)\s*[\"“']?([^,;\"”]+)", text)
    return match.group(1).strip(" .'") if match else None


def _without(filled: Mapping[str, Any], text: str) -> str:
    """A text without what other fields have taken from its end."""
    for name, value in filled.items():
        if isinstance(value, str):
            named = re.escape(name.replace("_", " "))
            before = r"(?:in|at|on|to|for|from|into|with|by|as)?\s*(?:an?\s+|the\s+)?"
            text = re.sub(rf"(?i)[\s,]+\b{before}{re.escape(value)}(?:\s+{named})?$", "", text)
    return text


def _payload(schema: ToolSchema, text: str) -> str:
    """What the sentence is about: what is quoted, what follows a colon, or its object."""
    text = text.strip()
    if quoted := re.search(r"[\"“]([^\"”]+)[\"”]|(?<!\w)'([^']+)'(?!\w)", text):
        return next(group for group in quoted.groups() if group)
    head, colon, rest = text.partition(": ")
    if colon and len(tokens(head)) <= 8:
        return rest.strip().rstrip(".") if rest.count(". ") == 0 else rest.strip()
    bare = text.rstrip(".!? ")
    if noted := re.match(
        r"(?i)(?:remember|note|keep in mind|write down|jot down|don't forget)(?:\s+that)?\s+(.+)$", bare
    ):
        return noted.group(1)
    if re.match(r"(?i)(?:what|which|who|where|when|how|why)\b", bare):
        return bare
    if marked := _MARKED.search(bare):
        return marked.group(1)
    return _object(schema, bare) or bare


def _object(schema: ToolSchema, text: str) -> str:
    words = text.split()
    parts = {stem(part) for part in re.findall(r"[A-Za-z][a-z0-9]*", str(schema["name"]))}
    place = _skip(words, parts)
    rest = " ".join(words[place:])
    if not rest or re.match(
        r"(?i)(?:for|at|in|on|with|from)\b", rest
    ):  # only circumstances: the thing itself is the object
        rest = " ".join(words[_skip(words, set()) :]) or rest
    rest = re.sub(
        r"(?i)\s+(?:to|in|into|on|onto|from)\s+(?:my|the|our)\s+(?:[\w ]+\s)?(?:list|notes?|calendar|cart|diary|log|memory)$",
        "",
        rest,
    )
    return rest.strip(" ,")


def _skip(words: list[str], parts: set[str]) -> int:
    """Past the verb and its own words: articles, particles, and what the tool's name says already."""
    stems = [stem(word.strip(",.:;!?")) for word in words]
    place = 1
    while place < len(words):
        low = words[place].lower()
        particle = low in _PARTICLES and words[place - 1].lower() in {words[0].lower(), "me", "us"}
        owned = low in ("my", "our") and place + 1 < len(words) and stems[place + 1] in parts
        if low in ("to", "that", "about", "saying") and stems[place - 1] in parts:
            return place + 1  # "a note to ..." holds what follows
        if not (low in _SKIPPED or particle or owned or stems[place] in parts):
            break
        place += 1
    return place


def _fallback(property_: Mapping[str, Any], text: str) -> Any:
    if "default" in property_:
        return property_["default"]
    if property_.get("enum"):
        return property_["enum"][0]
    return {"integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}.get(_type(property_), text)
