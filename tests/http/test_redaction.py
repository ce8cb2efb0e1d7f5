"""What is told over HTTP has nothing that is for operators only: no line of an author's code, no process and no host."""

import json
import os
import re
import socket
from datetime import UTC, datetime

import pytest

from sojourn import Message, RunStatus, ToolError, ToolResult
from sojourn.contracts.event import MessageReceivedEvent, RunFailedEvent
from sojourn.http.problems import redact, redact_text
from tests.http.every_protocol import PROTOCOLS, say

SECRET = re.compile(rf"shop_app\.py|{os.getpid()}@|{re.escape(socket.gethostname())}")
PLACE = {"event_id": "0-000001-00000", "run_id": "r", "time": datetime(2027, 1, 2, tzinfo=UTC)}


def test_a_text_about_a_failure_loses_only_places_and_senders(subtests: pytest.Subtests) -> None:
    """Names of people, of runs and of files that an author wrote stay."""
    rows = [
        ("TypeError: no shelf (desk.py:41)", "TypeError: no shelf"),
        ("TypeError: no shelf (desk.py:41): KeyError: 'a' (b-2.py:1)", "TypeError: no shelf: KeyError: 'a'"),
        ("run r was canceled by 4711@shop-1.internal: too late", "run r was canceled: too late"),
        ("terminated by temporal-cli:ana@laptop", "terminated"),
        ("requested by 12@b.c@", "requested"),
        ("requested by ana@example.org", "requested by ana@example.org"),
        ("see (docs/desk.py:41) and (desk.py)", "see (docs/desk.py:41) and (desk.py)"),
        ("canceled by parent run shop.clerk@desk-1", "canceled by parent run shop.clerk@desk-1"),
    ]
    for text, told in rows:
        with subtests.test(text=text, told=told):
            assert redact_text(text) == told


def test_records_lose_what_is_for_operators_however_deep_it_is():
    """The chain of an error, an event and a status are cleaned; what authors wrote is the same."""
    error = ToolError(message="x (a.py:1)", place="a.py:2", cause=ToolError(message="y", place="b.py:3"))
    end = RunFailedEvent(**PLACE, text="x (a.py:1)", error=error)
    (told,) = redact({"one": [end]})["one"]
    assert [(link.message, link.place) for link in told.error.chain()] == [("x", None), ("y", None)]
    assert told.text == "x"
    plain = {"text": "x (a.py:1)", "identity": "1@host", "place": "a.py:1"}
    assert redact(ToolResult(name="a.b.c", result=plain)).result is plain
    said = Message.user("see x (a.py:1)")
    event = MessageReceivedEvent(**PLACE, message_id="m", message=said, by="ana", identity="1@host")
    assert redact(event) == event.model_copy(update={"identity": None})
    assert redact(event).message is said
    status = RunStatus(run_id="r", failure="x (a.py:1)", hints=["y (a.py:1)"], notes=["z (a.py:1)"])
    cleaned = redact(status)
    assert (cleaned.failure, cleaned.hints, cleaned.notes) == ("x", ["y"], ["z (a.py:1)"])


async def told_of(served, run_id: str) -> str:
    """Everything that the paths of a run tell."""
    paths = ["", "/output?wait=30", "/transcript", "/events"]
    answers = [(await served.http.get(f"/v1/runs/{run_id}{path}")).text for path in paths]
    frames = [json.dumps(frame.data) for frame in await served.events(f"/v1/runs/{run_id}/events")]
    return "\n".join([*answers, *frames])


@pytest.mark.parametrize(("word", "why"), [("raise", "there is no such shelf"), ("drop", "it broke")])
async def test_the_line_of_an_authors_code_is_not_told(served, word, why):
    """Neither where a planner nor where a tool has raised; the client has it."""
    run_id = await served.start(word)
    told = await told_of(served, run_id)
    assert why in told
    assert not SECRET.search(told)
    known = [event.model_dump_json() async for event in served.client.get_run(run_id).events(follow=False)]
    assert "shop_app.py:" in "\n".join(known)


@pytest.mark.parametrize("reason", [None, "too late"])
async def test_the_process_that_canceled_a_run_is_not_told(served, reason):
    """Whether by the service or by a program."""
    run_id, _ = await served.waiting("ask")
    if reason:
        await served.post(f"/v1/runs/{run_id}/cancel", {"reason": reason})
    else:
        await served.client.get_run(run_id).cancel()
    told = await told_of(served, run_id)
    assert f"run {run_id} was canceled" in told
    assert (reason or "") in told
    assert not SECRET.search(told)


async def test_the_process_that_answers_and_terminates_is_not_told(served):
    """An answer has the name of who asks, and no identity."""
    run_id, wait = await served.waiting("wipe")
    body = {"await_id": wait.id, "approved": False, "reason": "no"}
    assert (await served.post(f"/v1/runs/{run_id}/approvals", body)).status_code == 200
    told = await told_of(served, run_id)
    assert '"by": "local"' in told
    assert not SECRET.search(told)
    run_id, _ = await served.waiting("ask")
    await served.client.temporal.get_workflow_handle(run_id).terminate()
    assert not SECRET.search(await told_of(served, run_id))


@pytest.mark.parametrize("name", PROTOCOLS)
async def test_no_protocol_tells_a_line_either(served, name):
    """Its clients learn why a run failed, and no more."""
    method, path, headers, body = say(name, "raise")
    told = (await served.http.request(method, path, headers=headers, json=body)).text
    assert "there is no such shelf" in told, told
    assert not SECRET.search(told), told
