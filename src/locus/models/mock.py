"""The offline model: answers by rules from what is in its context. It needs no network and is not intelligent."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

from locus.core.messages import Message, Role, ToolCall
from locus.models._calls import Call, Plan, plan
from locus.models._facts import Fact, answer, facts_in, flip, is_question, learn
from locus.models._words import sentences
from locus.models.base import ModelChunk, ModelResponse, ToolSchema, Usage, chunks_of
from locus.models.history import check_history

__all__ = ["MockModel"]

_READ = 20_000  # characters of a message that are read: rules find nothing in more
_UNKNOWN = "I don't know: nothing I have been told here answers that."
_SELF = "I'm Locus's offline mock model: I answer by rules from what I am told here."
_CANNOT = "I can't do that: I'm an offline model that recalls what it is told and calls the tools it has."
_GREETING = re.compile(r"(?i)^(?:hi|hello|hey|good (?:morning|afternoon|evening))(?: there| again)?[\s!.,]*$")
_THANKS = re.compile(r"(?i)^(?:thanks|thank you|cheers|great|perfect|ok|okay|cool|nice)\b.{0,20}$")
_ABOUT_SELF = re.compile(
    r"(?i)\b(?:are you|your(?:self)?|do you (?!know|remember|recall)|can you (?!tell|remind|recall))"
)
_LOST = re.compile(r"(?i)outcome (?:is )?unknown|interrupted")
_FAILED = re.compile(r"(?i)^\s*(?:\w*error\b|\w*exception\b|failed\b|failure\b|traceback\b|\{\s*\"error\")")


class MockModel:
    """A deterministic model without a provider: learns what users state, recalls it, and calls tools that are asked for.

    `max_tokens` cuts long answers as a provider would; `latency` is waited before each answer.
    """

    def __init__(
        self,
        *,
        model_id: str = "mock",
        max_tokens: int | None = None,
        temperature: float | None = None,
        latency: float = 0.0,
    ) -> None:
        self.model_id = model_id
        self.max_tokens = max_tokens
        self.temperature = temperature  # rules have none; taken so that options can stay when the provider changes
        self.latency = latency

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema] | None = None,
        **options: Any,  # a caller's options for real providers; only max_tokens means something here
    ) -> ModelResponse:
        check_history(messages)
        if self.latency:
            await asyncio.sleep(self.latency)
        message = _reply(messages, tools or ())
        limit = options.get("max_tokens") or self.max_tokens
        stop_reason = "tool_calls" if message.tool_calls else "stop"
        if limit and _count(message.text) > limit:
            message = Message.assistant(message.text[: limit * 4].rsplit(" ", 1)[0], message.tool_calls)
            stop_reason = "max_tokens"
        return ModelResponse(message=message, usage=_usage(messages, message), stop_reason=stop_reason)

    async def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema] | None = None,
        **options: Any,  # as above
    ) -> AsyncIterator[ModelChunk]:
        for chunk in chunks_of(await self.complete(messages, tools, **options)):
            yield chunk


def _reply(messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Message:
    last = max(place for place, message in enumerate(messages) if message.role is Role.USER)
    text, turn = messages[last].text[:_READ], messages[last + 1 :]
    facts = learn(messages[: last + 1])
    asked = plan(messages, text, tools, facts) if tools else Plan(rest=tuple(sentences(text)))
    made = [call for message in turn for call in message.tool_calls]
    results = [message for message in turn if message.role is Role.TOOL]
    failed = any(_trouble(result.text) for result in results)
    if len(made) < len(asked.calls) and not failed:
        step = asked.calls[len(made)]
        return Message.assistant(None, [ToolCall(name=step.name, arguments=step.arguments)])
    if not results:
        return Message.assistant(_talk(text, sentences(text), facts))
    return Message.assistant(_report(made, results, asked, facts))


def _report(made: Sequence[ToolCall], results: Sequence[Message], asked: Plan, facts: Sequence[Fact]) -> str:
    names = {call.id: call.name for call in made}
    told = [_told(names.get(result.tool_call_id or "", "the tool"), result.text, asked.calls) for result in results]
    stated = [flip(fact.text) for fact in facts_in(" ".join(asked.rest))]
    spoken = [_acknowledge(stated)] if stated else []
    questions = [sentence for sentence in asked.rest if is_question(sentence)]
    return " ".join([*spoken, *told, *(_answered(question, facts) for question in questions)])


def _told(name: str, result: str, calls: Sequence[Call]) -> str:
    """A tool's result in a sentence."""
    trouble = _trouble(result)
    if trouble == "lost":
        return f"The call to {name} was interrupted and its outcome is unknown, so I can't say whether it took effect."
    if trouble == "failed":
        return _ended(f"The tool {name} failed: {result.strip()}")
    if not result.strip():
        return "Done."
    reads = any(call.reads for call in calls if call.name == name)
    return _ended(f"{'Here is what I found:' if reads else 'Done.'} {result.strip()}")


def _trouble(result: str) -> str | None:
    if _LOST.search(result):
        return "lost"
    return "failed" if _FAILED.match(result) else None


def _talk(text: str, said: Sequence[str], facts: Sequence[Fact]) -> str:
    if _GREETING.match(text.strip()):
        return "Hello! How can I help?"
    stated = [flip(fact.text) for fact in facts_in(text)]
    answers = [_answered(sentence, facts) for sentence in said if is_question(sentence)]
    spoken = ([_acknowledge(stated)] if stated else []) + answers
    if spoken:
        return " ".join(spoken)
    return "You're welcome." if _THANKS.match(text.strip()) else _CANNOT


def _acknowledge(stated: Sequence[str]) -> str:
    unique = list(dict.fromkeys(stated))
    spoken = ", and ".join(unique)
    return _ended("Got it: " + re.sub(r"^(?:The|An?|This|It)\b", lambda word: word.group(0).lower(), spoken))


def _answered(question: str, facts: Sequence[Fact]) -> str:
    mine = re.search(r"(?i)\b(?:i|me|my|we|our|us)\b", question)
    if _ABOUT_SELF.search(question) and not mine:
        return _SELF
    return answer(question, facts) or _UNKNOWN


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?", "}", "]")) else f"{text}."


def _usage(messages: Sequence[Message], answer_: Message) -> Usage:
    prompt = sum(_count(message.text) + 4 for message in messages)
    calls = sum(_count(str(call.arguments)) + _count(call.name) for call in answer_.tool_calls)
    return Usage(prompt_tokens=prompt, completion_tokens=_count(answer_.text) + calls)


def _count(text: str) -> int:
    return (len(text) + 3) // 4
