"""Elicitation: a call whose tool asks a person waits in its run, and continues with the answer."""

import json
import uuid
from typing import Any

import mcp_types as types
import pytest

from sojourn import App, Client, InvalidInput, Run, RunPolicy, Worker, mcp
from sojourn.contracts.tool_call import InputForm, InputRequired, ToolInput
from sojourn.core.payload.boundary import MAX_REQUEST_STATE
from sojourn.mcp import elicitation
from sojourn.mcp.elicitation import ElicitationState, Rounds
from sojourn.mcp.errors import INVALID_PARAMS, ErrorResponse, UnsupportedElicitation
from sojourn.mcp.limits import MAX_INPUT_ROUNDS

pytestmark = pytest.mark.usefixtures("processes")

ASKS = RunPolicy(interrupts_allowed=True)
STATE = ' "quoted" \\ back\tslash ÄÖ 😀\n\x7f secret-of-the-server '
SEAT = {
    "type": "object",
    "title": "Seat",
    "properties": {
        "row": {"type": "integer", "minimum": 1, "maximum": 40, "description": "Which row"},
        "place": {"type": "string", "enum": ["aisle", "window"]},
        "note": {"type": "string", "maxLength": 20},
    },
    "required": ["row", "place"],
}
NAME = {"type": "object", "properties": {"name": {"type": "string", "minLength": 2}}, "required": ["name"]}
ROW = {"type": "object", "properties": {"row": {"type": "integer"}}}
NOTHING = {"type": "object", "properties": {}}
SEATED = {"row": 3, "place": "window"}
OTHERS = {"visit": {"url": "https://example.com/pay"}, "think": {"complete": "Say hi"}, "folders": {}}
DECLINED = {"visit": {"action": "decline"}, "think": {"action": "decline"}, "folders": {"roots": []}}


def seat(message: str = "Where will you sit?") -> dict[str, Any]:
    return {"form": SEAT, "message": message}


def accepted(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


class Desk:
    """Runs of one call each, on one worker with one asking server."""

    def __init__(self, client: Client, asking: Any) -> None:
        self.client = client
        self.asking = asking

    async def start(self, *rounds: dict[str, Any], agent_id: str = "test.asks", **arguments: Any) -> Run:
        """Start a run whose call asks these rounds."""
        mark = uuid.uuid4().hex
        payload = {"rounds": rounds, "state": STATE, "mark": mark, **arguments}
        return await self.client.start(agent_id, json.dumps(payload), run_id=mark)

    def calls(self, run: Run) -> list[dict[str, Any]]:
        """Return the calls that the server got from a run."""
        return self.asking.calls(run.id)

    async def given(self, run: Run) -> dict[str, Any]:
        """Return the responses that the server got last, when the run has ended."""
        return json.loads((await run.result()).text)["given"]


@pytest.fixture(scope="module")
async def desk(temporal_address, shared_asking, calling):
    """A worker with two agents: interrupts are allowed to `test.asks`, and not to `test.alone`."""
    toolset = mcp.McpToolset("ops.asking", transport=shared_asking.stdio())
    agents = [
        calling(toolset, "ask", policy=ASKS, agent_id="test.asks"),
        calling(toolset, "ask", policy=RunPolicy(), agent_id="test.alone"),
    ]
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(App(agents=agents), client):
        yield Desk(client, shared_asking)


async def test_a_form_is_asked_and_the_call_goes_on(desk, asked, traces):
    """The person sees the server's message and fields; the server gets the answer, its state and the same call."""
    run = await desk.start({"seat": seat()})
    wait = await asked(run)
    assert wait.question == "Where will you sit?"
    assert wait.server == "ops.asking"
    assert wait.missing_fields == ["row", "place", "note"]
    assert wait.form == {key: value for key, value in SEAT.items() if key != "title"}
    await run.answer(wait.id, SEATED, by="ana")
    assert await desk.given(run) == {"seat": accepted(**SEATED)}
    first, second = desk.calls(run)
    assert (first["name"], first["arguments"]) == (second["name"], second["arguments"])
    assert (first["state"], second["state"]) == (None, f"0 {STATE}")
    await traces(run).check()


async def test_the_call_is_one_call(desk, asked, traces):
    """A call that asks twice waits twice, with one start, one end and one answer in the transcript, in one turn."""
    run = await desk.start({"a": seat()}, {"b": {"form": NAME, "message": "Who?"}})
    first = await asked(run)
    await run.answer(first.id, SEATED)
    second = await asked(run, first)
    assert second.question == "Who?"
    await run.answer(second.id, {"name": "Ana"})
    assert await desk.given(run) == {"b": accepted(name="Ana")}
    assert [call["given"] for call in desk.calls(run)][1] == {"a": accepted(**SEATED)}
    events = [event async for event in run.events()]
    expected = ("tool_start", "await_clarification", "await_answered", "tool_end")
    kinds = [event.type for event in events if event.type in expected]
    assert kinds == [expected[0], *expected[1:3], *expected[1:3], expected[3]]
    (start,) = [event.call for event in events if event.type == "tool_start"]
    questions = [event.question for event in events if event.type == "await_clarification"]
    assert {(each.server, each.tool_call_id) for each in questions} == {("ops.asking", start.tool_call_id)}
    assert len({event.turn_id for event in events if event.turn_id}) == 1
    messages = await traces(run).check()
    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]


async def test_a_person_may_decline(desk, asked):
    """The server gets the response `decline`."""
    run = await desk.start({"seat": seat()})
    wait = await asked(run)
    await run.decline(wait.id, "not today", by="ana")
    assert await desk.given(run) == {"seat": {"action": "decline"}}


async def test_two_forms_at_once(desk, asked):
    """Two forms are asked one after the other, and the server gets both answers together."""
    run = await desk.start({"seat": seat(), "name": {"form": NAME}})
    first = await asked(run)
    await run.answer(first.id, SEATED)
    second = await asked(run, first)
    assert len(desk.calls(run)) == 1
    await run.decline(second.id)
    assert await desk.given(run) == {"seat": accepted(**SEATED), "name": {"action": "decline"}}
    assert len(desk.calls(run)) == 2


WRONG = [
    ({"row": 3}, "place is missing"),
    ({**SEATED, "row": "three"}, "row must be an integer, not a string"),
    ({**SEATED, "row": 41}, "row must be at most 40"),
    ({**SEATED, "place": "wing"}, "place must be one of"),
    ({**SEATED, "meal": "fish"}, "there is no field 'meal', only row, place, note"),
    ({**SEATED, "note": "x" * 21}, "at most 20 characters"),
    ("at the window, please", "values by field are wanted"),
    ({}, "row, place are missing"),
]


async def test_a_wrong_answer_is_refused_and_the_run_waits_on(desk, asked):
    """The sender gets the reason, the server gets nothing, and a valid answer is accepted afterwards."""
    run = await desk.start({"seat": seat()})
    wait = await asked(run)
    for answer, why in WRONG:
        with pytest.raises(InvalidInput, match=why):
            await run.answer(wait.id, answer)
        assert [each.id for each in (await run.status()).awaits] == [wait.id]
    await run.answer(wait.id, SEATED)
    assert await desk.given(run) == {"seat": accepted(**SEATED)}
    assert len(desk.calls(run)) == 2


@pytest.mark.parametrize(
    ("form", "text", "content"),
    [
        (NAME, "Ana", {"name": "Ana"}),
        (ROW, "7", {"row": 7}),
        (SEAT, '{"row": 1, "place": "aisle"}', {"row": 1, "place": "aisle"}),
    ],
    ids=["text", "number", "json"],
)
async def test_a_text_answers_a_form_of_one_field(form, text, content, desk, asked):
    """A text is the value of a form's only field; for a form with more fields it is JSON."""
    run = await desk.start({"q": {"form": form}})
    await asked(run)
    await run.answer(None, text)
    assert await desk.given(run) == {"q": accepted(**content)}


async def test_a_form_without_fields_asks_for_a_yes(desk, asked):
    """An empty object accepts a form without fields."""
    run = await desk.start({"sure": {"form": NOTHING}})
    wait = await asked(run)
    await run.answer(wait.id, {})
    assert await desk.given(run) == {"sure": accepted()}


async def test_requests_that_need_no_person_are_answered_at_once(desk):
    """Elicitation by URL and sampling are declined, roots are empty; the call continues each time."""
    run = await desk.start(OTHERS, {}, OTHERS, agent_id="test.alone")
    assert await desk.given(run) == DECLINED
    assert [call["given"] for call in desk.calls(run)] == [{}, DECLINED, {}, DECLINED]
    assert not [event async for event in run.events() if event.type == "await_clarification"]


async def test_other_requests_beside_a_form_are_declined(desk, asked):
    """A person is asked only the form; the server gets all responses at once."""
    run = await desk.start({**OTHERS, "seat": seat()})
    wait = await asked(run)
    await run.answer(wait.id, SEATED)
    assert await desk.given(run) == {**DECLINED, "seat": accepted(**SEATED)}


async def test_a_server_that_asks_without_end_gets_an_error(desk):
    """After ten requests the call ends with an error, and the run continues."""
    run = await desk.start(OTHERS, forever=True)
    error = json.loads((await run.result()).text)["error"]
    assert error["code"] == "input_required"
    assert "again and again" in error["message"]
    assert len(desk.calls(run)) == 10


async def test_without_interrupts_the_call_gets_an_error(desk, traces):
    """Without interrupts the call gets the error `input_required`, and the run ends by itself."""
    run = await desk.start({"seat": seat()}, agent_id="test.alone")
    error = json.loads((await run.result()).text)["error"]
    assert error["code"] == "input_required"
    assert error["message"].startswith("ops.asking asks for a person's input")
    messages = await traces(run).check()
    assert "secret-of-the-server" not in str(messages[2:])
    assert len(desk.calls(run)) == 1


async def test_no_status_or_event_holds_the_state(desk, asked):
    """Neither the status nor an event holds the server's state."""
    run = await desk.start({"seat": seat()})
    wait = await asked(run)
    await run.decline(wait.id)
    await run.result()
    shown = [(await run.status()).model_dump_json(), *[each.model_dump_json() async for each in run.events()]]
    handed_out = json.dumps(f"0 {STATE}", ensure_ascii=False)[1:-1]
    assert desk.calls(run)[1]["state"] == f"0 {STATE}"
    assert not [each for each in shown if "request_state" in each or handed_out in each]


async def test_a_request_declares_elicitation_by_form_only(desk):
    """A request declares elicitation by form, and no other capability."""
    run = await desk.start({})
    await run.result()
    assert desk.calls(run)[0]["can"] == {"elicitation": {"form": {}}}


class Script:
    """A server's answers to one call, in order; records the responses that it got."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.given: list[ToolInput | None] = []

    async def send(self, given: ToolInput | None) -> Any:
        self.given.append(given)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def asks(state: str | None, **requests: Any) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=requests, request_state=state)


DONE = types.CallToolResult(content=[types.TextContent(text="done")])
ROOTS = types.ListRootsRequest()
REFUSED = ErrorResponse("unknown state", INVALID_PARAMS)


async def test_a_call_is_restarted_once(monkeypatch):
    """A second refusal of the state, after the restart of the call, is raised."""
    monkeypatch.setattr(elicitation, "_PAUSE", 0.0)
    given = ToolInput(responses={}, request_state='{"state": true, "asked": {}}\nfirst')
    server = Script(REFUSED, asks("second", roots=ROOTS), REFUSED, DONE)
    with pytest.raises(ErrorResponse):
        await Rounds(server.send, tuple, given).finish()
    assert [each and each.request_state for each in server.given] == ["first", None, "second"]


async def test_a_restarted_call_gets_all_its_responses(monkeypatch):
    """The person's earlier answer and the responses that need no person go to the server together."""
    monkeypatch.setattr(elicitation, "_PAUSE", 0.0)
    params = types.ElicitRequestFormParams(message="Who?", requested_schema=NAME)
    asking = asks("s", seat=types.ElicitRequest(params=params), roots=ROOTS)
    needed = await Rounds(Script(asking).send, tuple, None).finish()
    assert isinstance(needed, InputRequired)
    answers = {**needed.responses, "seat": accepted(name="Ada")}
    assert set(answers) == {"seat", "roots"}
    server = Script(REFUSED, asking, DONE)
    given = ToolInput(responses=answers, request_state=needed.request_state)
    assert await Rounds(server.send, tuple, given).finish() is DONE
    assert [each and each.responses for each in server.given] == [answers, None, answers]


async def test_only_a_refused_state_restarts_a_call():
    """Another error is raised, and so is a refusal of a request that carried no state."""
    stateless = ToolInput(responses={}, request_state='{"state": false, "asked": {}}\n')
    stateful = ToolInput(responses={}, request_state='{"state": true, "asked": {}}\ns')
    for given, error in ((stateful, ErrorResponse("no", -32_000)), (stateless, REFUSED), (None, REFUSED)):
        server = Script(error, DONE)
        with pytest.raises(ErrorResponse):
            await Rounds(server.send, tuple, given).finish()
        assert len(server.given) == 1


async def test_the_tenth_answer_of_a_call_may_be_its_result(monkeypatch):
    """At most ten requests are made, and the tenth answer may be the result."""
    monkeypatch.setattr(elicitation, "_PAUSE", 0.0)
    asking = [asks("s", roots=ROOTS)] * (MAX_INPUT_ROUNDS - 1)
    assert await Rounds(Script(*asking, DONE).send, tuple, None).finish() is DONE
    server = Script(*asking, asks("s", roots=ROOTS), DONE)
    with pytest.raises(UnsupportedElicitation, match="again and again"):
        await Rounds(server.send, tuple, None).finish()
    assert len(server.given) == MAX_INPUT_ROUNDS


def test_a_state_and_its_digests_have_a_common_limit():
    """The server's state and the digests of the questions together have at most `MAX_REQUEST_STATE` characters."""

    def kept(size: int) -> int:
        form = InputForm(key="q", message="Who?", form=NAME)
        asked = InputRequired(forms=[form], request_state="s" * size)
        return len(ElicitationState.write(asked).request_state or "")

    beside = kept(0)
    assert kept(MAX_REQUEST_STATE - beside) == MAX_REQUEST_STATE
    with pytest.raises(UnsupportedElicitation, match="too long"):
        kept(MAX_REQUEST_STATE - beside + 1)
