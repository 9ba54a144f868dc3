"""An agent whose every step can be checked from outside: what it was asked is in the prompt, what it did is in a ledger."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from locus.agent import Agent
from locus.core.messages import Message, Role, ToolCall
from locus.memory.backends import FileCheckpointer, SQLiteCheckpointer
from locus.memory.checkpointer import BaseCheckpointer
from locus.memory.durable import DurableCheckpointer
from locus.memory.log.run import LogRun
from locus.memory.run import Turn
from locus.models.base import ModelResponse, ToolSchema
from locus.models.history import check_history
from locus.tools import Tool, ToolContext, tool
from tests.faults.workers.ledger import Ledger

__all__ = ["Clerk", "Desk", "answer_to", "durable_at", "name_of"]


def durable_at(kind: str, place: str | Path) -> DurableCheckpointer:
    """A checkpointer of the kind `sqlite` or `file` in the folder `place`."""
    if kind == "sqlite":
        return SQLiteCheckpointer(Path(place) / "threads.db")
    return FileCheckpointer(Path(place) / "threads", pretty=False)


def name_of(message: Message) -> str:
    """The turn's name, which begins its prompt: `name: pay book; charge`."""
    return message.text.partition(":")[0]


def answer_to(name: str) -> str:
    """What the clerk says at the end of a turn."""
    return f"{name} is done"


class Clerk:
    """Works off a prompt such as `name: pay book; charge`: two replies with tool calls, then the answer.

    It goes by the messages alone, so it does the same however often a turn is interrupted, and it refuses, as a
    provider would, a history that is not whole. What it was asked it notes, as a provider would in its bill.
    """

    def __init__(self, asked: Ledger | None = None, *, pause: float = 0) -> None:
        self._asked, self._pause = asked, pause

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema] | None = None, **options: Any
    ) -> ModelResponse:
        check_history(messages)
        start = max(i for i, message in enumerate(messages) if message.role is Role.USER)
        name, _, asked = messages[start].text.partition(":")
        if self._asked is not None:
            self._asked.note(turn=name)
        await asyncio.sleep(self._pause)
        steps = [step.split() for step in asked.split(";") if step.strip()]
        place = sum(1 for message in messages[start:] if message.tool_calls)
        if place >= len(steps):
            return ModelResponse(message=Message.assistant(answer_to(name)))
        calls = [ToolCall(name=one, arguments={"ref": f"{name}/{place}/{one}"}) for one in steps[place]]
        return ModelResponse(message=Message.assistant(tool_calls=calls))


@dataclass(frozen=True)
class Desk:
    """A folder with all that a clerk works with: threads, effects, and what its callers were told."""

    kind: str
    place: Path
    sync: bool = False
    pause: float = 0.002

    @property
    def effects(self) -> Ledger:
        """What tools did."""
        return Ledger(self.place / "effects", sync=self.sync)

    @property
    def asked(self) -> Ledger:
        """What the model was asked."""
        return Ledger(self.place / "asked", sync=self.sync)

    @property
    def attempts(self) -> Ledger:
        """How often the idempotent tool was run."""
        return Ledger(self.place / "attempts", sync=self.sync)

    @property
    def told(self) -> Ledger:
        """What callers were told: checkpoints by their ids, events of turns."""
        return Ledger(self.place / "told", sync=self.sync)

    def checkpointer(self) -> DurableCheckpointer:
        """A new checkpointer that notes each checkpoint as soon as it is acknowledged."""
        return self.watched(durable_at(self.kind, self.place))

    def watched(self, made: DurableCheckpointer) -> DurableCheckpointer:
        """The same checkpointer, which from now on notes each checkpoint as soon as it is acknowledged."""
        begin = made.begin

        async def noted(thread_id: str, *, wait_seconds: float = 0.0) -> LogRun:
            run = await begin(thread_id, wait_seconds=wait_seconds)
            setattr(run, "append", _Noting(self.told, run).append)  # noqa: B010  # assigning a method
            return run

        setattr(made, "begin", noted)  # noqa: B010  # the same
        return made

    def agent(self, checkpointer: BaseCheckpointer, **options: Any) -> Agent:
        """A clerk with its tools."""
        return Agent(Clerk(self.asked, pause=self.pause), tools=self.tools(), checkpointer=checkpointer, **options)

    def tools(self) -> list[Tool[..., Any]]:
        """Two tools whose effect must not be repeated, one that may be repeated with its key, one without effect."""
        effects, attempts, pause = self.effects, self.attempts, self.pause

        @tool
        async def pay(ref: str, ctx: ToolContext) -> str:
            await asyncio.sleep(pause)
            effects.note(tool="pay", ref=ref, key=ctx.idempotency_key, call=ctx.tool_call_id, thread=ctx.thread_id)
            await asyncio.sleep(pause)
            return f"paid {ref}"

        @tool
        def charge(ref: str, ctx: ToolContext) -> str:
            time.sleep(pause)
            effects.note(tool="charge", ref=ref, key=ctx.idempotency_key, call=ctx.tool_call_id, thread=ctx.thread_id)
            time.sleep(pause)
            return f"charged {ref}"

        @tool(idempotent=True)
        def book(ref: str, ctx: ToolContext) -> str:
            attempts.note(ref=ref, call=ctx.tool_call_id, attempt=ctx.attempt)
            time.sleep(pause)
            effects.once(ctx.idempotency_key, tool="book", ref=ref, call=ctx.tool_call_id, thread=ctx.thread_id)
            time.sleep(pause)
            return f"booked {ref}"

        @tool(idempotent=True)
        async def look(ref: str) -> str:
            await asyncio.sleep(pause)
            raise LookupError(f"nothing to see at {ref}")

        return [pay, charge, book, look]


class _Noting:
    """Notes the checkpoints of a run when they are acknowledged, not before."""

    def __init__(self, told: Ledger, run: LogRun) -> None:
        self._told, self._run, self._append = told, run, run.append

    async def append(self, state: Any, turn: Turn, **options: Any) -> str:  # as `ThreadRun.append`
        checkpoint_id = await self._append(state, turn, **options)
        self._told.note(checkpoint=checkpoint_id, thread=self._run.thread_id, messages=len(state.messages))
        return checkpoint_id
