"""Running the tool calls of one reply."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from locus.agent.cancelling import Cancellation, end_tasks, unstoppable
from locus.agent.config import AgentConfig
from locus.agent.hooks import Hooks
from locus.agent.outcome import CANCELLED, NOT_STARTED, Outcome
from locus.core.events import Event, ToolStartEvent
from locus.core.messages import ToolCall
from locus.core.state import AgentState
from locus.errors import InputError, StorageError, ThreadBusyError, ToolError
from locus.memory.run import ThreadRun
from locus.tools import Interrupt, Tool, ToolContext, ToolSet

__all__ = ["ToolRun"]

_log = logging.getLogger(__name__)

_ROOM = 3_000_000
"""Bytes for the results of one reply. Their record holds each as message, as execution and as text to search, and one
that is over a storage's limit could never be written: the thread would be stuck."""
_LONGEST_ERROR = 10_000


@dataclass(slots=True)
class ToolRun:
    """The calls of one reply on their way to their outcomes.

    Each outcome is on record before its `tool_complete` is given out. A call begins when the caller has taken its
    `tool_start` and asked for more, so a caller that stops there stops the tool.
    """

    config: AgentConfig
    tools: ToolSet
    hooks: Hooks
    run: ThreadRun
    cancellation: Cancellation
    state: AgentState
    answers: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # JSON, by call id
    attempts: Mapping[str, int] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    interrupts: list[dict[str, Any]] = field(default_factory=list)  # JSON: call_id, tool_name, payload ...
    _taken: int = 0
    _waiting: deque[ToolCall] = field(default_factory=deque)
    _running: dict[asyncio.Task[Outcome | Interrupt], ToolCall] = field(default_factory=dict)

    async def events(self, calls: Sequence[ToolCall]) -> AsyncGenerator[Event, None]:
        """Run the calls and report on them; afterwards each has an outcome or an interrupt."""
        self._waiting.extend(calls)
        limit = 1 if self.config.tool_execution == "sequential" else self.config.max_concurrency
        wish = asyncio.ensure_future(self.cancellation.wait())
        try:
            while self._waiting or self._running:
                while self._waiting and len(self._running) < limit and not self.cancellation.requested:
                    call = self._waiting[0]
                    yield ToolStartEvent(tool_name=call.name, tool_call_id=call.id, arguments=call.arguments)
                    if self.cancellation.requested:
                        break
                    if await self._start(call):
                        yield self.outcomes[call.id].event(call)
                if self.cancellation.requested:
                    for call in await self._give_up():
                        yield self.outcomes[call.id].event(call)
                    return
                if not self._running:  # hooks refused all that were begun
                    continue
                done, _ = await asyncio.wait({*self._running, wish}, return_when=asyncio.FIRST_COMPLETED)
                for task in [task for task in self._running if task in done]:
                    call = self._running.pop(task)
                    if await self._ended(call, task.result()):
                        yield self.outcomes[call.id].event(call)
        finally:
            await end_tasks((wish, *self._running))
            if self._waiting:
                await unstoppable(self._leave_unstarted())

    async def _start(self, call: ToolCall) -> bool:
        """Start a call; True when a hook refused it, so that it is over already."""
        context = ToolContext(
            thread_id=self.run.thread_id or None,
            tool_call_id=call.id,
            idempotency_key=call.idempotency_key or "",
            tool_name=call.name,
            agent_id=self.state.agent_id,
            attempt=self.attempts.get(call.id, 1),
            metadata=self.state.metadata,
            answers=tuple(self.answers.get(call.id, ())),
        )
        try:
            await self.hooks.call("before_tool", call, context)
        except ToolError as refusal:
            self._waiting.popleft()
            return await self._ended(call, await self.settle(call, Outcome(call.name, error=str(refusal))))
        self.run.check()
        self._waiting.popleft()
        self._running[asyncio.create_task(self._carry_out(call, context))] = call
        return False

    async def _carry_out(self, call: ToolCall, context: ToolContext) -> Outcome | Interrupt:
        began, started_at = time.perf_counter(), datetime.now(UTC).isoformat()
        result: str | None = None
        error: str | None = None
        try:
            result = await self._timed(self.tools.named(call.name), call, context)
        except Interrupt as question:
            return question
        except ToolError as failure:
            error = str(failure)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            error = "the tool cancelled itself"
        except Exception as failure:  # noqa: BLE001  # whatever a tool raises is for the model to read
            error = f"{type(failure).__name__}: {failure}"
        taken = (time.perf_counter() - began) * 1000
        outcome = Outcome(call.name, result, error, duration_ms=taken, started_at=started_at)
        return await self.settle(call, outcome)

    async def _timed(self, tool: Tool[..., Any], call: ToolCall, context: ToolContext) -> str:
        limit = tool.timeout if tool.timeout is not None else self.config.tool_timeout
        clock = asyncio.timeout(limit)
        try:
            async with clock:
                return await tool.invoke(call.arguments, context)
        except TimeoutError as error:
            if not clock.expired():
                raise
            raise ToolError(f"timed out after {limit:g} s; it may still have taken effect") from error

    async def settle(self, call: ToolCall, outcome: Outcome) -> Outcome:
        """Put an outcome on record, whoever is cancelled meanwhile; returns the one that counts, maybe another's."""
        return await unstoppable(self._settle(call, outcome))

    async def _settle(self, call: ToolCall, outcome: Outcome) -> Outcome:
        outcome = self._fitted(outcome)
        try:
            recorded = await self.run.settle(call.id, outcome.to_json())
        except InputError as refused:  # larger than a record may be, and than a model could read
            outcome = Outcome(call.name, error=f"the tool ran, but its result cannot be kept: {refused}")
            recorded = await self.run.settle(call.id, outcome.to_json())
        self.outcomes[call.id] = Outcome.from_json(recorded)
        return self.outcomes[call.id]

    def _fitted(self, outcome: Outcome) -> Outcome:
        """The outcome, or word that it is too large to be kept with the others of its reply."""
        if outcome.error is not None:
            return replace(outcome, error=outcome.error[:_LONGEST_ERROR])
        size = len(json.dumps(outcome.result))
        if self._taken + size > _ROOM:
            error = (
                f"the tool ran, but its result cannot be kept: it has {size:,} bytes, and the results of one reply may "
                f"have {_ROOM:,} together; store large values elsewhere and return a reference"
            )
            return replace(outcome, result=None, error=error)
        self._taken += size
        return outcome

    async def _ended(self, call: ToolCall, end: Outcome | Interrupt) -> bool:
        if isinstance(end, Interrupt):
            self.interrupts.append(_question(call, end))
            return False
        await self.hooks.call("after_tool", call, end.execution(call))
        return True

    async def _give_up(self) -> list[ToolCall]:
        """`Agent.cancel`: stop what runs; every call that has not asked a person gets an outcome."""
        await end_tasks(self._running)
        ended: list[ToolCall] = []
        for task, call in self._running.items():
            if not task.cancelled() and isinstance(task.result(), Interrupt):
                continue
            if call.id not in self.outcomes:
                await self.settle(call, Outcome(call.name, error=CANCELLED))
            ended.append(call)
        for call in self._waiting:
            await self.settle(call, Outcome(call.name, error=NOT_STARTED))
            ended.append(call)
        self._running.clear()
        self._waiting.clear()
        return ended

    async def _leave_unstarted(self) -> None:
        """The run ends early: say of calls that certainly did not start that they did not.

        An idempotent one is left open instead; the next run starts it.
        """
        for call in self._waiting:
            tool = self.tools.get(call.name)
            if tool is not None and tool.idempotent:
                continue
            try:
                await self.settle(call, Outcome(call.name, error=NOT_STARTED))
            except (StorageError, ThreadBusyError) as error:
                _log.warning("call %s of thread %r is left open: %s", call.id, self.run.thread_id, error)
                return


def _question(call: ToolCall, question: Interrupt) -> dict[str, Any]:
    entry = {
        "call_id": call.id,
        "tool_name": call.name,
        "kind": "tool",
        "payload": question.payload,
        "index": question.index,
        "response_schema": question.response_schema,
        "rejected": question.rejected,
    }
    return {name: value for name, value in entry.items() if value is not None or name == "payload"}
