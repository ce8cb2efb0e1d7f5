"""Files of exchanges: where there is none, where one is broken, and what they hold."""

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
    """Where the file is."""
    return tmp_path / "exchanges.json"


async def asks(model, *texts, tools=()):
    """Ask a model; gives its response."""
    offered = [ToolDefinition(name=name, parameters_json_schema=schema) for name, schema in tools]
    parts = [text if isinstance(text, SystemPromptPart) else UserPromptPart(text) for text in texts]
    return await model.request([ModelRequest(parts)], None, ModelRequestParameters(function_tools=offered))


@pytest.mark.parametrize(
    ("written", "said"),
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
def test_a_broken_file(path, written, said):
    """The test fails at once, with the place in the file and what to do."""
    if isinstance(written, list):
        written = {"format": 2, "model": "a:b", "exchanges": written}
    path.write_text(written if isinstance(written, str) else json.dumps(written))
    with pytest.raises(ValueError, match="SOJOURN_RECORD=1") as raised:
        Player(path)
    assert str(raised.value).startswith(f"{path} is no file of exchanges: {said}")


def test_no_file(path, monkeypatch):
    """Nothing is recorded by itself: a missing file says how it comes to be."""
    monkeypatch.delenv("SOJOURN_RECORD", raising=False)
    with pytest.raises(FileNotFoundError, match="run the test once with SOJOURN_RECORD=1"):
        recorded(path, model="openai:gpt-5-mini")


async def test_one_line_records_or_plays(path, monkeypatch):
    """As `SOJOURN_RECORD` says; to play, the model is not even looked up."""
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
async def test_what_changes_from_run_to_run(path, then, now):
    """It is no part of what is asked, also where the player alone is told to ignore it."""
    await asks(Recorder(TestModel(), path), then)
    assert await asks(Player(path, ignore=["Today is [^.]*"]), now)


async def test_ids_of_the_run_and_its_callers(path):
    """Inside an activity they are known, and no part of what is asked; but not where they are a part of a word."""

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
async def test_what_says_what_is_wanted(path, then, now):
    """It is compared."""
    await asks(Recorder(TestModel(), path), then)
    with pytest.raises(ApplicationError, match="asked now"):
        await asks(Player(path), now)


async def test_files_in_a_prompt(path):
    """A picture is known by its digest, and is not in the file; a URL stands as it is."""
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
    """An exchange with the tools of the one before does not repeat them, and each knows its own."""
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
    """A text that UTF-8 cannot hold, as some providers cut them, is written and found again."""
    await asks(Recorder(TestModel(custom_output_text="Hi \ud83d"), path), "Hello \ud83d")
    assert (await asks(Player(path), "Hello \ud83d")).text == "Hi ?"


async def test_a_difference_is_bounded_and_printable(path):
    """However long the prompts are, and whatever they hold."""
    await asks(Recorder(TestModel(), path), "\x1b[31m red\n" * 400, "same")
    with pytest.raises(ApplicationError) as raised:
        await asks(Player(path), "\x1b[2J blue\n" * 400, "same")
    said = str(raised.value)
    assert len(said) < 2_000
    assert said.replace("\n", "").isprintable()
    assert said.endswith("... (more differs)")
    assert "\\u001b[31m red" in said


async def test_an_end_that_changed_is_seen(path):
    """A long line is shown where it differs."""
    long = "word " * 500
    await asks(Recorder(TestModel(), path), SystemPromptPart(f"{long} then"), "same")
    with pytest.raises(ApplicationError, match=r"\+.* now") as raised:
        await asks(Player(path), SystemPromptPart(f"{long} now"), "same")
    assert len(str(raised.value)) < 1_000
