"""An answer that is an object: asked for by schema, read from text."""

from __future__ import annotations

import json
import re

from pydantic import BaseModel, ValidationError

from locus.core.messages import Message

__all__ = ["correction", "instructions", "parse"]

_FENCED = re.compile(r"```(?:json)?\s*\n(?P<body>.*?)\n?```", re.DOTALL)


def instructions(schema: type[BaseModel]) -> str:
    """What the model is told about the form of its answer."""
    text = json.dumps(schema.model_json_schema(), separators=(",", ":"))
    return f"Give your final answer as one JSON object and nothing else. It must fit this JSON schema:\n{text}"


def parse(schema: type[BaseModel], text: str) -> tuple[BaseModel | None, str | None]:
    """The object in an answer, or what is wrong with it."""
    fenced = _FENCED.search(text)
    try:
        return schema.model_validate_json(fenced["body"] if fenced else text.strip()), None
    except ValidationError as error:
        return None, "; ".join(
            f"{'.'.join(map(str, item['loc'])) or 'answer'}: {item['msg']}" for item in error.errors(include_url=False)
        )


def correction(answer: Message, problem: str) -> tuple[Message, Message]:
    """The wrong answer and the wish for a right one. They are sent and not stored."""
    return answer, Message.user(
        f"That answer does not fit the JSON schema: {problem}. Answer again with the corrected JSON object alone."
    )
