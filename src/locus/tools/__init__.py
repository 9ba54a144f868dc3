"""Tools: ordinary functions that a model may call."""

from __future__ import annotations

from locus.tools.context import Interrupt, ToolContext
from locus.tools.tool import Tool, ToolSet, tool

__all__ = ["Interrupt", "Tool", "ToolContext", "ToolSet", "tool"]
