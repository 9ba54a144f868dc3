"""What a running tool knows about its call, and how it asks a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

__all__ = ["Interrupt", "ToolContext"]

T = TypeVar("T")


class Interrupt(BaseException):
    """Raised by `ToolContext.interrupt`: the run stops here until a person answers.

    Not an `Exception`, so that a tool's own `except Exception` does not swallow the question.
    """

    def __init__(
        self,
        payload: Any,  # JSON, whatever the tool wants the person to see
        *,
        index: int = 0,
        response_schema: Mapping[str, Any] | None = None,  # JSON schema
        rejected: str | None = None,
    ) -> None:
        super().__init__(f"a tool waits for an answer to {payload!r}")
        self.payload = payload
        self.index = index
        self.response_schema = response_schema
        self.rejected = rejected


@dataclass(slots=True)
class ToolContext:
    """Handed to a tool that has a `ctx` parameter; the model does not see it.

    `idempotency_key` stays the same when a call is run again after a crash: pass it to whatever has the effect, and the
    effect happens once. `attempt` counts the runs of this call, beginning with 1, as far as the run knows.
    """

    thread_id: str | None = None
    tool_call_id: str = ""
    idempotency_key: str = ""
    tool_name: str = ""
    agent_id: str | None = None
    attempt: int = 1
    metadata: Mapping[str, Any] = field(default_factory=dict)  # JSON, as given to `run`
    answers: Sequence[Any] = ()  # JSON, what people answered to this call's interrupts so far
    _asked: int = 0

    @overload
    def interrupt(self, payload: object) -> Any: ...  # JSON, what the person sent

    @overload
    def interrupt(self, payload: object, *, response_type: type[T]) -> T: ...

    def interrupt(self, payload: object, *, response_type: type[T] | None = None) -> Any:  # JSON unless typed
        """Ask a person. The first time this stops the run; when the call runs again after `resume`, it returns the answer.

        The tool runs from its beginning again, so let effects come after the question. A tool may ask several
        questions; they are answered in order. With `response_type` an answer that does not fit is asked for again.
        """
        index, self._asked = self._asked, self._asked + 1
        adapter: TypeAdapter[T] | None = None if response_type is None else TypeAdapter(response_type)
        rejected: str | None = None
        if index < len(self.answers):
            if adapter is None:
                return self.answers[index]
            try:
                return adapter.validate_python(self.answers[index])
            except ValidationError as error:
                rejected = str(error)
        schema = None if adapter is None else adapter.json_schema()
        raise Interrupt(to_jsonable_python(payload), index=index, response_schema=schema, rejected=rejected)
