"""What a provider refused is set aside: which parts, in which order, and that they are never sent again."""

import base64
import json
import uuid
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from sojourn import Agent, App, Message, ModelPlanner, ToolRequest, ToolResult, Toolset
from sojourn.contracts.message import ImagePart, OtherPart, TextPart
from sojourn.core.values.wire import decode_messages, encode
from sojourn.models.set_aside import SetAside, steps_after, without_set_aside
from sojourn.testing.providers import HttpError, ToolCall, calls, says

POISON = base64.b64encode(b"poison").decode()
PICTURE = ImagePart(type="image", media_type="image/png", data=POISON)
CALL = ToolRequest(name="a.b.c", tool_call_id="c1")


def shows(text: str) -> Message:
    """A message of a user with a picture."""
    return Message(role="user", parts=[TextPart(type="text", text=text), PICTURE])


def result(text: str = "found") -> Message:
    return Message.results([ToolResult(name="a.b.c", tool_call_id="c1", result=text)])


def refused(message: str = "Could not process image", kind: str = "ModelRejected") -> ApplicationError:
    return ApplicationError(message, type=kind)


OLD = [shows("one"), Message.assistant("seen")]


@pytest.mark.parametrize(
    ("messages", "error", "steps"),
    [
        ([shows("one")], refused(), [("files", (0,))]),
        ([*OLD, shows("two")], refused(), [("files", (2,)), ("files", (0,))]),
        ([*OLD, Message.user("two")], refused(), [("files", (0,))]),
        ([Message.user("one"), Message.calls([CALL]), result()], refused(), [("results", (2,))]),
        ([Message.user("one"), Message.calls([CALL]), result()], refused("temperature: range: 0..1"), []),
        (
            [Message.user("one"), Message.calls([CALL]), result()],
            refused("no", "ContentFiltered"),
            [("results", (2,))],
        ),
        (
            [*OLD, Message.calls([CALL]), result()],
            refused("no", "ContentFiltered"),
            [("results", (3,)), ("files", (0,))],
        ),
        ([shows("one")], refused("later", "ModelUnavailable"), []),
        ([Message.user("one")], refused(), []),
    ],
)
def test_what_may_be_the_cause_is_set_aside_in_order(
    messages: list[Message], error: ApplicationError, steps: list[tuple[str, tuple[int, ...]]]
) -> None:
    """New files come first, then new results, then old files; a refusal of something else sets nothing aside."""
    assert [(step.what, step.indices) for step in steps_after(messages, error)] == steps


def test_a_recorded_step_is_applied_in_later_requests() -> None:
    """The part survives the history, and later requests have a short text in place of what it names; the rest stays."""
    parts = [
        SetAside("files", (0,), "no").part,
        SetAside("results", (2,), "no").part,
        TextPart(type="text", text="Done."),
    ]
    messages = [
        shows("one"),
        Message.calls([CALL]),
        result(),
        Message(role="assistant", parts=parts),
        Message.user("two"),
    ]
    [*stored] = decode_messages(encode(messages))
    read = without_set_aside(stored)
    assert [type(part) for part in read[0].parts] == [TextPart, TextPart]
    assert (read[0].text.startswith("one"), "left out here" in read[0].text) == (True, True)
    [answer] = read[2].tool_results
    assert (answer.tool_call_id, "left out here" in str(answer.result)) == ("c1", True)
    assert read[1] == stored[1]
    assert read[3:] == stored[3:]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "set_aside"},
        {"type": "set_aside", "what": "all", "messages": [0]},
        {"type": "set_aside", "what": "files", "messages": "0"},
        {"type": "set_aside", "what": "files", "messages": ["0", None, 99, -1]},
        {"type": "else", "what": "files", "messages": [0]},
    ],
)
def test_a_record_that_cannot_be_read_sets_nothing_aside(part: dict[str, Any]) -> None:
    """A part of another kind or version changes nothing, and neither does one in a message of somebody else."""
    odd = Message(role="assistant", parts=[OtherPart.model_validate(part)])
    assert without_set_aside([shows("one"), odd]) == [shows("one"), odd]
    recorded = Message(role="user", parts=[SetAside("files", (0,)).part])
    assert without_set_aside([shows("one"), recorded]) == [shows("one"), recorded]


def make_app(model: Any) -> App:
    tools = Toolset("test.tools")

    @tools.tool
    async def look() -> str:
        """Look."""
        return "a poison picture"

    planner = ModelPlanner(model, settings={"max_tokens": 1000})
    return App(agents=[Agent("test.agent", planner=planner, uses=[tools])])


async def test_a_refused_picture_is_set_aside_and_never_sent_again(serve, standin, protocol):
    """The turn goes on without the picture, with a note and a line in the transcript, and so does the next turn."""
    standin.script = lambda request: (
        HttpError(error="image") if POISON in json.dumps(request.body) else says("I cannot see it.")
    )
    client = await serve(make_app(standin.model(protocol)))
    session = client.session("test.agent", f"s-{uuid.uuid4().hex[:8]}")
    turn = await session.send(shows("What is this?"))
    out = await turn.result()
    assert out.text == "I cannot see it."
    assert any("set aside" in note for note in out.notes)
    asked = len(standin.requests)
    assert (await (await session.send("what is 1+1?")).result()).text == "I cannot see it."
    later = [json.dumps(request.body) for request in standin.requests[asked:]]
    assert not any(POISON in body for body in later)
    assert "A file was left out here" in later[-1]
    kinds = [part.type for message in await session.transcript() for part in message.parts]
    assert kinds.count("set_aside") == 1
    assert "image" in kinds


async def test_a_refused_result_is_set_aside(serve, standin):
    """A run goes on without a result that the provider's filter refuses."""
    standin.script = lambda request: (
        HttpError(error="content_filter")
        if any("poison" in result.text for result in request.tool_results)
        else says("Something was left out.")
        if request.tool_results
        else calls(ToolCall(name="test__tools__look"))
    )
    client = await serve(make_app(standin.model("openai-chat")))
    run = await client.start("test.agent", "look")
    out = await run.result()
    assert (out.text, out.reason) == ("Something was left out.", "answered")
    assert any("set aside: the results" in note for note in out.notes)
    [answered] = standin.requests[-1].tool_results
    assert "left out here" in answered.text
