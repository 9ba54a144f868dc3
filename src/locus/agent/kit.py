"""An agent's working parts, made once from its options."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from locus.agent.config import AgentConfig
from locus.agent.conversation import ConversationManager
from locus.agent.history import closed
from locus.agent.hooks import Hooks
from locus.agent.memory import Careful, NoMemory, SessionMemory
from locus.agent.structured import instructions
from locus.core.messages import Message
from locus.core.state import AgentState
from locus.errors import ConfigError
from locus.models.base import Model, StreamingModel, ToolSchema
from locus.models.registry import get_model
from locus.tools import ToolSet

__all__ = ["Kit"]


@dataclass(frozen=True, slots=True)
class Kit:
    """What turns are played with."""

    config: AgentConfig
    model: Model
    tools: ToolSet
    hooks: Hooks
    conversation: ConversationManager | None
    memory: SessionMemory

    @classmethod
    def of(cls, config: AgentConfig) -> Kit:
        """Make the parts; `ConfigError` says what does not fit together."""
        model, tools = get_model(config.model), ToolSet(config.tools)
        if config.stream and not isinstance(model, StreamingModel):
            raise ConfigError(f"stream=True needs a model with a `stream` method; {type(model).__name__} has none")
        unknown = sorted(config.terminal_tools - tools.keys())
        if unknown:
            raise ConfigError(f"terminal_tools names {unknown[0]!r}, which is not among the tools: {', '.join(tools)}")
        if config.conversation_manager is not None and not hasattr(config.conversation_manager, "view"):
            kind = type(config.conversation_manager).__name__
            raise ConfigError(f"a conversation_manager needs a method `async view(messages)`; {kind} has none")
        if config.confidence_target is not None and not config.reflexion:
            raise ConfigError("confidence_target needs reflexion=True: confidence does not move without it")
        return cls(config, model, tools, Hooks(config.hooks), config.conversation_manager, _memory(config))

    @property
    def schemas(self) -> list[ToolSchema] | None:
        """The tools as the model is told of them."""
        made: list[ToolSchema] = [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in self.tools.values()
        ]
        return made or None

    @property
    def options(self) -> dict[str, Any]:  # whatever the provider takes
        """What the model is passed with every call."""
        config = self.config
        own = {"temperature": config.temperature, "max_tokens": config.max_tokens}
        return {**{name: value for name, value in own.items() if value is not None}, **config.model_options}

    async def messages(self, state: AgentState, recalled: str, extra: Sequence[Message] = ()) -> Sequence[Message]:
        """What the model is sent: the system prompt, and as much of the thread as the conversation manager lets see."""
        seen: Sequence[Message] = state.messages
        if self.conversation is not None:
            seen = await self.conversation.view(seen)
        system = await self._system_prompt(state, recalled)
        front = [Message.system(system)] if system else []
        return await self.hooks.before_model(state, [*front, *closed(seen), *extra])

    async def _system_prompt(self, state: AgentState, recalled: str) -> str:
        prompt = self.config.system_prompt
        if callable(prompt):
            made = prompt(state) if inspect.signature(prompt).parameters else prompt()
            prompt = await made if inspect.isawaitable(made) else made
        schema = self.config.output_schema
        parts = (prompt, recalled, "" if schema is None else instructions(schema))
        return "\n\n".join(part for part in parts if part)


def _memory(config: AgentConfig) -> SessionMemory:
    manager = config.memory_manager
    if manager is None:
        return NoMemory()
    if not isinstance(manager, SessionMemory):
        raise ConfigError(
            f"memory_manager must have the methods of SessionMemory, `prepare` and `finish`; {type(manager).__name__} "
            "has not"
        )
    return Careful(manager)
