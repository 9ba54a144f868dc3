"""What is done with a thread while a run holds it: an earlier turn finished, an answer taken, a new turn begun."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from locus._ids import new_id
from locus.agent.cancelling import Cancellation, unstoppable
from locus.agent.config import initial_state
from locus.agent.history import TURN_KEY, derive_turn, open_calls, turn_start
from locus.agent.kit import Kit
from locus.agent.loop import TurnLoop
from locus.agent.outcome import NOT_ANSWERED, Outcome
from locus.agent.recovery import Verdict, responses
from locus.agent.result import AgentResult, terminate
from locus.agent.threads import give_back
from locus.core.events import Event
from locus.core.messages import Message
from locus.core.state import AgentState
from locus.errors import InputError
from locus.memory.run import ThreadRun, Turn

__all__ = ["Session"]


class Session:
    """One run on one thread. `result` is that of the turn the caller asked for."""

    def __init__(self, kit: Kit, run: ThreadRun, cancellation: Cancellation) -> None:
        self.kit, self.run, self.cancellation = kit, run, cancellation
        self.result: AgentResult | None = None

    async def new_turn(
        self, prompt: Message, turn_id: str | None, metadata: Mapping[str, Any] | None
    ) -> AsyncGenerator[Event, None]:
        """Finish what an earlier run left, then begin with the prompt.

        When finishing it needs a person, the run ends there as interrupted and the prompt is not begun.
        """
        earlier = self._stand()
        if turn_id is not None:
            known = await self._known(turn_id, earlier)
            if known is not None:
                async with aclosing(self._last(known)) as events:
                    async for event in events:
                        yield event
                return
        if earlier is not None and earlier.turn.phase != "done":
            async with aclosing(self._finish_earlier(earlier)) as events:
                async for event in events:
                    yield event
            if self.result is not None:
                return
        loop = await self._begin(prompt, turn_id or new_id("turn_"), metadata)
        async with aclosing(self._last(loop)) as events:
            async for event in events:
                yield event

    async def finish_turn(self) -> AsyncGenerator[Event, None]:
        """Only finish what an earlier run left; a turn that is over is reported once more."""
        loop = self._stand()
        if loop is None:
            raise InputError(f"thread {self.run.thread_id!r} has no turn to continue")
        async with aclosing(self._last(loop)) as events:
            async for event in events:
                yield event

    async def answer(self, response: Any) -> AsyncGenerator[Event, None]:  # JSON of the person's
        """Take a person's answer to what was asked, and go on."""
        loop = self._stand()
        if loop is None or loop.turn.phase != "interrupted":
            raise InputError(f"thread {self.run.thread_id!r} does not wait for an answer")
        await _take_answers(loop, responses(loop.turn.interrupts, response))
        async with aclosing(self._last(loop)) as events:
            async for event in events:
                yield event

    def _stand(self) -> TurnLoop | None:
        """The thread's newest turn, None when there is none or nothing of it is known to be open."""
        state, turn = self.run.state, self.run.turn
        if state is None:
            return None
        if turn is None:  # saved by hand: only calls without results need a run
            turn = derive_turn(state)
            turn = turn if turn.phase == "replied" else replace(turn, phase="done")
        return TurnLoop(self.kit, self.run, self.cancellation, state, turn)

    async def _known(self, turn_id: str, newest: TurnLoop | None) -> TurnLoop | None:
        """The turn that carried this id before."""
        if newest is not None and newest.turn.turn_id == turn_id:
            return newest
        found = await self.run.find_turn(turn_id)
        if found is None:
            return None
        turn, state = found
        # Whatever it waited for, the thread has gone on since: there is nothing to finish.
        return TurnLoop(self.kit, self.run, self.cancellation, state, replace(turn, phase="done"))

    async def _begin(self, prompt: Message, turn_id: str, metadata: Mapping[str, Any] | None) -> TurnLoop:
        config = self.kit.config
        state = self.run.state or initial_state(config)
        changes: dict[str, Any] = {
            "run_id": new_id("run_"),
            "max_iterations": config.max_iterations,
            "metadata": {**state.metadata, **config.metadata, **(metadata or {})},
        }
        if config.agent_id is not None:
            changes["agent_id"] = config.agent_id
        marked = prompt.model_copy(update={"metadata": {**prompt.metadata, TURN_KEY: turn_id}})
        state = state.model_copy(update=changes).with_message(marked)
        turn = Turn(turn_id, "asked", base_iteration=state.iteration)
        loop = TurnLoop(self.kit, self.run, self.cancellation, state, turn)
        loop.metadata = metadata
        await loop.record("asked", listed=config.checkpoint_every_n_iterations == 1)
        return loop

    async def _finish_earlier(self, loop: TurnLoop) -> AsyncGenerator[Event, None]:
        if loop.turn.phase == "interrupted":
            await _leave_unanswered(loop)
            await self._learn(loop)
            return
        async with aclosing(self._played(loop)) as events:
            async for event in events:
                yield event
        assert loop.result is not None
        if loop.result.stop_reason == "interrupted":
            self.result = loop.result
            await unstoppable(give_back(self.run))
        elif loop.turn.phase != "done":  # the model failed once more; a turn that cannot be finished must not block
            await loop.record("done", listed=True, stop_reason="error")
        yield await self._told(terminate(loop.result))
        await self._learn(loop)

    async def _last(self, loop: TurnLoop) -> AsyncGenerator[Event, None]:
        """Play the turn the caller waits for, and give the thread back before the caller hears that it is over."""
        async with aclosing(self._played(loop)) as events:
            async for event in events:
                yield event
        self.result = loop.result
        assert self.result is not None
        await unstoppable(give_back(self.run))
        yield await self._told(terminate(self.result))
        await self._learn(loop)

    async def _learn(self, loop: TurnLoop) -> None:
        """Let memory take in the messages of a turn that is over."""
        if loop.turn.phase == "done":
            new = loop.state.messages[turn_start(loop.state.messages) :]
            await self.kit.memory.finish(loop.state, new, self.run.thread_id or None)

    async def _played(self, loop: TurnLoop) -> AsyncGenerator[Event, None]:
        if loop.turn.phase in ("done", "interrupted"):
            loop.recall()
            if loop.turn.phase == "interrupted":
                yield await self._told(loop.question())
            return
        async with aclosing(loop.play()) as events:
            async for event in events:
                yield await self._told(event)

    async def _told(self, event: Event) -> Event:
        await self.kit.hooks.call("on_event", event)
        return event


async def _leave_unanswered(loop: TurnLoop) -> None:
    """The user went on without answering: close the open calls and the turn."""
    outcomes = {c.id: Outcome(c.name, error=NOT_ANSWERED) for c in open_calls(loop.state.messages)}
    loop.take_in(open_calls(loop.state.messages), outcomes)
    await loop.record("done", listed=True, interrupts=(), answers={}, stop_reason="interrupted")


async def _take_answers(loop: TurnLoop, given: Mapping[str, Any]) -> None:
    """Put the answers on record, before anything is done with them."""
    calls = {call.id: call for call in open_calls(loop.state.messages)}
    answers = {call_id: list(kept) for call_id, kept in loop.turn.answers.items()}
    settled: dict[str, Outcome] = {}
    for question in loop.turn.interrupts:
        call_id = str(question["call_id"])
        if call_id not in given or call_id not in calls:
            continue
        if question.get("kind") == "unknown_outcome":
            outcome = Verdict.of(given[call_id]).outcome(calls[call_id])
            settled.update({} if outcome is None else {call_id: outcome})
        else:
            answers[call_id] = [*answers.get(call_id, [])[: question.get("index", 0)], given[call_id]]
    held = tuple(question for question in loop.turn.interrupts if question["call_id"] not in given)
    loop.take_in([calls[call_id] for call_id in settled], settled)
    loop.ready = [calls[call_id] for call_id in given if call_id in calls and call_id not in settled]
    await loop.record("replied", listed=False, interrupts=held, answers=answers, stop_reason=None)


def fresh_turn(state: AgentState, before: Turn | None) -> Turn:
    """Where the turn stands after somebody changed the state by hand."""
    turn = derive_turn(state, before.turn_id if before else None)
    over = before is None or before.phase == "done"
    return replace(turn, phase="done") if over and turn.phase != "replied" else turn
