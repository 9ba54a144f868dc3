"""One turn: ask the model, run its tools, until it is over. Nothing is acted on before it is on record."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from locus._ids import new_id
from locus.agent.asking import Asking
from locus.agent.cancelling import Cancellation, Cancelled, unstoppable
from locus.agent.history import is_empty, last_reply, open_calls, repeats, turn_start, with_results
from locus.agent.kit import Kit
from locus.agent.outcome import NOT_ANSWERED, Outcome
from locus.agent.recovery import Plan, UnknownOutcome, plan
from locus.agent.reflexion import reflect
from locus.agent.result import AgentMetrics, AgentResult
from locus.agent.structured import correction, parse
from locus.agent.toolrun import ToolRun
from locus.core.events import Event, InterruptEvent, ReflectEvent, ThinkEvent, ToolCompleteEvent
from locus.core.messages import Message, Role, ToolCall
from locus.core.state import AgentState, ToolExecution
from locus.memory.run import Phase, ThreadRun, Turn
from locus.models.base import ModelResponse

__all__ = ["TurnLoop"]

_LOOKS_LIKE_A_LOOP = 3


class TurnLoop:
    """Plays one turn of a thread from wherever it stands. `result` is there when it is over, or waits for a person."""

    def __init__(self, kit: Kit, run: ThreadRun, cancellation: Cancellation, state: AgentState, turn: Turn) -> None:
        self.kit, self.run, self.cancellation = kit, run, cancellation
        self.state, self.turn = state, turn
        self.metadata: Mapping[str, Any] | None = None  # JSON, kept with the turn's checkpoints
        self.result: AgentResult | None = None
        self.ready: list[ToolCall] = []
        """Open calls that are known not to have run; of any other, an earlier run may have begun it."""
        self._began = time.monotonic()
        self._first = state
        self._recalled: str | None = None

    async def play(self) -> AsyncGenerator[Event, None]:
        """Go on until there is a result. All events but `terminate`, which is the caller's to give out last."""
        while self.result is None:
            step = self._use_tools() if self.turn.phase == "replied" else self._ask()
            async with aclosing(step):
                async for event in step:
                    yield event

    async def record(self, phase: Phase, *, listed: bool, **changes: Any) -> None:  # fields of Turn
        """Put the state on record, at this point of the turn."""
        self.turn = replace(self.turn, phase=phase, **changes)
        # A write that was abandoned half-way could land after the thread was given back, in another run's way.
        await unstoppable(self.run.append(self.state, self.turn, listed=listed, metadata=self.metadata))

    @property
    def used(self) -> int:
        """The iterations of this turn so far."""
        return self.state.iteration - self.turn.base_iteration

    async def _ask(self) -> AsyncGenerator[Event, None]:
        limit = self._limit()
        if limit is not None:
            await self.finish(limit)
            return
        asking = Asking(self.kit, self.cancellation)
        try:
            async with aclosing(asking.chunks(await self._messages())) as chunks:
                async for event in chunks:
                    yield event
        except Cancelled:
            await self.finish("cancelled")
            return
        if asking.error is not None:
            await self._fail(asking.error)
            return
        assert asking.response is not None
        await self.kit.hooks.call("after_model", self.state, asking.response)
        async with aclosing(self._reply(asking.response)) as events:
            async for event in events:
                yield event

    async def _messages(self, extra: Iterable[Message] = ()) -> list[Message]:
        if self._recalled is None:
            self._recalled = await self.kit.memory.prepare(self.state, self.run.thread_id or None)
        return list(await self.kit.messages(self.state, self._recalled, tuple(extra)))

    async def _reply(self, response: ModelResponse) -> AsyncGenerator[Event, None]:
        reply = _with_unique_calls(response.message, self.state)
        self.state = _counted(self.state, response).next_iteration()
        think = ThinkEvent(iteration=self.state.iteration, reasoning=reply.text, tool_calls=reply.tool_calls)
        if reply.tool_calls:
            self.state = self.state.with_message(reply)
            self.ready = list(reply.tool_calls)
            await self.record("replied", listed=False, interrupts=(), answers={})
            yield think
            return
        reply, problem = await self._fitting(reply)
        if not is_empty(reply):  # an empty message would make the thread unacceptable to providers for good
            self.state = self.state.with_message(reply)
        if problem is not None:
            self.state = self.state.with_error(problem)
        if problem is not None and self.cancellation.requested:  # stopped while it was asked to mend its answer
            await self.finish("cancelled")
        else:
            await self.finish("complete" if problem is None else "error", error=problem)
        yield think

    async def _fitting(self, reply: Message) -> tuple[Message, str | None]:
        """The answer, asked for once more when it does not fit the output schema."""
        schema = self.kit.config.output_schema
        if schema is None:
            return reply, None
        _, problem = parse(schema, reply.text)
        if problem is None or is_empty(reply):
            return reply, problem and f"the answer does not fit {schema.__name__}: {problem}"
        asking = Asking(self.kit, self.cancellation)
        try:
            await asking.silently(await self._messages(correction(reply, problem)))
        except Cancelled:
            asking.error = "cancelled"
        if asking.response is not None and not asking.response.message.tool_calls:
            self.state = _counted(self.state, asking.response)
            reply = asking.response.message
            _, problem = parse(schema, reply.text)
        return reply, problem and f"the answer does not fit {schema.__name__}: {problem}"

    async def _use_tools(self) -> AsyncGenerator[Event, None]:
        calls = open_calls(self.state.messages)
        todo = await self._plan(calls)
        work = ToolRun(
            self.kit.config,
            self.kit.tools,
            self.kit.hooks,
            self.run,
            self.cancellation,
            self.state,
            answers=self.turn.answers,
            attempts={call.id: 2 for call in todo.again if call not in self.ready},
        )
        work.outcomes.update(todo.known)
        late: list[Event] = []
        async with aclosing(self._outcomes(work, calls, todo)) as events:
            async for event in events:
                # Without results of their own, they are on record only with the state that holds them all.
                if isinstance(event, ToolCompleteEvent) and not self.run.separate_results:
                    late.append(event)
                else:
                    yield event
        questions = [*work.interrupts, *self._held(calls), *(UnknownOutcome.interrupt(call) for call in todo.asked)]
        if self.cancellation.requested:
            for call in (call for call in calls if call.id not in work.outcomes):
                await work.settle(call, Outcome(call.name, error=NOT_ANSWERED))
            questions = []
        self.take_in(calls, work.outcomes)
        last = await self._interrupt(questions) if questions else await self._ran()
        for event in (*late, *last):
            yield event

    async def _plan(self, calls: tuple[ToolCall, ...]) -> Plan:
        """What becomes of each open call; those of an open question are held back."""
        held = {question["call_id"] for question in self.turn.interrupts}
        ready = {call.id for call in self.ready}
        doubtful = [call for call in calls if call.id not in held | ready]
        found = Plan()
        if doubtful:
            ask = self.kit.config.on_unknown_outcome == "ask"
            found = plan(doubtful, await self.run.settled(), self.kit.tools, ask=ask)
        found.again = [call for call in calls if call.id in ready or call in found.again]
        return found

    def _held(self, calls: tuple[ToolCall, ...]) -> list[Mapping[str, Any]]:
        """Questions that are still open while others are answered."""
        open_ids = {call.id for call in calls}
        return [question for question in self.turn.interrupts if question["call_id"] in open_ids]

    async def _outcomes(self, work: ToolRun, calls: tuple[ToolCall, ...], todo: Plan) -> AsyncGenerator[Event, None]:
        for call in calls:
            if call.id in todo.lost:
                await work.settle(call, todo.lost[call.id])
            if call.id in work.outcomes:
                yield work.outcomes[call.id].event(call)
        async with aclosing(work.events(todo.again)) as events:
            async for event in events:
                yield event

    def take_in(self, calls: Sequence[ToolCall], outcomes: Mapping[str, Outcome]) -> None:
        """Put outcomes into the state, in the order of the calls."""
        ended = [call for call in calls if call.id in outcomes]
        results = [outcomes[call.id].message(call) for call in ended]
        self.state = self.state.model_copy(update={"messages": with_results(self.state.messages, results)})
        for call in ended:
            self.state = self.state.with_tool_execution(outcomes[call.id].execution(call))
        self.ready = []

    async def _interrupt(self, questions: list[Mapping[str, Any]]) -> list[Event]:
        await self.record("interrupted", listed=True, interrupts=tuple(questions), stop_reason="interrupted")
        await self.end("interrupted")
        return [self.question()]

    def question(self) -> InterruptEvent:
        """What a person is asked."""
        asked = tuple(dict(question) for question in self.turn.interrupts)
        return InterruptEvent(thread_id=self.run.thread_id or None, interrupts=asked)

    async def _ran(self) -> list[Event]:
        """All calls have their results: judge them, and see whether the turn is over."""
        executions = self._executions()
        repeated = repeats(self.state.messages)
        events = self._reflect(executions, repeated) if self.kit.config.reflexion else []
        stop = self._stop(executions, repeated)
        if stop is not None:
            await self.finish(stop)
            return events
        listed = self.used % self.kit.config.checkpoint_every_n_iterations == 0
        if listed or not self.run.separate_results:
            await self.record("ran", listed=listed, interrupts=(), answers={})
        else:  # the results are on record by themselves, and the next record brings the state
            self.turn = replace(self.turn, phase="ran", interrupts=(), answers={})
        return events

    def _executions(self) -> list[ToolExecution]:
        reply = last_reply(self.state.messages)
        ids = {call.id for call in self.state.messages[reply].tool_calls} if reply is not None else set()
        return [one for one in self.state.tool_executions if one.tool_call_id in ids]

    def _reflect(self, executions: list[ToolExecution], repeated: int) -> list[Event]:
        limit = min(_LOOKS_LIKE_A_LOOP, self.kit.config.tool_loop_limit or _LOOKS_LIKE_A_LOOP)
        judged = reflect(self.state.confidence, [one.error for one in executions], looping=repeated >= limit)
        self.state = self.state.with_confidence(judged.confidence)
        return [
            ReflectEvent(
                iteration=self.state.iteration,
                assessment=judged.assessment,
                confidence_delta=judged.delta,
                new_confidence=judged.confidence,
                guidance=judged.guidance,
            )
        ]

    def _stop(self, executions: list[ToolExecution], repeated: int) -> str | None:
        config = self.kit.config
        if self.cancellation.requested:
            return "cancelled"
        if any(one.success and one.tool_name in config.terminal_tools for one in executions):
            return "terminal_tool"
        if config.confidence_target is not None and self.state.confidence >= config.confidence_target:
            return "confidence_met"
        if config.tool_loop_limit is not None and repeated >= config.tool_loop_limit:
            return "tool_loop"
        return self._limit()

    def _limit(self) -> str | None:
        """Why the model is not to be asked again, if so."""
        config = self.kit.config
        if self.cancellation.requested:
            return "cancelled"
        if self.used >= config.max_iterations:
            return "max_iterations"
        if config.token_budget is not None and self._tokens().total_tokens >= config.token_budget:
            return "token_budget"
        if config.time_budget_seconds is not None and time.monotonic() - self._began >= config.time_budget_seconds:
            return "time_budget"
        return None

    async def finish(self, reason: str, *, error: str | None = None) -> None:
        """Put the final state on record; the turn is over."""
        await self.record("done", listed=True, interrupts=(), answers={}, stop_reason=reason)
        await self.end(reason, error)

    async def _fail(self, error: str) -> None:
        """The model failed. The turn stays open, so that the next run or `continue_turn` asks again."""
        self.state = self.state.with_error(error)
        await self.record(self.turn.phase, listed=True, stop_reason="error")
        await self.end("error", error)

    async def end(self, reason: str, error: str | None = None) -> None:
        """The turn is on record as over, or as waiting for a person."""
        self.result = self._result(reason, error)
        await self.kit.hooks.call("on_turn_end", self.result)

    def recall(self) -> None:
        """Make the result of a turn that an earlier run brought to its end."""
        reason = self.turn.stop_reason or "complete"
        self.result = self._result(reason, self.state.errors[-1] if reason == "error" and self.state.errors else None)

    def _result(self, reason: str, error: str | None) -> AgentResult:
        message = self._answer(reason)
        schema = self.kit.config.output_schema
        return AgentResult(
            message=message,
            state=self.state,
            stop_reason=reason,
            metrics=self._metrics(),
            error=error,
            parsed=None if schema is None else parse(schema, message)[0],
            interrupts=tuple(dict(question) for question in self.turn.interrupts),
            thread_id=self.run.thread_id or None,
            turn_id=self.turn.turn_id,
        )

    def _answer(self, reason: str) -> str:
        if reason == "terminal_tool":
            ended = [
                one for one in self._executions() if one.success and one.tool_name in self.kit.config.terminal_tools
            ]
            return str(ended[-1].result) if ended else ""
        said = self.state.messages[turn_start(self.state.messages) :]
        return next((m.text for m in reversed(said) if m.role is Role.ASSISTANT and m.text), "")

    def _metrics(self) -> AgentMetrics:
        said = self.state.messages[turn_start(self.state.messages) :]
        results = [m for m in said if m.role is Role.TOOL]
        return self._tokens().model_copy(
            update={
                "iterations": self.used,
                "tool_calls": len(results),
                "tool_errors": sum(1 for m in results if m.metadata.get("is_error")),
                "duration_ms": (time.monotonic() - self._began) * 1000,
            }
        )

    def _tokens(self) -> AgentMetrics:
        names = ("prompt_tokens", "completion_tokens", "total_tokens")
        return AgentMetrics(**{name: getattr(self.state, name) - getattr(self._first, name) for name in names})


def _with_unique_calls(reply: Message, state: AgentState) -> Message:
    """The reply with call ids that the thread has not had, and a key for each call that stays with it."""
    if not reply.tool_calls:
        return reply
    used = {call.id for message in state.messages for call in message.tool_calls}
    calls: list[ToolCall] = []
    for call in reply.tool_calls:
        call_id = new_id("call_") if not call.id or call.id in used else call.id
        used.add(call_id)
        name = call.name or "unnamed"  # providers refuse a history with a call that has no name, for good
        calls.append(call.model_copy(update={"id": call_id, "name": name, "idempotency_key": os.urandom(16).hex()}))
    return reply.model_copy(update={"tool_calls": tuple(calls)})


def _counted(state: AgentState, response: ModelResponse) -> AgentState:
    usage = response.usage
    return state.with_tokens(usage.prompt_tokens, usage.completion_tokens, usage.total_tokens)
