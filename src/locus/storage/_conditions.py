"""Conditions: whether an operation is to be done, was done already, or is refused."""

from __future__ import annotations

from locus.errors import ConflictError
from locus.storage.base import ABSENT, ANY, Delete, Op, Put

__all__ = ["to_be_done"]


def to_be_done(op: Op, index: int, rev: str | None, token: str | None) -> bool:
    """True: do it. False: there is nothing left to do. `rev` and `token` are those found at the key, None for absent.

    A put that finds its own token was sent before and its answer lost; a delete of what is absent holds.
    """
    if rev is None and isinstance(op, Delete):
        return False
    if op.if_rev is ANY or (rev is None if op.if_rev is ABSENT else rev == op.if_rev):
        return True
    if isinstance(op, Put) and rev is not None and token == op.token:
        return False
    found = "there is none" if rev is None else f"it is at rev {rev}"
    wanted = "to be absent" if op.if_rev is ABSENT else f"at rev {op.if_rev}"
    raise ConflictError(f"{op.key} was expected {wanted}, but {found}", op_index=index)
