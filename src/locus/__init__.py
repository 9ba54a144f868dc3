"""Durable memory for Python agents: every step is on disk before it is acted on."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
