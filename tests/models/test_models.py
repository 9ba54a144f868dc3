"""What every model keeps: sound histories in, whole responses out, found by name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest

from locus.core import Message, ToolCall
from locus.errors import ConfigError, ModelError
from locus.models import (
    MockModel,
    Model,
    ModelResponse,
    ScriptedModel,
    StreamingModel,
    Usage,
    check_history,
    get_model,
    providers,
    register_provider,
)

USER = Message.user("hi")
CALL = ToolCall(id="c1", name="look")
OTHER = ToolCall(id="c2", name="peek")
ASKED = Message.assistant(None, [CALL])
RESULT = Message.tool("found", "c1")
NOBODYS = Message.model_validate({"role": "tool", "content": "x"})
HOLLOW = Message.model_validate({"role": "tool", "tool_call_id": "c1"})
USERS_CALL = Message.model_validate({"role": "user", "content": "x", "tool_calls": [{"name": "y"}]})
NAMELESS = Message.assistant(None, [ToolCall(id="c", name="")])

REFUSED: dict[str, tuple[Sequence[Message], str]] = {
    "nothing": ([], "no message to answer"),
    "only a system prompt": ([Message.system("be kind")], "no message to answer"),
    "the assistant first": ([Message.assistant("hi"), USER], "begins with"),
    "the assistant last": ([USER, Message.assistant("hi")], "ends with"),
    "an orphan result": ([USER, RESULT], "'c1'"),
    "a call without a result": ([USER, ASKED, USER], "look"),
    "a call at the end": ([USER, ASKED, RESULT, Message.assistant(None, [OTHER])], "ends"),
    "one of two results": ([USER, Message.assistant(None, [CALL, OTHER]), RESULT], "peek"),
    "a result too late": ([USER, ASKED, Message.user("well?"), RESULT], "look"),
    "a result twice": ([USER, ASKED, RESULT, RESULT], "already"),
    "an id used twice": ([USER, ASKED, RESULT, ASKED, RESULT], "again"),
    "a result for nobody": ([USER, ASKED, NOBODYS], "tool_call_id"),
    "a result without content": ([USER, ASKED, HOLLOW], "no content"),
    "a user saying nothing": ([Message.user("  ")], "empty"),
    "an assistant saying nothing": ([USER, Message.assistant(""), USER], "empty"),
    "an empty list of parts": ([Message.user([])], "empty"),
    "calls of a user": ([USERS_CALL], "only the assistant"),
    "a call without a name": ([USER, NAMELESS, Message.tool("x", "c")], "name"),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
async def test_a_history_that_providers_refuse_is_refused_offline(case: str) -> None:
    messages, reason = REFUSED[case]
    for model in (MockModel(), ScriptedModel(["ok"])):
        with pytest.raises(ModelError, match=reason):
            await model.complete(messages)


def test_a_sound_history_is_taken() -> None:
    second = Message.assistant("and", [OTHER, ToolCall(id="c3", name="y")])
    results = [Message.tool("", "c3"), Message.tool("b", "c2")]
    check_history([Message.system("s"), USER, ASKED, RESULT, second, *results, Message.assistant("done"), USER, USER])


async def test_a_script_is_played_in_order_and_its_requests_kept() -> None:
    async def later(messages: Sequence[Message], tools: object) -> str:
        return f"{len(messages)} messages"

    last = ModelResponse(message=Message.assistant("d"), usage=Usage(prompt_tokens=2, completion_tokens=3))
    model = ScriptedModel(["a", ASKED, lambda messages, tools: messages[-1].text, later, last, TimeoutError("slow")])
    assert (await model.complete([USER])).message.text == "a"
    assert (await model.complete([USER])).stop_reason == "tool_calls"
    assert (await model.complete([USER], [{"name": "t"}])).message.text == "hi"
    assert (await model.complete([USER, USER])).message.text == "2 messages"
    assert (await model.complete([USER])).usage.total_tokens == 5
    with pytest.raises(TimeoutError, match="slow"):
        await model.complete([USER])
    with pytest.raises(ModelError, match="6 steps"):
        await model.complete([USER])
    assert model.calls[3] == (USER, USER)
    assert model.tools[2] == ({"name": "t"},)


async def test_a_script_of_anything_but_answers_is_refused() -> None:
    with pytest.raises(ModelError, match="assistant"):
        await ScriptedModel([Message.user("x")]).complete([USER])


@pytest.mark.parametrize("kind", ["mock", "scripted"])
async def test_a_stream_is_the_response_in_pieces(kind: str) -> None:
    model: StreamingModel = MockModel() if kind == "mock" else ScriptedModel(["all  the words\n"])
    chunks = [chunk async for chunk in model.stream([USER])]
    assert len(chunks) > 2
    assert chunks[-1].response is not None
    assert "".join(chunk.content for chunk in chunks) == chunks[-1].response.message.text
    assert all(chunk.response is None for chunk in chunks[:-1])


async def test_the_mock_counts_tokens_and_cuts_long_answers() -> None:
    said = [Message.user("My cat is grey, my dog is brown and my horse is white. I like all of them very much.")]
    whole = await MockModel().complete(said)
    assert whole.stop_reason == "stop"
    assert whole.message.text.startswith("Got it")
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens > 20
    for cut in (await MockModel(max_tokens=5).complete(said), await MockModel().complete(said, max_tokens=5)):
        assert cut.stop_reason == "max_tokens"
        assert 0 < len(cut.message.text) <= 20


async def test_the_mock_says_the_same_again() -> None:
    said = [Message.user("I'm Eve and I paint boats.")]
    assert (await MockModel().complete(said)) == (await MockModel(latency=0.001).complete(said))


def test_models_are_found_by_name() -> None:
    assert isinstance(get_model("mock"), MockModel)
    named = get_model("Mock:tiny", max_tokens=9)
    assert isinstance(named, MockModel)
    assert (named.model_id, named.max_tokens) == ("tiny", 9)


def test_a_made_model_passes_through() -> None:
    model: Model = ScriptedModel([])
    assert get_model(model) is model
    with pytest.raises(ConfigError, match="max_tokens"):
        get_model(model, max_tokens=1)
    with pytest.raises(ConfigError, match="complete"):
        get_model(5)  # type: ignore[arg-type]


def test_an_unknown_provider_or_option_is_named() -> None:
    with pytest.raises(ConfigError, match=r"'mok'; did you mean 'mock'\?.*this version has: mock"):
        get_model("mok:x")
    with pytest.raises(ConfigError, match="wings"):
        get_model("mock", wings=2)


def test_the_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCUS_MODEL_PROVIDER", "mock")
    monkeypatch.setenv("LOCUS_MODEL_ID", "small")
    model = get_model(max_tokens=7)
    assert isinstance(model, MockModel)
    assert (model.model_id, model.max_tokens) == ("small", 7)
    monkeypatch.delenv("LOCUS_MODEL_PROVIDER")
    with pytest.raises(ConfigError, match="LOCUS_MODEL_PROVIDER is not set"):
        get_model()
    monkeypatch.setenv("LOCUS_MODEL_PROVIDER", "nobody")
    with pytest.raises(ConfigError, match="'nobody'"):
        get_model()


def test_using_the_mock_by_default_is_said_once_and_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCUS_MODEL_PROVIDER", raising=False)
    monkeypatch.delenv("LOCUS_MODEL_ID", raising=False)
    code = "from locus.models import get_model; get_model('mock'); get_model(); get_model()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("no model configured") == 1
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_provider_can_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("locus.models.registry._PROVIDERS", {"mock": MockModel})
    register_provider("Parrot", lambda model_id, **options: ScriptedModel([model_id]))
    assert providers() == ("mock", "parrot")
    assert isinstance(get_model("parrot:polly"), ScriptedModel)
