"""Models: the protocol they fill, the offline ones, and how they are found by name."""

from __future__ import annotations

from locus.models.base import Model, ModelChunk, ModelResponse, StreamingModel, ToolSchema, Usage
from locus.models.history import check_history
from locus.models.mock import MockModel
from locus.models.registry import get_model, providers, register_provider
from locus.models.scripted import ScriptedModel

__all__ = [
    "MockModel",
    "Model",
    "ModelChunk",
    "ModelResponse",
    "ScriptedModel",
    "StreamingModel",
    "ToolSchema",
    "Usage",
    "check_history",
    "get_model",
    "providers",
    "register_provider",
]
