"""Which models there are, by name: `"provider:model"`, or what the environment says."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from locus.errors import ConfigError
from locus.models.base import Model

__all__ = ["get_model", "providers", "register_provider"]

_PROVIDERS: dict[str, str | Callable[..., Model]] = {
    "mock": "locus.models.mock:MockModel",
}
_NOTICE = (
    "locus: no model configured; using the offline mock model (rules, not intelligence). "
    "Set LOCUS_MODEL_PROVIDER to use a real one.\n"
)
_noticed = False
_guard = threading.Lock()


def get_model(spec: str | Model | None = None, **options: Any) -> Model:  # options are the provider's own
    """The model of a `"provider:model"` text, of the environment when there is none, or the object itself."""
    if spec is None:
        spec = _from_environment()
    elif not isinstance(spec, str):
        return _checked(spec, options)
    provider, _, model_id = spec.partition(":")
    factory = _factory(provider.strip().lower())
    if model_id:
        options["model_id"] = model_id
    try:
        inspect.signature(factory).bind(**options)
    except TypeError as error:
        raise ConfigError(f"the model provider {provider!r} cannot take these options: {error}") from error
    return factory(**options)


def providers() -> tuple[str, ...]:
    """The names `get_model` knows."""
    return tuple(sorted(_PROVIDERS))


def register_provider(name: str, factory: str | Callable[..., Model]) -> None:
    """Add a provider: a callable, or `"module:name"` of one, imported on first use. It gets `model_id` and options."""
    _PROVIDERS[name.lower()] = factory


def _factory(provider: str) -> Callable[..., Model]:
    target = _PROVIDERS.get(provider)
    if target is None:
        close = difflib.get_close_matches(provider, _PROVIDERS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ";"
        raise ConfigError(f"unknown model provider {provider!r}{hint} this version has: {', '.join(providers())}")
    if not isinstance(target, str):
        return target
    module, _, name = target.partition(":")
    factory: Callable[..., Model] = getattr(importlib.import_module(module), name)
    return factory


def _from_environment() -> str:
    provider = os.environ.get("LOCUS_MODEL_PROVIDER", "").strip()
    model_id = os.environ.get("LOCUS_MODEL_ID", "").strip()
    if provider:
        return f"{provider}:{model_id}" if model_id else provider
    if model_id:
        raise ConfigError(f"LOCUS_MODEL_ID is {model_id!r} but LOCUS_MODEL_PROVIDER is not set; set both")
    _notice_once()
    return "mock"


def _notice_once() -> None:
    """Say it once per process, where a person sees it: an answer by rules must not be taken for a model's."""
    global _noticed
    with _guard:
        first, _noticed = not _noticed, True
    if first:
        sys.stderr.write(_NOTICE)


def _checked(model: object, options: dict[str, Any]) -> Model:
    if not isinstance(model, Model):
        raise ConfigError(
            f"a model is a 'provider:model' text or an object with `complete`, not {type(model).__name__}"
        )
    if options:
        raise ConfigError(f"options ({', '.join(options)}) cannot be given to a model that is already made")
    return model
