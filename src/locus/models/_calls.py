"""Which tools the offline model calls for a message: those that the system prompt orders, then those it asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from locus.core.messages import Message, Role
from locus.models._arguments import fill
from locus.models._facts import Fact, answer, facts_in, is_question, third_person
from locus.models._words import content, sentences, stem, tokens, word_set
from locus.models.base import ToolSchema

__all__ = ["Call", "Plan", "plan"]

_KINDS = {
    "read": "get list show read fetch find search look lookup check view see query retrieve recall display count what "
    "which how who when where",
    "create": "save add create record store write log make schedule set put send post book reserve register remember "
    "note insert append order buy start remind keep persist",
    "delete": "delete remove cancel clear erase drop forget",
    "update": "update change edit rename modify move",
}
_SEARCHES = frozenset({"search", "lookup", "query"})
_KIND = {stem(word): kind for kind, words in _KINDS.items() for word in words.split()}
_POLITE = re.compile(
    r"^(?:(?:hi|hello|hey|ok|okay|so|now|and|then|also|please|thanks)\b[\s,!.]*|(?:can|could|would|will) you\s+(?:please\s+)?|"
    r"(?:i want|i need|i'd like|i would like)\s+(?:you\s+)?to\s+|let's\s+|go ahead and\s+)+",
    re.IGNORECASE,
)
_STATES = re.compile(r"(?i)(?:i|i'm|i've|my|we|we're|our|it|he|she|they|this|that|there)\b")
_ORDER = re.compile(
    r"(?is)\b(?P<when>whenever|when|if|every time|each time|any time|always|once)\b(?P<case>.*?)\b(?:call|use|invoke|run)\s+(?:the\s+)?"
    r"[`'\"]?(?P<tool>\w+)"
)
_ORDER_FIRST = re.compile(
    r"(?is)\b(?:call|use|invoke|run)\s+(?:the\s+)?[`'\"]?(?P<tool>\w+)[`'\"]?(?P<gap>[^.]*?)\b(?:whenever|when|if|every time|each time)\b(?P<case>[^.]*)"
)
_FORBIDDEN = re.compile(
    r"(?i)\b(?:never|do not|don't|must not)\s+(?:ever\s+)?(?:call|use|invoke|run)\s+(?:the\s+)?[`'\"]?(\w+)"
)
_SHARES = re.compile(
    r"(?i)\b(?:share|tell|state|mention|reveal|say|introduce|provide|give|disclose|learn|express|describe)\w*\b"
)
_PERSONAL = re.compile(
    r"(?i)\b(?:themsel\w+|themself|himself|herself|facts?|personal|preferences?|names?|jobs?|details?|information|new|important)\b"
)
_ASKS = re.compile(r"(?i)\b(?:asks?|asking|question|questions|wants? to know|inquires?|requests?)\b")
_VAGUE = frozenset(
    stem(word)
    for word in word_set("user ask question want request say share tell about anything something need message time")
)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool to call, and whether it is to look something up."""

    name: str
    arguments: dict[str, Any]  # JSON for the tool
    reads: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """The calls a message asks for, in order, and the sentences that ask for none."""

    calls: tuple[Call, ...] = ()
    rest: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Tool:
    schema: ToolSchema
    name: str
    kind: str | None
    verbs: frozenset[str]
    nouns: frozenset[str]
    about: frozenset[str] = field(default_factory=frozenset)

    def call(self, text: str, *, summary: str | None = None) -> Call:
        return Call(self.name, fill(self.schema, text, summary=summary), self.kind == "read" or is_question(text))


def plan(messages: Sequence[Message], text: str, tools: Sequence[ToolSchema], facts: Sequence[Fact]) -> Plan:
    """The calls that the user's text asks for, given these tools."""
    system = "\n".join(message.text for message in messages if message.role is Role.SYSTEM)
    forbidden = {name.lower() for name in _FORBIDDEN.findall(system)}
    known = [_tool(schema) for schema in tools if str(schema["name"]).lower() not in forbidden]
    ordered = list(_ordered(system, text, known))
    calls, rest = _requested(text, known, facts)
    asked = {call.name for call in ordered}
    return Plan(tuple(ordered) + tuple(call for call in calls if call.name not in asked), tuple(rest))


def _tool(schema: ToolSchema) -> _Tool:
    name = str(schema["name"])
    parts = [stem(part) for part in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)]
    about = content(str(schema.get("description") or "").split("\n")[0])
    kind = next((_KIND[word] for word in (*parts[:1], *about[:1], *parts) if word in _KIND), None)
    nouns = frozenset(parts[1:]) - {"on", "to", "for", "of", "in", "the", "a"} or frozenset(parts)
    return _Tool(schema, name, kind, frozenset(parts[:1]), nouns, frozenset(about))


def _ordered(system: str, text: str, tools: Sequence[_Tool]) -> Iterator[Call]:
    """The calls that the system prompt orders for a message like this, each once."""
    seen: set[str] = set()
    for sentence in re.split(r"(?<=[.!])\s+|\n+", system):
        for pattern in (_ORDER, _ORDER_FIRST):
            match = pattern.search(sentence)
            tool = next((tool for tool in tools if match and tool.name == match["tool"]), None)
            if match is None or tool is None or tool.name in seen:
                continue
            shared = [fact for fact in facts_in(text) if _personal(fact)]
            if _applies(match["case"], text, shared):
                seen.add(tool.name)
                yield tool.call(text, summary=third_person(shared) or None)


def _personal(fact: Fact) -> bool:
    return fact.about_speaker or bool(re.match(r"(?i)(?:my|our)\b", fact.text))


def _applies(case: str, text: str, shared: Sequence[Fact]) -> bool:
    asks = _ASKS.search(case)
    if _SHARES.search(case) and _PERSONAL.search(case) and not asks:
        only_likes = re.search(r"(?i)preference", case) and not re.search(r"(?i)fact|name|themsel", case)
        return any(not only_likes or fact.words & {"like", "dislike"} for fact in shared)
    wanted = set(content(case)) - _VAGUE
    if asks and not (is_question(text) or any(is_question(sentence) for sentence in sentences(text)) or not shared):
        return False
    return not wanted or bool(wanted & set(content(text)))


def _requested(text: str, tools: Sequence[_Tool], facts: Sequence[Fact]) -> tuple[list[Call], list[str]]:
    calls: list[Call] = []
    rest: list[str] = []
    segments = list(_segments(text))
    place = 0
    while place < len(segments):
        segment = segments[place]
        place += 1
        tool = _best(segment, tools, facts)
        if tool is None:
            rest.append(segment)
            continue
        # What follows a colon may be several sentences, all of them what is to be saved.
        while (
            ":" in segment
            and place < len(segments)
            and _best(segments[place], tools, facts) is None
            and not is_question(segments[place])
        ):
            segment, place = f"{segment} {segments[place]}", place + 1
        calls.append(tool.call(_POLITE.sub("", segment)))
    return calls, rest


def _segments(text: str) -> Iterator[str]:
    first = stem((tokens(text) or [""])[0])
    if first in _KIND:  # "Save a note - ..." with a dash for a colon
        text = re.sub(r"^(\w+(?:\s+\w+){0,5})\s+[-–—]\s+", r"\1: ", text)
    for sentence in sentences(text):
        yield from (piece.strip() for piece in re.split(r"(?i),?\s+(?:and\s+)?then\s+|;\s+", sentence) if piece.strip())


def _best(segment: str, tools: Sequence[_Tool], facts: Sequence[Fact]) -> _Tool | None:
    """The tool a sentence asks for; None when it asks for none, or the conversation knows the answer itself."""
    bare = _POLITE.sub("", segment).strip()
    named = next((tool for tool in tools if re.search(rf"\b{re.escape(tool.name)}\b", segment)), None)
    if named:
        return named
    asks = is_question(bare)
    if not bare or (_STATES.match(bare) and not asks):
        return None
    scored = [(score, -place, tool) for place, tool in enumerate(tools) if (score := _score(bare, tool, asks=asks)) > 0]
    best = max(scored, key=lambda entry: entry[:2], default=None)
    known = asks and answer(bare, facts) is not None
    if best and not (known and not best[2].nouns <= set(content(bare))):
        return best[2]
    if known:
        return None
    return _memory_tool(bare, tools, asks=asks)


def _score(text: str, tool: _Tool, *, asks: bool) -> float:
    head = text.partition(":")[0]
    words = set(content(head))
    first = stem((tokens(head) or [""])[0])
    kind = "read" if asks else _KIND.get(first)
    if kind and tool.kind and kind != tool.kind and first not in tool.verbs:
        return 0.0
    words.add(first)
    objects = tool.nouns & words
    verb = bool(tool.verbs & words)
    about = (tool.about & words) - tool.verbs
    same = kind is not None and kind == tool.kind
    telling = verb and (bool(about) or first in _SEARCHES or not tool.verbs & _KIND.keys())
    if not (objects or telling or (same and len(about) >= 2)):
        return 0.0
    return 3 * len(objects) / len(tool.nouns) + 2 * verb + 0.5 * len(about) + same


def _memory_tool(text: str, tools: Sequence[_Tool], *, asks: bool) -> _Tool | None:
    """The tool made for remembering, when something is to be remembered, or for searching, when nothing else knows."""
    if asks and not re.search(r"(?i)\byou(?:r|rself)?\b", text):
        wanted, kind = r"search|memor|recall|knowledge|look\s?up|retriev", "read"
    elif re.match(
        r"(?i)(?:remember|memori[sz]e|keep in mind|bear in mind|note|write down|jot down|don't forget)\b", text
    ):
        wanted, kind = r"remember|memor|fact|note", "create"
    else:
        return None
    for tool in tools:
        description = f"{tool.name} {tool.schema.get('description') or ''}"
        takes = [value for value in _properties(tool).values() if value.get("type") == "string"]
        if tool.kind == kind and takes and re.search(wanted, description, re.IGNORECASE):
            return tool
    return None


def _properties(tool: _Tool) -> dict[str, Any]:
    properties: dict[str, Any] = (tool.schema.get("parameters") or {}).get("properties") or {}
    return properties
