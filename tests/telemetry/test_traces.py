"""One trace a run: what the receiver gets of a run that meets every kind of call."""

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
    """One trace, one root, no id twice, every parent there, and every child within its run's time."""
    assert len({span["trace_id"] for span in spans}) == 1
    by_id = {span["span_id"]: span for span in spans}
    assert len(by_id) == len(spans), Counter(span["span_id"] for span in spans).most_common(2)
    (root,) = [span for span in spans if not span["parent_id"]]
    assert all(span["parent_id"] in by_id for span in spans if span is not root)
    assert all(span["start"] <= span["end"] for span in spans)
    return root, by_id


def tree(spans, parent_id=""):
    """The names, nested, in the order in which the spans began."""
    below = sorted(
        (one for one in spans if one["parent_id"] == parent_id), key=lambda one: (one["start"], one["name"])
    )
    return [(one["name"], *tree(spans, one["span_id"])) for one in below]


def calls_of(spans):
    """The spans of tool calls by run and call."""
    calls = {}
    for span in spans:
        found = span["attributes"]
        if found.get("gen_ai.operation.name") == "execute_tool":
            calls.setdefault((found["sojourn.run_id"], found["tool.call_id"]), []).append(span)
    return calls


async def test_one_trace_from_the_client_through_tools_and_children(clerk):
    """Client, run, plans, calls, the child run and its call are one tree, each once, however often it is replayed."""
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


async def test_what_spans_say(clerk):
    """Attributes name run, session, agent, call, attempt and reason, by the conventions; nothing is told of payloads."""
    desk, run = clerk
    spans = desk.spans()
    assert {span["scope"] for span in spans} == {"sojourn"}
    assert {span["resource"]["service.name"] for span in spans} == {"sojourn"}
    for span in spans:
        assert span["attributes"]["gen_ai.conversation.id"] == "s-1"
        assert span["said"] == ""
        assert span["events"] == []
    named = {}
    for span in spans:
        named.setdefault(span["name"], []).append(span["attributes"])
    (flaky, again) = sorted(named["execute_tool desk.notes.flaky"], key=lambda one: one["sojourn.attempt"])
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
        one for one in named["execute_tool desk.notes.read"] if one["gen_ai.agent.id"] == "desk.helper"
    )
    assert child["tool.parent_call_id"] == ask["tool.call_id"]
    assert child["sojourn.run_id"].startswith(f"{run.id}/")
    errors = {one.get("error.type") for one in named["execute_tool desk.notes.write"]}
    assert errors == {"missing_fields", None}
    errors = {one.get("error.type") for one in named["execute_tool desk.notes.fail"]}
    assert errors == {"ValueError", None}
    plan = named["plan desk.clerk"][0]
    assert plan["gen_ai.usage.input_tokens"] == 10
    assert plan["gen_ai.response.model"] == "m-1"
    assert [
        one["sojourn.outcome"]
        for one in sorted(named["plan desk.clerk"], key=lambda one: one["sojourn.plan"])
    ] == [
        "calls",
        "calls",
        "calls",
        "final",
    ]
    assert SECRET.encode() not in desk.raw()
    assert b"why?" not in desk.raw()


async def test_every_attribute_is_on_the_page(clerk):
    """docs/observability.md tells of each attribute that spans and metrics have."""
    desk, _ = clerk
    page = PAGE.read_text()
    sent = {name for one in [*desk.spans(), *desk.points_of_all()] for name in one["attributes"]}
    told = {
        name
        for name in sent
        if f"`{name}`" in page or (name.startswith("gen_ai.usage.") and "`gen_ai.usage.*`" in page)
    }
    assert sent == told


@pytest.mark.durability
async def test_a_killed_worker_leaves_one_trace(desk):
    """A worker is killed in the middle of a call; another goes on in the same trace, and nothing is there, or counted, twice."""
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
    """A call that a person denies, or that somebody outside answers, has its one span; waits are counted and timed once.

    The reason for an error that somebody outside made up is not counted: there could be any number of them.
    """
    worker = await desk.worker(*command)
    run, client = desk.begin("desk.asker")
    await until(lambda: exists(run))
    await status_when(run, lambda status: status.awaits)
    await run.answer(None, "that one")
    await status_when(run, lambda status: any(isinstance(one, AwaitConfirmation) for one in status.awaits))
    await run.deny(None, "no fire")
    status = await status_when(
        run, lambda status: any(isinstance(one, AwaitExternalTools) for one in status.awaits)
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
    """Whether the run has begun."""
    with suppress(RunNotFound):
        return await run.status()


async def test_canceled_runs(desk):
    """A canceled run ends its span, and says so; the call in flight is canceled with it."""
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


async def test_only_the_place_in_the_trace_is_added_to_a_history(desk):
    """With tracing a history has the same events, with one header each where something is started."""
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
    """The events that a run's own code causes, by type."""
    return Counter(
        name
        for event in history
        if not (name := EventType.Name(event.event_type)).startswith("EVENT_TYPE_WORKFLOW_TASK")
    )
