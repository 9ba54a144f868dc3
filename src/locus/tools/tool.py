"""A tool: a function, its description for the model, and how it is run."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, overload

from locus.errors import ConfigError, ToolError
from locus.tools.context import ToolContext
from locus.tools.docstring import parse_docstring
from locus.tools.offload import offload
from locus.tools.output import render_result
from locus.tools.signature import Arguments, without_partial

__all__ = ["Tool", "ToolSet", "tool"]

P = ParamSpec("P")
R = TypeVar("R")

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")


class Tool(Generic[P, R]):
    """A function that a model may call. Calling the object calls the function, unchanged.

    `idempotent` promises that running a call again with the same `ctx.idempotency_key` has no second effect; only such a
    call is run again when a crash left its outcome unknown. `timeout` is in seconds.
    """

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        idempotent: bool = False,
        timeout: float | None = None,
        scope: Mapping[str, object] | None = None,
    ) -> None:
        named = without_partial(function)
        about, described = parse_docstring(inspect.getdoc(named))
        self.function = function
        self.name = _checked_name(name or str(getattr(named, "__name__", type(named).__name__)))
        self.description = description if description is not None else about
        self.idempotent = idempotent
        self.timeout = _checked_timeout(self.name, timeout)
        self.arguments = Arguments.of(function, self.name, described, scope or {})
        functools.update_wrapper(self, function)

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        return self.arguments.schema

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Tool[..., R]:
        """A tool written as a method is bound to the object it is taken from."""
        if instance is None:
            return self
        bound = object.__new__(type(self))
        bound.__dict__.update(self.__dict__)
        bound.function = functools.partial(self.function, instance)  # type: ignore[arg-type]  # P minus `self`
        return bound

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    async def invoke(self, sent: Mapping[str, Any], context: ToolContext | None = None) -> str:
        """Validate what a model sent, run the function, and return its result as text.

        A function that is not a coroutine runs in a thread of its own. `ToolError` when the arguments are wrong; what
        the function raises passes through.
        """
        context = context or ToolContext(tool_name=self.name)
        args, kwargs = self.arguments.bind(sent, context)
        call = functools.partial(self.function, *args, **kwargs)
        value: Any = call() if _is_async(self.function) else await offload(call, name=f"locus-tool-{self.name}")
        if inspect.isawaitable(value):
            value = await value
        return render_result(value)


def _is_async(function: Callable[..., object]) -> bool:
    function = without_partial(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _checked_name(name: str) -> str:
    if not _NAME.match(name):
        raise ConfigError(
            f"{name!r} cannot be a tool's name: model providers take 1 to 64 letters, digits, '_' and '-'; "
            "give one with @tool(name=...)"
        )
    return name


def _checked_timeout(name: str, timeout: float | None) -> float | None:
    if timeout is not None and not timeout > 0:
        raise ConfigError(f"tool {name!r}: timeout must be more than 0 seconds, not {timeout!r}")
    return timeout


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    timeout: float | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,  # overloads carry the types
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    timeout: float | None = None,
) -> Any:
    """Make a function a tool: `@tool`, or `@tool(name=, description=, idempotent=, timeout=)`.

    The JSON schema comes from the signature, the descriptions from the docstring (Google-style `Args:`) and from
    `Annotated[..., Field(description=...)]`.
    """

    def wrap(function: Callable[..., Any]) -> Tool[..., Any]:
        # Types defined inside the function that defines the tool are found in its frame.
        scope = sys._getframe(1).f_locals
        return Tool(function, name=name, description=description, idempotent=idempotent, timeout=timeout, scope=scope)

    if function is None:
        return wrap
    return Tool(function, scope=sys._getframe(1).f_locals)


class ToolSet(Mapping[str, Tool[..., Any]]):
    """The tools of an agent, by name."""

    def __init__(self, tools: Iterable[Tool[..., Any] | Callable[..., Any]] = ()) -> None:
        self._tools: dict[str, Tool[..., Any]] = {}
        for item in tools:
            made = item if isinstance(item, Tool) else Tool(item)
            if made.name in self._tools:
                raise ConfigError(f"two tools are named {made.name!r}; give one another name with @tool(name=...)")
            self._tools[made.name] = made

    def __getitem__(self, name: str) -> Tool[..., Any]:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def named(self, name: str) -> Tool[..., Any]:
        """The tool of that name; `ToolError` for the model when there is none."""
        found = self._tools.get(name)
        if found is not None:
            return found
        near = difflib.get_close_matches(name, self._tools, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ToolError(f"There is no tool named {name!r}.{hint} Known tools: {', '.join(self._tools) or 'none'}.")
