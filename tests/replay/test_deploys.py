"""A replay catches each incompatible edit of an app, and finds nothing in an app that did not change."""

import asyncio
import json
from pathlib import Path

import pytest
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory

from sojourn import AwaitClarification, data_converter
from sojourn.core.awaits.form import form_of
from sojourn.events.one_run import export_histories, fetch_histories
from sojourn.replay import Replay, RunReport, files_in, runs_on_server, source_of_file, source_of_run
from sojourn.replay.checking import check_against
from sojourn.replay.determinism import WorkflowReplay
from sojourn.replay.recording import Recording
from sojourn.worker import shell
from tests.replay import folding, scenarios
from tests.replay.deploys import EDITS, shop

HISTORIES = Path(__file__).parent / "histories"


async def reports_of(app, sources) -> list[RunReport]:
    """The reports of these runs on an app."""
    async with Replay(app, data_converter) as replay:
        return [report async for report in replay.reports(sources)]


async def record(client, folder: Path) -> None:
    """Start one run of each agent, bring it to its end or its wait, and write its history."""
    agents = {agent for agent, _ in EDITS.values()}
    runs = {agent: await client.start(f"shop.{agent}", "Begin.") for agent in agents}
    for agent in ("flow", "clerk", "parent"):
        await runs[agent].result()
    for agent in ("half", "approval", "question"):
        await runs[agent].until_waiting()
    (wait,) = await runs["outside_clerk"].until_waiting()
    weighed = {"tool_call_id": wait.items[0].tool_call_id, "result": 3}
    await runs["outside_clerk"].provide_tool_results(wait.id, [weighed])
    await runs["outside_clerk"].result()
    async with asyncio.timeout(30):
        async for event in runs["remote_clerk"].events():
            if event.type == "tool_start":
                break
    for agent, run in runs.items():
        exported = export_histories(await fetch_histories(client.temporal, run.id))
        (folder / f"{agent}.json").write_text(json.dumps(exported))


async def test_each_incompatible_edit_is_caught(serve, subtests, tmp_path):
    """Recorded runs have no finding on their own app, and the problem of each edit on the edited one."""
    client = await serve(shop())
    await record(client, tmp_path)
    same = await reports_of(shop(), map(source_of_file, files_in(tmp_path)))
    assert {report.agent_id: report.findings for report in same if report.findings} == {}
    for edit, (agent, kind) in EDITS.items():
        with subtests.test(edit):
            (report,) = await reports_of(shop(edit), [source_of_file(tmp_path / f"{agent}.json")])
            assert kind in {each.kind for each in report.problems}
    listed = [each async for each in runs_on_server(client.temporal, client.task_queue, None)]
    assert sorted(listed) == sorted(report.run_id for report in same if report.is_open)
    assert len(listed) == 4


async def test_the_workflow_code_that_decides_otherwise_is_named(monkeypatch):
    """The finding has the event, what the history has there, and what the code asks for."""
    monkeypatch.setattr("workflows.plan.PLAN", "PlanTwiceActivity")
    monkeypatch.setattr("workflows.local_plan.PLAN", "PlanTwiceActivity")
    source = source_of_file(HISTORIES / "plain_calls.json")
    (report,) = await reports_of(scenarios.make_app(), [source])
    (problem,) = report.problems
    assert (problem.kind, problem.event) == ("nondeterminism", 5)
    assert "`activity task scheduled` (PlanActivity 1)" in problem.text
    assert "now asks for activity type 'PlanTwiceActivity'" in problem.text


async def test_a_later_event_is_found(tmp_path):
    """The task at which the history differs is found among many."""
    stored = json.loads((HISTORIES / "plain_calls.json").read_text())
    scheduled = [each for each in stored["events"] if each["eventType"].endswith("ACTIVITY_TASK_SCHEDULED")]
    attributes = scheduled[-1]["activityTaskScheduledEventAttributes"]
    attributes["activityType"]["name"] = "AnotherActivity"
    (tmp_path / "run.json").write_text(json.dumps(stored))
    (report,) = await reports_of(scenarios.make_app(), [source_of_file(tmp_path / "run.json")])
    assert [(each.kind, each.event) for each in report.problems] == [
        ("nondeterminism", int(scheduled[-1]["eventId"]))
    ]


async def test_stored_histories_raise_no_alarm():
    """Every stored history of an unchanged app passes, and its planners decide the same."""
    found = await reports_of(scenarios.make_app(), map(source_of_file, files_in(HISTORIES)))
    different = {report.run_id: report.findings for report in found if report.findings}
    # The beginning of its transcript is in a storage.
    assert [each.kind for each in different.pop("events_archived")] == ["not_compared"]
    assert different == {}
    assert sum(report.plans for report in found) > 250


@pytest.mark.parametrize(
    "damage", ["cut", "headless", "gap", "task", "foreign", "binary", "list", "deep", "empty"]
)
async def test_a_damaged_file_is_a_finding(tmp_path, damage):
    """It is reported by its name, and the runs beside it are replayed."""
    text = (HISTORIES / "plain_calls.json").read_text()
    stored = json.loads(text)
    events = stored["events"]
    content = {
        "cut": text[:2_000],
        "headless": json.dumps({"events": events[2:]}),
        "gap": json.dumps({"events": [*events[:6], *events[7:]]}),
        "task": json.dumps(
            {
                "events": [
                    *events[:3],
                    *({**each, "eventId": str(int(each["eventId"]) - 1)} for each in events[4:]),
                ]
            }
        ),
        "foreign": text.replace('"AgentRun"', '"PaymentFlow"'),
        "binary": "\udcff\x00",
        "list": "[]",
        "deep": "[" * 100_000,
        "empty": "",
    }[damage]
    (tmp_path / "a.json").write_bytes(content.encode(errors="surrogateescape"))
    (tmp_path / "b.json").write_text(text)
    bad, good = await reports_of(scenarios.make_app(), map(source_of_file, files_in(tmp_path)))
    assert [(each.kind, each.is_problem) for each in bad.findings] == [("unreadable", True)]
    assert "a.json" in bad.findings[0].text
    assert (good.findings, good.plans > 2, good.is_open) == ([], True, False)


async def test_a_replay_that_stalls_is_given_up(monkeypatch):
    """Temporal's core ends its worker for some histories, and its replayer waits on: the others are replayed."""
    monkeypatch.setattr("sojourn.replay.determinism.STALL_SECONDS", 1.0)
    good = folding.load(HISTORIES / "plain_calls.json")
    events = list(good.events)
    del events[3]  # the end of the first workflow task
    for number, event in enumerate(
        events := [HistoryEvent.FromString(each.SerializeToString()) for each in events], 1
    ):
        event.event_id = number
    replay = WorkflowReplay(list(shell(scenarios.make_app()).workflows), data_converter)
    bad, same = await replay.findings([WorkflowHistory("bad", events), good])
    assert bad is not None
    assert (bad.kind, "cannot be replayed" in bad.text) == ("unreadable", True)
    assert same is None


@pytest.mark.parametrize(
    ("name", "count", "findings"),
    [
        ("plain_calls", 17, []),
        ("failing_calls", 10, [("arguments_refused", False)]),
        ("local_plans", 9, [("arguments_refused", False)]),
        ("approval_void", 30, [("wait_changed", True), ("wait_changed", True)]),
    ],
)
async def test_a_part_of_a_history_is_an_open_run(tmp_path, name, count, findings):
    """A history that ends early replays. A pending call that may have been wrong all along is a note, a changed approval a problem."""
    stored = json.loads((HISTORIES / f"{name}.json").read_text())
    stored["events"] = stored["events"][:count]
    (tmp_path / "run.json").write_text(json.dumps(stored))
    (report,) = await reports_of(scenarios.make_app(), [source_of_file(tmp_path / "run.json")])
    assert [(each.kind, each.is_problem) for each in report.findings] == findings
    assert report.is_open


def test_a_question_from_before_forms_had_required_fields_is_no_changed_schema():
    """The list is no part of what the person was asked then. A field of another type is one."""
    app = shop()
    spec = app.tools_of("shop.question")["shop.wiping.look"].spec
    form = form_of(spec, ["disk"])
    assert form["required"] == ["disk"]

    def findings(now, form) -> list[str]:
        asked = {"restrict_to_tool": "shop.wiping.look", "missing_fields": ["disk"], "checks_in_full": True}
        question = AwaitClarification(id="q", question="Which disk?", form=form, **asked)
        run = Recording("r", "e", agent_id="shop.question", is_open=True, waits=[question])
        return [each.kind for each in check_against(now, run)]

    earlier = {name: value for name, value in form.items() if name != "required"}
    assert (findings(app, form), findings(app, earlier)) == ([], [])
    assert findings(app, {**form, "required": []}) == ["wait_changed"]
    assert findings(shop("form_changed"), earlier) == ["wait_changed"]


async def test_a_run_of_the_server_is_replayed(serve):
    """Its history is fetched, and a run that the server does not have is a finding."""
    client = await serve(shop())
    run = await client.start("shop.clerk", "Begin.")
    await run.result()
    (report,) = await reports_of(shop(), [source_of_run(client.temporal, run.id)])
    assert (report.run_id, report.findings, report.plans) == (run.id, [], 3)
    (missing,) = await reports_of(shop(), [source_of_run(client.temporal, "no-such-run")])
    assert [each.kind for each in missing.findings] == ["unreadable"]
