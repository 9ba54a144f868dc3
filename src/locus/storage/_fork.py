"""Forks: storages whose connections must not be open while a process divides are told before and after."""

from __future__ import annotations

import os
import threading
from typing import Protocol
from weakref import WeakSet

__all__ = ["ForkAware", "watch"]


class ForkAware(Protocol):
    """What is told of forks; the three calls come from the thread that forks."""

    def before_fork(self) -> None:
        """Let go of what a child must not inherit."""

    def after_fork_in_parent(self) -> None:
        """Go on."""

    def after_fork_in_child(self) -> None:
        """Begin anew: threads are gone, locks may be held for ever."""


_watched: WeakSet[ForkAware] = WeakSet()
_forking = threading.Lock()


def watch(storage: ForkAware) -> None:
    """Tell `storage` of every fork for as long as it lives."""
    _watched.add(storage)


def _before() -> None:
    _forking.acquire()  # two threads that fork at once would wait for each other's storages
    for storage in list(_watched):
        storage.before_fork()


def _in_parent() -> None:
    for storage in list(_watched):
        storage.after_fork_in_parent()
    _forking.release()


def _in_child() -> None:
    global _forking
    _forking = threading.Lock()
    for storage in list(_watched):
        storage.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
