"""Agents: a model, its tools, and threads that survive the process."""

from __future__ import annotations

from locus.agent.agent import Agent, EventStream, StateSnapshot
from locus.agent.config import AgentConfig
from locus.agent.conversation import ConversationManager, SlidingWindow, Summarizing
from locus.agent.hooks import Hook
from locus.agent.recovery import UnknownOutcome, Verdict
from locus.agent.result import AgentMetrics, AgentResult

__all__ = [
    "Agent",
    "AgentConfig",
    "AgentMetrics",
    "AgentResult",
    "ConversationManager",
    "EventStream",
    "Hook",
    "SlidingWindow",
    "StateSnapshot",
    "Summarizing",
    "UnknownOutcome",
    "Verdict",
]
