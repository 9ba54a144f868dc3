"""A function's signature as the arguments a model may send: their JSON schema and their validation."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, ValidationError, create_model
from pydantic.fields import FieldInfo

from locus.errors import ConfigError, ToolError
from locus.tools.context import ToolContext

__all__ = ["Arguments", "without_partial"]

_POSITIONAL = inspect.Parameter.POSITIONAL_ONLY
_REST = inspect.Parameter.VAR_KEYWORD


@dataclass(frozen=True, slots=True)
class Arguments:
    """How a function is called with what a model sent."""

    schema: dict[str, Any]  # JSON schema
    model: type[BaseModel]
    fields: Mapping[str, str]
    """Parameter name -> field of `model`. Fields have names of their own, since `schema` or `json` cannot be one."""
    positional: tuple[str, ...]
    context: str | None
    """The parameter that takes the `ToolContext`, if any."""

    @classmethod
    def of(
        cls, function: Callable[..., object], name: str, described: Mapping[str, str], scope: Mapping[str, object]
    ) -> Arguments:
        """Read a function; `scope` resolves annotations that name things local to the place it was defined in."""
        hints = _hints(function, scope)
        parameters = _parameters(function)
        context = next((p.name for p in parameters if _takes_context(p, hints)), None)
        plain = [p for p in parameters if p.name != context]
        for parameter in plain:
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                raise ConfigError(f"tool {name!r}: a model cannot send *{parameter.name}; take a list instead")
        named = [p for p in plain if p.kind is not _REST]
        fields = {p.name: f"arg_{i}" for i, p in enumerate(named)}
        model = _model(name, named, fields, hints, described, open_ended=len(named) < len(plain))
        positional = tuple(p.name for p in parameters if p.kind is _POSITIONAL)
        return cls(_schema(name, model), model, fields, positional, context)

    def bind(self, sent: Mapping[str, Any], context: ToolContext | None) -> tuple[list[Any], dict[str, Any]]:
        """Validate and coerce what was sent; returns positional and keyword values. `ToolError` says what is wrong."""
        try:
            checked = self.model.model_validate(dict(sent))
        except ValidationError as error:
            raise ToolError(self._explain(error)) from error
        values = {name: getattr(checked, field) for name, field in self.fields.items()}
        values.update(checked.model_extra or {})
        if self.context is not None:
            values[self.context] = context
        return [values.pop(name) for name in self.positional], values

    def _explain(self, error: ValidationError) -> str:
        problems = []
        for item in error.errors(include_url=False):
            place = ".".join(str(step) for step in item["loc"]) or "arguments"
            if item["type"] == "extra_forbidden":
                problems.append(f"{place}: no such argument (known: {', '.join(self.fields) or 'none'})")
            else:
                problems.append(f"{place}: {item['msg']}")
        return "Invalid arguments: " + "; ".join(problems)


def without_partial(function: Callable[..., object]) -> Callable[..., object]:
    """The function inside `functools.partial`, whose name, docstring and annotations the wrapper does not show."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _hints(function: Callable[..., object], scope: Mapping[str, object]) -> dict[str, Any]:
    function = without_partial(function)
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return get_type_hints(target, localns=dict(scope), include_extras=True)
    except NameError as error:
        raise ConfigError(
            f"tool {getattr(function, '__name__', function)!r}: cannot resolve an annotation ({error}); "
            "define the type before the tool, or at module level"
        ) from error


def _parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{function!r} cannot be a tool: {error}; wrap it in a function with type hints") from error
    # `self` of a method decorated in its class body; it is bound when the tool is taken from an object.
    if parameters and parameters[0].name == "self" and parameters[0].annotation is inspect.Parameter.empty:
        return parameters[1:]
    return parameters


def _takes_context(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> bool:
    hint = hints.get(parameter.name, Any)
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    kinds = get_args(hint) if get_origin(hint) is Union or hasattr(hint, "__or__") else ()
    return hint is ToolContext or ToolContext in kinds or (parameter.name == "ctx" and hint is Any)


def _model(
    name: str,
    parameters: list[inspect.Parameter],
    fields: Mapping[str, str],
    hints: Mapping[str, Any],
    described: Mapping[str, str],
    *,
    open_ended: bool,
) -> type[BaseModel]:
    config = ConfigDict(
        extra="allow" if open_ended else "forbid",
        arbitrary_types_allowed=False,
        coerce_numbers_to_str=True,
        validate_default=False,
    )
    definitions: dict[str, Any] = {fields[p.name]: _field(p, hints, described) for p in parameters}
    try:
        return create_model(f"{name}_arguments", __config__=config, **definitions)
    except PydanticUserError as error:
        raise ConfigError(f"tool {name!r}: a model cannot send one of its arguments: {error.message}") from error


def _field(
    parameter: inspect.Parameter, hints: Mapping[str, Any], described: Mapping[str, str]
) -> tuple[Any, FieldInfo]:
    hint, default = hints.get(parameter.name, Any), parameter.default
    if isinstance(default, FieldInfo):
        hint, default = Annotated[hint, default], inspect.Parameter.empty
    options: dict[str, Any] = {"alias": parameter.name}
    if default is not inspect.Parameter.empty:
        options["default"] = default
    if parameter.name in described and not _has_description(hint):
        options["description"] = described[parameter.name]
    return hint, Field(**options)


def _has_description(hint: Any) -> bool:  # an annotation may be any object
    notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return any(isinstance(note, FieldInfo) and note.description for note in notes)


def _schema(name: str, model: type[BaseModel]) -> dict[str, Any]:
    try:
        schema = model.model_json_schema()
    except PydanticUserError as error:
        raise ConfigError(f"tool {name!r}: an argument has no JSON schema: {error.message}") from error
    _drop_titles(schema)
    schema.setdefault("properties", {})
    return schema


def _drop_titles(node: Any) -> None:  # a JSON schema
    """Remove the titles pydantic makes from field names: they are noise to a model, and ours say `arg_0`."""
    if isinstance(node, list):
        for item in node:
            _drop_titles(item)
    if not isinstance(node, dict):
        return
    node.pop("title", None)
    for key, value in node.items():
        if key in ("properties", "$defs"):
            for child in value.values():
                _drop_titles(child)
        elif key not in ("default", "const", "enum", "examples"):
            _drop_titles(value)
