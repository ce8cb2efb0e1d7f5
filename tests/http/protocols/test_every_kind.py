"""Each kind of wait, and one that no protocol knows, as the clients of every protocol get it."""

import json

import pytest

from sojourn.client.run import Run
from sojourn.http.protocols.a2a.tasks import _question_parts
from sojourn.http.protocols.agui.stream import APPROVAL, AguiEncoder
from sojourn.http.protocols.mcp.content import elicitation_of
from sojourn.http.protocols.turn import Begin, TurnStream
from sojourn.http.protocols.turn_events import Interrupts
from sojourn.http.protocols.turn_request import ClientAnswer
from sojourn.http.protocols.vercel.stream import VercelEncoder
from sojourn.http.protocols.waits import chat_prompt, client_waits
from tests.answers.views import APP, ASKED, OUTSIDE, READING, VIEWS

FOR_PEOPLE = [kind for kind, view in VIEWS.items() if view.is_for_people]


@pytest.fixture
def turn():
    """A turn of a conversation that is not read."""
    return TurnStream(None, Run(None, "r-1"), Begin("", None))  # type: ignore[arg-type]


async def asked(encoder, kind: str) -> str:
    """The end of a stream that waits."""

    async def events():
        yield Interrupts(waits=list(client_waits(VIEWS[kind], "r-1")))

    return "".join([encoder.encode_event(each) async for each in encoder.transform_stream(events())])


def data_of(text: str):
    """The events of a stream."""
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


@pytest.mark.parametrize("kind", VIEWS)
async def test_agui_interrupts(turn, kind):
    """An interrupt says what is asked, and has the schema of an answer; one that is no call wants an input."""
    text = await asked(AguiEncoder(turn, APP, "t", "r", []), kind)
    (interrupt,) = data_of(text)[-1]["outcome"]["interrupts"]
    is_call = kind in ("approval", "tool_results")
    assert interrupt["reason"] == ("tool_call" if is_call else "input_required")
    assert ASKED[kind] in interrupt["message"]
    assert (OUTSIDE in interrupt["message"]) is (kind == "approval")
    schemas = {"approval": APPROVAL, "tool_results": None}
    assert interrupt.get("responseSchema") == schemas.get(kind, VIEWS[kind].form)


@pytest.mark.parametrize("kind", VIEWS)
async def test_the_ai_sdk_gets_a_part(turn, kind):
    """A part says what is asked, of which kind it is, and how it is answered."""
    text = await asked(VercelEncoder(turn, "answer-m", frozenset()), kind)
    (part,) = [each for each in data_of(text) if each.get("data", {}).get("await_id")]
    names = {"approval": "data-approval", "tool_results": "data-call"}
    assert part["type"] == names.get(kind, "data-question")
    assert ASKED[kind] in part["data"]["prompt"]
    assert (OUTSIDE in part["data"]["prompt"]) is (kind == "approval")
    assert (part["data"]["kind"], part["data"].get("form")) == (kind, VIEWS[kind].form)


@pytest.mark.parametrize("kind", FOR_PEOPLE)
def test_chats_and_agents_are_asked(kind):
    """OpenAI's clients get a text, A2A's a text with data, MCP's a form."""
    view = VIEWS[kind]
    texts = [chat_prompt(view), _question_parts(view)[0]["text"], elicitation_of(view).params.message]
    assert all(ASKED[kind] in text for text in texts)
    assert [OUTSIDE in text for text in texts] == [kind == "approval"] * 3
    fields = elicitation_of(view).params.requested_schema["properties"]
    assert set(fields) == ({"decision", "reason"} if view.call else {"degrees"})


def test_a_page_may_lift_the_taint():
    """The answer of AG-UI or the AI SDK has the scope as it is sent."""
    answer = ClientAnswer("w", payload={"approved": True, "scope": "sources"})
    assert answer.as_given(VIEWS["approval"], "c1").scope == "sources"


@pytest.mark.parametrize("kind", [kind for kind in VIEWS if kind != READING])
def test_an_answer_of_a_page_is_one_of_its_kind(kind):
    """What a client of AG-UI or the AI SDK sends is read as the answer to the kind of wait."""
    payloads = {"question": {"degrees": 7}, "approval": {"approved": True}, "tool_results": 7}
    assert ClientAnswer("w", payload=payloads[kind]).as_given(VIEWS[kind], "c1").kind == kind
