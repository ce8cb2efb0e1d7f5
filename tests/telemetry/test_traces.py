"""Each run is one trace: the spans of runs with every kind of call, as the receiver gets them."""

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType

from sojourn import AwaitConfirmation, AwaitExternalTools, RunNotFound

from .traced_app import SECRET

PAGE = Path(__file__).parents[2] / "docs" / "observability.md"


def check_tree(spans):
    """Check that spans are one trace with one root, unique ids and known parents, and return the root and the spans by id."""
    assert len({span["trace_id"] for span in spans}) == 1
    by_id = {span["span_id"]: span for span in spans}
    assert len(by_id) == len(spans), Counter(span["span_id"] for span in spans).most_common(2)
    (root,) = [span for span in spans if not span["parent_id"]]
    assert all(span["parent_id"] in by_id for span in spans if span is not root)
    assert all(span["start"] <= span["end"] for span in spans)
    return root, by_id


def tree(spans, parent_id=""):
    """Return the names of the spans, nested, in the order in which the spans began."""
    below = sorted(
        (span for span in spans if span["parent_id"] == parent_id),
        key=lambda span: (span["start"], span["name"]),
    )
    return [(span["name"], *tree(spans, span["span_id"])) for span in below]


def calls_of(spans):
    """Return the spans of tool calls, by run and call."""
    calls = {}
    for span in spans:
        found = span["attributes"]
        if found.get("gen_ai.operation.name") == "execute_tool":
            calls.setdefault((found["sojourn.run_id"], found["tool.call_id"]), []).append(span)
    return calls


async def test_one_trace_from_the_client_through_tools_and_children(clerk):
    """The spans of client, run, plans, calls and child run are one tree, each once, however often the run is replayed."""
    desk, _ = clerk
    spans = desk.spans()
    root, by_id = check_tree(spans)
    assert root["name"] == "invoke_agent desk.clerk"
    assert root["kind"] == 3  # client
    (whole,) = [span for span in spans if span["parent_id"] == root["span_id"]]
    assert whole["name"] == "invoke_agent desk.clerk"
    below = Counter(span["name"] for span in spans if span["parent_id"] == whole["span_id"])
    assert below == {
        "plan desk.clerk": 4,
        "execute_tool desk.notes.read": 1,
        "execute_tool desk.notes.near": 1,
        "execute_tool": 1,
        "execute_tool desk.help.ask": 1,
        "execute_tool desk.notes.write": 2,
        "execute_tool desk.notes.fail": 2,
        "execute_tool desk.notes.flaky": 2,
    }
    (ask,) = [span for span in spans if span["name"] == "execute_tool desk.help.ask"]
    assert tree(spans, ask["span_id"]) == [
        (
            "invoke_agent desk.helper",
            ("plan desk.helper",),
            ("execute_tool desk.notes.read",),
            ("plan desk.helper",),
        )
    ]
    for attempts in calls_of(spans).values():
        done = [span for span in attempts if not span["is_error"]]
        assert len(done) == 1 or (len(attempts) == 1 and not done)
    for span in spans:
        if span is not root:
            above = by_id[span["parent_id"]]
            assert above is root or above["start"] <= span["start"]


async def test_the_attributes_of_spans(clerk):
    """Spans have attributes of run, session, agent, call, attempt and error by the conventions, but nothing of payloads."""
    desk, run = clerk
    spans = desk.spans()
    assert {span["scope"] for span in spans} == {"sojourn"}
    assert {span["resource"]["service.name"] for span in spans} == {"sojourn"}
    for span in spans:
        assert span["attributes"]["gen_ai.conversation.id"] == "s-1"
        assert span["status_message"] == ""
        assert span["events"] == []
    named = {}
    for span in spans:
        named.setdefault(span["name"], []).append(span["attributes"])
    (flaky, again) = sorted(named["execute_tool desk.notes.flaky"], key=lambda span: span["sojourn.attempt"])
    assert (flaky["sojourn.attempt"], flaky["error.type"]) == (1, "RateLimited")
    assert again["sojourn.attempt"] == 2
    assert "error.type" not in again
    assert flaky["tool.call_id"] == again["tool.call_id"] == again["gen_ai.tool.call.id"]
    assert again["gen_ai.operation.name"] == "execute_tool"
    assert again["gen_ai.tool.name"] == "desk.notes.flaky"
    assert again["gen_ai.agent.id"] == "desk.clerk"
    assert again["sojourn.run_id"] == run.id
    assert again["sojourn.turn_id"] == "t1"
    (unknown,) = named["execute_tool"]
    assert unknown["gen_ai.tool.name"] == "desk.notes.made_up?"
    assert (unknown["error.type"], unknown["sojourn.kind"]) == ("tool_unavailable", "answered")
    (ask,) = named["execute_tool desk.help.ask"]
    assert ask["sojourn.kind"] == "child"
    child = next(
        span for span in named["execute_tool desk.notes.read"] if span["gen_ai.agent.id"] == "desk.helper"
    )
    assert child["tool.parent_call_id"] == ask["tool.call_id"]
    assert child["sojourn.run_id"].startswith(f"{run.id}/")
    errors = {span.get("error.type") for span in named["execute_tool desk.notes.write"]}
    assert errors == {"missing_fields", None}
    errors = {span.get("error.type") for span in named["execute_tool desk.notes.fail"]}
    assert errors == {"ValueError", None}
    plan = named["plan desk.clerk"][0]
    assert plan["gen_ai.usage.input_tokens"] == 10
    assert plan["gen_ai.response.model"] == "m-1"
    assert [
        span["sojourn.outcome"]
        for span in sorted(named["plan desk.clerk"], key=lambda span: span["sojourn.plan"])
    ] == [
        "calls",
        "calls",
        "calls",
        "final",
    ]
    assert SECRET.encode() not in desk.raw()
    assert b"why?" not in desk.raw()


async def test_every_attribute_is_on_the_page(clerk):
    """docs/observability.md names each attribute that spans and metrics have."""
    desk, _ = clerk
    page = PAGE.read_text()
    sent = {name for each in [*desk.spans(), *desk.points_of_all()] for name in each["attributes"]}
    documented = {
        name
        for name in sent
        if f"`{name}`" in page or (name.startswith("gen_ai.usage.") and "`gen_ai.usage.*`" in page)
    }
    assert sent == documented


@pytest.mark.usefixtures("campaigns")
async def test_a_killed_worker_leaves_one_trace(desk):
    """After a worker is killed in the middle of a call, another continues the trace, and no span and no count is doubled."""
    first = await desk.worker()
    _, client = desk.begin("desk.slowly")
    await desk.until((desk.folder / "started-1").exists)
    await desk.until(lambda: sum(span["name"] == "plan desk.slowly" for span in desk.spans()) == 2)
    await desk.until(lambda: desk.count("sojourn.tool.calls"))
    first.kill()
    first.wait()
    (desk.folder / "go").touch()
    second = await desk.worker()
    await desk.finish(client)
    await desk.end(second)
    spans = desk.spans()
    check_tree(spans)
    assert tree(spans) == [
        (
            "invoke_agent desk.slowly",
            (
                "invoke_agent desk.slowly",
                ("plan desk.slowly",),
                ("execute_tool desk.notes.read",),
                ("plan desk.slowly",),
                ("execute_tool desk.notes.slow",),
                ("plan desk.slowly",),
            ),
        )
    ]
    (slow,) = [span for span in spans if span["name"] == "execute_tool desk.notes.slow"]
    assert slow["attributes"]["sojourn.attempt"] == 2
    assert desk.count("sojourn.runs.started", "gen_ai.agent.name") == {"desk.slowly": 1}
    assert desk.count("sojourn.tool.calls", "gen_ai.tool.name") == {
        "desk.notes.read": 1,
        "desk.notes.slow": 1,
    }
    assert desk.count("sojourn.runs.ended", "sojourn.run.status") == {"completed": 1}


@pytest.mark.parametrize("command", [(), ("serve_uncached.py",)], ids=["cached", "replayed at every step"])
async def test_waiting_for_people(desk, command, until, status_when):
    """A denied call and an external call have one span each, and each wait is counted and timed once.

    An error code from outside is counted as `_OTHER`, since there could be any number of such codes.
    """
    worker = await desk.worker(*command)
    run, client = desk.begin("desk.asker")
    await until(lambda: exists(run))
    await status_when(run, lambda status: status.awaits)
    await run.answer(None, "that one")
    await status_when(run, lambda status: any(isinstance(each, AwaitConfirmation) for each in status.awaits))
    await run.deny(None, "no fire")
    status = await status_when(
        run, lambda status: any(isinstance(each, AwaitExternalTools) for each in status.awaits)
    )
    ((item,),) = [wait.items for wait in status.awaits]
    error = {"message": "it is gone", "code": "Custom17"}
    await run.provide_tool_results(None, [{"tool_call_id": item.tool_call_id, "error": error}])
    await desk.finish(client)
    await desk.end(worker)
    spans = desk.spans()
    check_tree(spans)
    (burn,) = [span for span in spans if span["name"] == "execute_tool desk.notes.burn"]
    assert burn["attributes"]["error.type"] == "denied"
    (fetch,) = [span for span in spans if span["name"] == "execute_tool desk.depot.fetch"]
    assert (fetch["attributes"]["sojourn.kind"], fetch["attributes"]["error.type"]) == ("external", "_OTHER")
    assert desk.count("sojourn.tool.errors", "error.type") == {"denied": 1, "_OTHER": 1}
    kinds = {"clarification": 1, "confirmation": 1, "external_tools": 1}
    assert desk.count("sojourn.awaits", "sojourn.kind") == kinds
    assert desk.count("sojourn.await.duration", "sojourn.kind") == kinds


async def exists(run):
    """Return the run's status, or None before the run has begun."""
    with suppress(RunNotFound):
        return await run.status()


async def test_canceled_runs(desk):
    """The spans of a canceled run and of its call in flight end with the error type `canceled`."""
    worker = await desk.worker()
    run, client = desk.begin("desk.slowly")
    await desk.until((desk.folder / "started-1").exists)
    await run.cancel("enough")
    await desk.until(lambda: client.poll() is not None)
    await desk.end(worker)
    spans = desk.spans()
    root, _ = check_tree(spans)
    (whole,) = [span for span in spans if span["parent_id"] == root["span_id"]]
    assert whole["attributes"]["error.type"] == "canceled"
    (slow,) = [span for span in spans if span["name"] == "execute_tool desk.notes.slow"]
    assert slow["attributes"]["error.type"] == "canceled"
    assert desk.count("sojourn.runs.ended", "sojourn.run.status") == {"canceled": 1}


async def test_only_a_header_is_added_to_a_history(desk):
    """With tracing a history has the same events, and a header with `traceparent` where the run is started."""
    worker = await desk.worker()
    (desk.folder / "go").touch()
    traced = await desk.run("desk.slowly")
    plain = await desk.run("desk.slowly", OTEL_SDK_DISABLED="true")
    await desk.end(worker)
    histories = [
        await desk.client.temporal.get_workflow_handle(run.id).fetch_history() for run in (traced, plain)
    ]
    with_trace, without = (list(history.events) for history in histories)
    assert events_of(with_trace) == events_of(without)
    started = with_trace[0].workflow_execution_started_event_attributes.header.fields
    assert list(started) == ["_tracer-data"]
    assert list(json.loads(started["_tracer-data"].data)) == ["traceparent"]
    assert not without[0].workflow_execution_started_event_attributes.header.fields


def events_of(history):
    """Return the number of events by type, without those of workflow tasks."""
    return Counter(
        name
        for event in history
        if not (name := EventType.Name(event.event_type)).startswith("EVENT_TYPE_WORKFLOW_TASK")
    )
