"""Files of exchanges: missing files, broken files, and what files contain."""

import json
from dataclasses import replace

import pytest
from pydantic_ai.messages import BinaryContent, ImageUrl, ModelRequest, SystemPromptPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import ToolDefinition
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from sojourn.testing.models import Player, Recorder, is_recording, recorded

HELLO = {"kind": "response", "parts": [{"part_kind": "text", "content": "Hello"}]}


@pytest.fixture
def path(tmp_path):
    """The path of the file."""
    return tmp_path / "exchanges.json"


async def asks(model, *texts, tools=()):
    """Ask a model, and return its response."""
    offered = [ToolDefinition(name=name, parameters_json_schema=schema) for name, schema in tools]
    parts = [text if isinstance(text, SystemPromptPart) else UserPromptPart(text) for text in texts]
    return await model.request([ModelRequest(parts)], None, ModelRequestParameters(function_tools=offered))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("{", "the file: Invalid JSON"),
        ("[]", "the file: Input should be an object"),
        ({"format": 1, "model": "a:b", "exchanges": []}, "format: Input should be 2"),
        ({"model": "a:b", "exchanges": []}, "format: Field required"),
        ([{"messages": [{}], "response": HELLO}], "exchanges.0.messages.0: Unable to extract tag"),
        ([{"messages": [], "anwser": HELLO}], "exchanges.0.response: Field required"),
        (
            [{"messages": [], "response": {**HELLO, "finish_reason": "soon"}}],
            "exchanges.0.response.finish_reason: Input should be",
        ),
        ([{"messages": [], "tools": ["look"], "response": HELLO}], "exchanges.0.tools.0: Input should be"),
        (
            [{"shared": 1, "messages": [], "response": HELLO}],
            "exchanges.0.shared: the exchange before has fewer messages",
        ),
    ],
)
def test_a_broken_file(path, written, message):
    """A broken file raises at once, with the place in the file and what to do."""
    if isinstance(written, list):
        written = {"format": 2, "model": "a:b", "exchanges": written}
    path.write_text(written if isinstance(written, str) else json.dumps(written))
    with pytest.raises(ValueError, match="SOJOURN_RECORD=1") as raised:
        Player(path)
    assert str(raised.value).startswith(f"{path} is not a file of exchanges: {message}")


def test_no_file(path, monkeypatch):
    """A missing file raises an error that says how to record it."""
    monkeypatch.delenv("SOJOURN_RECORD", raising=False)
    with pytest.raises(FileNotFoundError, match="run the test once with SOJOURN_RECORD=1"):
        recorded(path, model="openai:gpt-5-mini")


async def test_one_line_records_or_plays(path, monkeypatch):
    """`recorded` records or plays, as `SOJOURN_RECORD` says; to play, the model is not looked up."""
    monkeypatch.setenv("SOJOURN_RECORD", "1")
    assert is_recording()
    await asks(recorded(path, model=TestModel(custom_output_text="Hi")), "Hello")
    monkeypatch.setenv("SOJOURN_RECORD", "0")
    assert not is_recording()
    player = recorded(path, model="nobody:nothing")
    assert (await asks(player, "Hello")).text == "Hi"
    assert (player.system, player.model_name) == ("test", "test")


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ("at 2027-01-04T10:00:00.123Z", "at 2028-02-05 11:30+02:00"),
        ("a " + "0" * 8 + "-0000-4000-8000-" + "0" * 12, "a 12345678-90ab-4cde-8f01-234567890ABC"),
        ("key " + "ab" * 16, "key " + "12" * 32),
        ("Today is Monday, 4 January.", "Today is Friday, 9 May."),
    ],
    ids=["time", "uuid", "hexadecimal", "ignored"],
)
async def test_values_that_change_from_run_to_run_are_ignored(path, then, now):
    """Times, UUIDs, hexadecimal numbers and ignored patterns are not compared, also if only the player has the pattern."""
    await asks(Recorder(TestModel(), path), then)
    assert await asks(Player(path, ignore=["Today is [^.]*"]), now)


async def test_ids_of_the_run_and_its_callers(path):
    """Inside an activity the ids of the run and its callers are not compared, unless they are parts of longer words."""

    def within(run: str) -> ActivityEnvironment:
        environment = ActivityEnvironment()
        environment.info = replace(environment.info, workflow_id=run)
        return environment

    text = "I am {0}/call-1, asked by {0}. Not {0}-b."
    await within("clerk-1/call-1").run(asks, Recorder(TestModel(), path), text.format("clerk-1"))
    assert "I am [run], asked by [run]. Not clerk-1-b." in path.read_text()
    assert await within("clerk-2/call-1").run(
        asks, Player(path), "I am clerk-2/call-1, asked by clerk-2. Not clerk-1-b."
    )


@pytest.mark.parametrize(
    ("then", "now"),
    [("on 2027-01-04", "on 2027-01-05"), ("call c", "call d"), ("ab" * 8, "cd" * 8)],
    ids=["date", "word", "short number"],
)
async def test_other_differences_are_found(path, then, now):
    """Dates, words and short numbers are compared."""
    await asks(Recorder(TestModel(), path), then)
    with pytest.raises(ApplicationError, match="asked now"):
        await asks(Player(path), now)


async def test_files_in_a_prompt(path):
    """A picture is replaced by its digest; a URL is kept as it is."""
    picture = BinaryContent(b"\x89PNG" * 1000, media_type="image/png")
    await asks(Recorder(TestModel(), path), ["What is it?", picture, ImageUrl("https://shop.example/a.png")])
    [message] = json.loads(path.read_text())["exchanges"][0]["messages"]
    text, digest, url = message["parts"][0]["content"]
    assert (text, digest["data"], url) == ("What is it?", "", "https://shop.example/a.png")
    assert digest["identifier"].startswith("sha256:")
    assert len(path.read_text()) < 1_500
    with pytest.raises(ApplicationError, match="sha256"):
        await asks(Player(path), ["What is it?", BinaryContent(b"other", media_type="image/png")])


async def test_tools_stand_where_they_change(path):
    """An exchange with the tools of the exchange before does not repeat them; each is compared with its own tools."""
    recorder = Recorder(TestModel(call_tools=[]), path)
    for description in ("a", "b", "b"):
        await asks(recorder, description, tools=[("look", {"type": "object", "title": description})])
    first, second, third = json.loads(path.read_text())["exchanges"]
    titles = [exchange["tools"][0]["parameters_json_schema"]["title"] for exchange in (first, second)]
    assert (titles, "tools" in third) == (["a", "b"], False)
    assert await asks(Player(path), "b", tools=[("look", {"type": "object", "title": "b"})])
    with pytest.raises(ApplicationError, match='-   "title": "b"'):
        await asks(Player(path), "b", tools=[("look", {"type": "object", "title": "c"})])


async def test_half_a_character(path):
    """A text with half a surrogate pair, as some providers cut texts, is recorded and played."""
    await asks(Recorder(TestModel(custom_output_text="Hi \ud83d"), path), "Hello \ud83d")
    assert (await asks(Player(path), "Hello \ud83d")).text == "Hi ?"


async def test_a_difference_is_bounded_and_printable(path):
    """The error for long prompts with control characters is short, and has none of these characters."""
    await asks(Recorder(TestModel(), path), "\x1b[31m red\n" * 400, "same")
    with pytest.raises(ApplicationError) as raised:
        await asks(Player(path), "\x1b[2J blue\n" * 400, "same")
    message = str(raised.value)
    assert len(message) < 2_000
    assert message.replace("\n", "").isprintable()
    assert message.endswith("... (more differs)")
    assert "\\u001b[31m red" in message


async def test_a_changed_end_is_shown(path):
    """The error shows the part of a long line that differs."""
    long = "word " * 500
    await asks(Recorder(TestModel(), path), SystemPromptPart(f"{long} then"), "same")
    with pytest.raises(ApplicationError, match=r"\+.* now") as raised:
        await asks(Player(path), SystemPromptPart(f"{long} now"), "same")
    assert len(str(raised.value)) < 1_000
