"""The agent: what a program talks to."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, NamedTuple, Self, TypeAlias

from locus._ids import check_name
from locus.agent.blocking import run_blocking
from locus.agent.cancelling import Cancellation, unstoppable
from locus.agent.config import AgentConfig, initial_state
from locus.agent.history import is_empty
from locus.agent.kit import Kit
from locus.agent.result import AgentResult
from locus.agent.session import Session, fresh_turn
from locus.agent.threads import give_back, load_turn, open_run, visible
from locus.core.events import Event
from locus.core.messages import Message, Part, Role
from locus.core.state import AgentState
from locus.errors import ConfigError, InputError
from locus.memory.checkpointer import BaseCheckpointer
from locus.memory.run import ThreadRun

__all__ = ["Agent", "EventStream", "StateSnapshot"]

Prompt: TypeAlias = str | Message | Sequence[Part]
_Steps: TypeAlias = Callable[[Session], AsyncGenerator[Event, None]]


class StateSnapshot(NamedTuple):
    """A checkpoint of a thread."""

    checkpoint_id: str
    state: AgentState


class Agent:
    """A model with tools and, given a checkpointer, with threads that survive the process.

    The options are those of `AgentConfig`. With a checkpointer and a `thread_id` every step is on record before it is
    acted on: a run that was killed, cancelled or left by its caller is finished by the next one.

    A model that fails ends the turn with `stop_reason="error"` and `success=False`; it stays open and is asked again
    by the next run. `ThreadBusyError`, `StorageError` and what a hook raises reach the caller.
    """

    def __init__(
        self, model: Any = None, *, config: AgentConfig | None = None, **options: Any
    ) -> None:  # see AgentConfig
        if model is not None:
            options["model"] = model
        if config is not None and not isinstance(config, AgentConfig):
            raise ConfigError(f"config must be an AgentConfig, not {type(config).__name__}; give options as keywords")
        self.config = (config or AgentConfig()).with_options(options)
        self._kit = Kit.of(self.config)
        self.checkpointer = _checkpointer(self.config.checkpointer)
        self._active: dict[str, list[Cancellation]] = {}

    def __repr__(self) -> str:
        return f"<Agent {self.config.id}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the checkpointer if it was given as a URL; one that was given as an object is its owner's to close."""
        if self.checkpointer is not None and isinstance(self.config.checkpointer, str):
            await self.checkpointer.close()

    async def run(
        self,
        prompt: Prompt,
        *,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,  # JSON
        turn_id: str | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Take a turn and report on it; the last event is `terminate`.

        A turn that an earlier run left unfinished is finished first, with its own events. With a `turn_id` the same
        turn sent again goes on where it stopped, or reports its recorded answer; it is never taken twice.
        """
        steps = self._new_turn(prompt, metadata, turn_id)
        async with aclosing(EventStream(self, steps, thread_id)) as events:
            async for event in events:
                yield event

    async def arun(
        self,
        prompt: Prompt,
        *,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,  # JSON
        turn_id: str | None = None,
    ) -> AgentResult:
        """Take a turn and return its result."""
        return await EventStream(self, self._new_turn(prompt, metadata, turn_id), thread_id)

    def run_sync(
        self,
        prompt: Prompt,
        *,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,  # JSON
        turn_id: str | None = None,
    ) -> AgentResult:
        """`arun` for ordinary code. Inside a running loop it works too, and blocks that loop until it is done."""
        return run_blocking(self.arun(prompt, thread_id=thread_id, metadata=metadata, turn_id=turn_id))

    def continue_turn(self, thread_id: str) -> EventStream:
        """Only finish the turn that an earlier run left. Iterate it for events, or await it for the result."""
        self._needs_checkpointer("continue_turn")
        return EventStream(self, Session.finish_turn, thread_id)

    def continue_turn_sync(self, thread_id: str) -> AgentResult:
        """`continue_turn` for ordinary code."""
        return run_blocking(_awaited(self.continue_turn(thread_id)))

    def resume(self, response: Any, *, thread_id: str) -> EventStream:  # JSON of the person's
        """Answer an interrupt. Iterate it for events, or await it for the result.

        Where several questions are open, answer with a dict by call id; those left out stay open.
        """
        self._needs_checkpointer("resume")
        return EventStream(self, lambda session: session.answer(response), thread_id)

    def resume_sync(self, response: Any, *, thread_id: str) -> AgentResult:  # JSON of the person's
        """`resume` for ordinary code."""
        return run_blocking(_awaited(self.resume(response, thread_id=thread_id)))

    def cancel(self, thread_id: str) -> bool:
        """Ask this agent's runs on a thread to stop, from any coroutine or thread; False if there are none.

        What is open is settled and the turn ends with `stop_reason="cancelled"`; no later run takes it up.
        """
        active = list(self._active.get(thread_id, ()))
        for cancellation in active:
            cancellation.request()
        return bool(active)

    async def get_state(self, thread_id: str, checkpoint_id: str | None = None) -> AgentState | None:
        """The thread's newest state, or that of a checkpoint; None if there is none."""
        state = await self._needs_checkpointer("get_state").load(thread_id, checkpoint_id)
        return None if state is None else visible(state)

    async def get_state_history(self, thread_id: str, limit: int = 10) -> list[StateSnapshot]:
        """The thread's checkpoints with their states, newest first."""
        checkpointer = self._needs_checkpointer("get_state_history")
        found: list[StateSnapshot] = []
        for checkpoint_id in await checkpointer.list_checkpoints(thread_id, limit):
            state = await self.get_state(thread_id, checkpoint_id)
            if state is not None:  # None: deleted since it was listed
                found.append(StateSnapshot(checkpoint_id, state))
        return found

    async def update_state(
        self,
        thread_id: str,
        change: AgentState | Callable[[AgentState], AgentState] | None = None,
        /,
        **values: Any,  # fields of AgentState
    ) -> str:
        """Change a thread's state by hand: a whole state, a function of the old one, or single fields.

        Waits for runs on the thread. Returns the id of the new checkpoint; the old ones stay.
        """
        self._needs_checkpointer("update_state")
        async with self._held(thread_id) as run:
            old = run.state or initial_state(self.config)
            new = change(old) if callable(change) else change or old
            if values or not isinstance(new, AgentState):
                new = _changed(new, values)
            kept = run.turn is not None and new.messages == old.messages
            turn = run.turn if kept and run.turn is not None else fresh_turn(new, run.turn)
            return await unstoppable(run.append(new, turn))

    async def fork(self, thread_id: str, new_thread_id: str, checkpoint_id: str | None = None) -> str:
        """Begin a new thread with the state of another, at its newest or a named checkpoint; returns its checkpoint id.

        A turn that was over there is over here; one that waits for a person, or was left unfinished, does so here too.
        """
        found = await load_turn(self._needs_checkpointer("fork"), thread_id, checkpoint_id)
        if found is None:
            what = f"thread {thread_id!r} has no checkpoint"
            raise InputError(what if checkpoint_id is None else f"{what} {checkpoint_id!r}")
        async with self._held(check_name(new_thread_id, "new_thread_id")) as run:
            if run.state is not None:
                raise InputError(f"thread {new_thread_id!r} exists already; fork to another id, or delete it first")
            state, turn = found
            return await unstoppable(run.append(state, turn or fresh_turn(state, None)))

    def _new_turn(self, prompt: Prompt, metadata: Mapping[str, Any] | None, turn_id: str | None) -> _Steps:
        message = _user_message(prompt)
        if turn_id is not None:
            check_name(turn_id, "turn_id")
        return lambda session: session.new_turn(message, turn_id, metadata)

    def _needs_checkpointer(self, what: str) -> BaseCheckpointer:
        if self.checkpointer is None:
            raise ConfigError(f"{what} needs a checkpointer: Agent(..., checkpointer='sqlite:///threads.db')")
        return self.checkpointer

    @asynccontextmanager
    async def _held(self, thread_id: str | None) -> AsyncGenerator[ThreadRun, None]:
        """Hold a thread, and give it back whatever happens."""
        run = await open_run(self.checkpointer, thread_id, self.config.wait_seconds)
        try:
            yield run
        finally:
            await unstoppable(give_back(run))

    async def events(
        self, steps: _Steps, thread_id: str | None, ended: Callable[[AgentResult], None]
    ) -> AsyncGenerator[Event, None]:
        """The events of one run; `ended` is given its result before the last of them."""
        async with self._held(thread_id) as run:
            cancellation = Cancellation()
            active = self._active.setdefault(thread_id or "", [])
            active.append(cancellation)
            session = Session(self._kit, run, cancellation)
            try:
                async with aclosing(steps(session)) as events:
                    async for event in events:
                        if session.result is not None:
                            ended(session.result)
                        yield event
            finally:
                active.remove(cancellation)
                if not active:
                    self._active.pop(thread_id or "", None)


class EventStream:
    """A run that has not begun: `async for event in stream`, or `result = await stream`."""

    def __init__(self, agent: Agent, steps: _Steps, thread_id: str | None) -> None:
        self.result: AgentResult | None = None
        self._events = agent.events(steps, thread_id, self._ended)

    def _ended(self, result: AgentResult) -> None:
        self.result = result

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> Event:
        return await anext(self._events)

    async def aclose(self) -> None:
        """Leave the run; what is on record stays, and a later run goes on from there."""
        await self._events.aclose()

    def __await__(self) -> Generator[Any, None, AgentResult]:
        return self._finish().__await__()

    async def _finish(self) -> AgentResult:
        async with aclosing(self):
            async for _ in self:
                pass
        assert self.result is not None
        return self.result


async def _awaited(stream: Awaitable[AgentResult]) -> AgentResult:
    return await stream


def _user_message(prompt: Prompt) -> Message:
    if isinstance(prompt, Message):
        message = prompt
    elif isinstance(prompt, (str, list, tuple)):
        message = Message.user(prompt)
    else:
        raise InputError(f"a prompt is a text, a list of parts or a user's Message, not {type(prompt).__name__}")
    if message.role is not Role.USER:
        raise InputError(f"a prompt must be a message of the user, not of the {message.role.value}")
    if is_empty(message):
        raise InputError("the prompt is empty")
    return message


def _checkpointer(given: Any) -> BaseCheckpointer | None:  # an option: anything may have been passed
    if given is None or isinstance(given, BaseCheckpointer):
        return given
    if isinstance(given, str):
        from locus.memory import get_checkpointer

        return get_checkpointer(given)
    if all(callable(getattr(given, name, None)) for name in ("save", "load", "list_checkpoints")):
        return given  # type: ignore[no-any-return]  # the three methods are the contract
    raise ConfigError(f"a checkpointer is a BaseCheckpointer or a URL, not {type(given).__name__}")


def _changed(state: object, values: Mapping[str, Any]) -> AgentState:
    if not isinstance(state, AgentState):
        raise InputError(f"a state must be an AgentState, not {type(state).__name__}")
    unknown = [name for name in values if name not in AgentState.model_fields]
    if unknown:
        raise InputError(f"AgentState has no field {unknown[0]!r}; it has: {', '.join(AgentState.model_fields)}")
    return AgentState.model_validate({**dict(state), **values})
