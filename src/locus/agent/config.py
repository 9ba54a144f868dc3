"""What an agent is made of: its options, with their defaults and limits."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from locus.core.state import AgentState
from locus.errors import ConfigError

__all__ = ["AgentConfig", "SystemPrompt"]

SystemPrompt: TypeAlias = str | Callable[..., str | Awaitable[str]]
"""A text, or a function of the `AgentState` (or of nothing) that makes one for each call of the model."""


class AgentConfig(BaseModel):
    """The options of an `Agent`. Every limit is per turn unless it says otherwise."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, protected_namespaces=())

    # Objects of the caller's own classes, taken by what they can do and not by what they are.
    model: Any = None
    """A model object, or `"provider:model"`; None takes the provider named by LOCUS_MODEL_PROVIDER."""
    tools: tuple[Any, ...] = ()
    checkpointer: Any = None
    """A `BaseCheckpointer`, or a URL such as `sqlite:///threads.db`."""
    memory_manager: Any = None
    """What joins a turn before the model is asked and after it is over: see `locus.agent.memory.SessionMemory`."""
    conversation_manager: Any = None
    hooks: tuple[Any, ...] = ()

    system_prompt: SystemPrompt = ""
    agent_id: str | None = None
    name: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)  # JSON, added to the metadata of each thread's state

    reflexion: bool = False
    output_schema: type[BaseModel] | None = None
    stream: bool = False
    temperature: float | None = None
    max_tokens: int | None = Field(default=None, gt=0)
    model_options: dict[str, Any] = Field(default_factory=dict)
    """Passed to the model with every call, for what only one provider knows."""

    tool_execution: Literal["concurrent", "sequential"] = "concurrent"
    max_concurrency: int = Field(default=10, ge=1)
    tool_timeout: float | None = Field(default=None, gt=0)
    """Seconds for a tool that has no `timeout` of its own."""

    max_iterations: int = Field(default=20, ge=1)
    tool_loop_limit: int | None = Field(default=5, ge=2)
    """Stop when so many replies in a row ask for the same calls with the same arguments; None: never."""
    token_budget: int | None = Field(default=None, gt=0)
    time_budget_seconds: float | None = Field(default=None, gt=0)
    """Looked at before each call of the model; what is running is not cut off."""
    terminal_tools: frozenset[str] = frozenset()
    """A turn is over when one of these succeeded; its result is the answer."""
    confidence_target: float | None = Field(default=None, gt=0, le=1)

    checkpoint_every_n_iterations: int = Field(default=1, ge=1)
    """Which iterations are listed as restore points. Every step is durable whatever this says."""
    on_unknown_outcome: Literal["report", "ask"] = "report"
    """A crash left a call that must not be repeated without a result: tell the model so, or ask a person."""
    wait_seconds: float = Field(default=45.0, ge=0)
    """How long a run waits for a thread that another run holds; longer than a lease, so a dead holder is outwaited."""

    @property
    def id(self) -> str:
        """What the thread's state calls this agent."""
        return self.agent_id or self.name or "agent"

    if not TYPE_CHECKING:  # the checker keeps the typed constructor

        def __init__(self, **options):
            """Check the options; `ConfigError` names the one that is wrong and the way out."""
            known = type(self).model_fields
            for name in options:
                if name not in known:
                    raise ConfigError(_unknown(name, list(known)))
            try:
                super().__init__(**{name: _listed(name, value) for name, value in options.items()})
            except ValidationError as error:
                raise ConfigError(f"Agent: {_problems(error)}") from error

    def with_options(self, options: Mapping[str, Any]) -> AgentConfig:
        """These options, and the given ones over them."""
        return AgentConfig(**{name: getattr(self, name) for name in self.model_fields_set} | dict(options))


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if near:
        return f"Agent has no option {name!r}; did you mean {' or '.join(map(repr, near))}?"
    return f"Agent has no option {name!r}; it has: {', '.join(sorted(known))}"


def _listed(name: str, value: object) -> object:
    """One hook or a list of them; None where nothing is meant."""
    if name in ("tools", "hooks", "terminal_tools") and value is None:
        return ()
    if name == "hooks" and not isinstance(value, (list, tuple, set, frozenset)):
        return (value,)
    if name == "metadata" and value is None:
        return {}
    if name == "tools" and isinstance(value, Mapping):
        return tuple(value.values())
    return value


def _problems(error: ValidationError) -> str:
    items = error.errors(include_url=False, include_input=True)
    return "; ".join(f"{'.'.join(map(str, item['loc']))}={item['input']!r}: {item['msg']}" for item in items)


def initial_state(config: AgentConfig) -> AgentState:
    """The state of a thread that has none."""
    return AgentState(agent_id=config.id, max_iterations=config.max_iterations)
