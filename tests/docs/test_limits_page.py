"""docs/limits.md: its module works as written, its tables agree with the code, and its claims are tested."""

import asyncio
import re
from datetime import timedelta
from pathlib import Path

import pytest

from sojourn import (
    Agent,
    App,
    AwaitClarification,
    PlanResult,
    Principal,
    RunPolicy,
    RunPolicyOverride,
    RunStatus,
    ToolRequest,
    Toolset,
    Usage,
)
from sojourn.contracts import Safeguards
from sojourn.core.run.limits import _ENDINGS
from sojourn.core.safeguards import error_classes
from sojourn.core.safeguards.error_classes import ERROR_CLASSES, classify
from sojourn.core.safeguards.error_patterns import MAX_ENTRIES, STRIKES
from sojourn.core.safeguards.judge import _LIMITS, MAX_CALLS, RETRIES_STOPPED
from sojourn.events import RetriesStoppedEvent
from sojourn.policy import Caps, PolicyDecision
from sojourn.testing import ScriptedPlanner
from tests.docs.conftest import blocks_of
from tests.docs.text_model import TextModel

PAGE = (Path(__file__).parents[2] / "docs" / "limits.md").read_text()


by_both = pytest.mark.parametrize("quarry", ["code", "model"], indirect=True)
"""For tests of what calls are counted or compared by: code plans those of the page, and so does a model that writes JSON text."""


@pytest.fixture
def quarry(module_of, request):
    """The module of the page, with calls that are planned by its code, or by a model that writes JSON text."""
    quarry = module_of("limits.md", "quarry")
    if getattr(request, "param", "code") == "model":
        for agent in (quarry.warden, quarry.gauger, quarry.foreman):
            agent.planner = TextModel(agent.planner)
    return quarry


@pytest.fixture
def watched(serve, quarry):
    """Run the warden with the calls of a text; returns the run and its output."""

    async def play(text, app=None, **start):
        client = await serve(app or quarry.app)
        run = await client.start("quarry.warden", text, **start)
        return run, await run.result()

    return play


async def ends_of(run):
    return [event.result async for event in run.events() if event.type == "tool_end"]


# The policy.


def shown(value) -> str:
    """A default value as the page writes it."""
    if value is None:
        return "none"
    if isinstance(value, timedelta):
        seconds = int(value.total_seconds())
        return f"{seconds} s" if seconds < 60 else f"{seconds // 60} min"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "empty"
    return str(value) if isinstance(value, int) else f"`{getattr(value, 'asks_for', value)}`"


def test_the_policy_field_by_field(rows):
    """The table has every field with its default, and the reason of each that ends a run."""
    table = rows("limits.md", "## The policy")
    fields = {name: cells for cells in table for name in re.findall(r"`(\w+)`", cells[0])}
    assert set(fields) == set(RunPolicy.model_fields) == set(RunPolicyOverride.model_fields)
    for name, cells in fields.items():
        assert cells[1] == shown(getattr(RunPolicy(), name)), name
    reasons = {word for cells in table for word in re.findall(r"`(\w+)`", cells[3])}
    assert reasons | {"history"} == {*_ENDINGS, RETRIES_STOPPED}  # `history` is the server's limit


@pytest.mark.parametrize(
    ("text", "override", "reason"),
    [
        ("level:a level:b level:c", RunPolicyOverride(max_tool_calls=2), "max_tool_calls"),
        ("level:a level:b level:c", RunPolicyOverride(max_tool_rounds=2), "max_tool_rounds"),
        (
            "start:old drain:x start:old level:a",
            RunPolicyOverride(max_consecutive_failed_tool_calls=3),
            "failure_streak",
        ),
        ("start:old start:old start:old level:a", RunPolicyOverride(), "retries_stopped"),
        ("level:a level:b", RunPolicyOverride(max_tokens=10), "max_tokens"),
        ("level:a level:b", RunPolicyOverride(max_cost=0.01), "max_cost"),
        ("level:a level:b", RunPolicyOverride(), "answered"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
async def test_a_limit_brings_the_last_turn(watched, quarry, text, override, reason):
    """In the last turn the planner receives the reason and no tools, and the run's output names the reason."""
    spent = Usage(input_tokens=10, cost=0.02)

    async def plan(turn):
        if getattr(turn, "finalize", None):
            assert turn.tools == []
            assert turn.messages[-1].text == turn.finalize.notice
            return PlanResult.final(turn.finalize.reason)
        return (await quarry.watch(turn)).model_copy(update={"usage": spent})

    app = App(agents=[Agent("quarry.warden", planner=plan, uses=[quarry.pumps])])
    run, out = await watched(text, app, policy=override)
    assert out.reason == reason
    assert out.text == (reason if reason != "answered" else "All done.")
    limits = [event async for event in run.events() if event.type in ("limit_reached", "retries_stopped")]
    kind = "retries_stopped" if reason == RETRIES_STOPPED else "limit_reached"
    assert [(event.type, event.limit.reason) for event in limits] == [(kind, reason)] * (reason != "answered")


async def test_a_last_turn_that_does_not_answer(watched, quarry):
    """If the last turn requests calls, the run still ends, with a text that says why."""
    planner = ScriptedPlanner([PlanResult.calls(quarry.level.call(pump="a"))] * 2)
    app = App(agents=[Agent("quarry.warden", planner=planner, uses=[quarry.pumps])])
    _, out = await watched("go", app, policy=RunPolicyOverride(max_tool_calls=0))
    assert "this turn may only answer" in out.text
    assert out.reason == "max_tool_calls"


@pytest.mark.parametrize(("allowed", "left"), [(False, 30), (True, 99)], ids=["tighter only", "looser too"])
async def test_overrides(watched, quarry, allowed, left):
    """The stricter value holds, unless the app has `allow_loosening`."""
    planner = ScriptedPlanner([PlanResult.final("done")])
    quarry.warden.planner = planner
    app = App(agents=[quarry.warden], allow_loosening=allowed)
    await watched("go", app, policy=RunPolicyOverride(max_tool_calls=99, max_tool_rounds=7))
    caps = planner.turns[0].caps
    assert (caps.tool_calls, caps.rounds) == (left, 7)


async def test_a_tool_that_is_withheld(watched, quarry):
    """A tool that the override does not allow is neither offered nor executed."""
    planner = ScriptedPlanner([PlanResult.calls(quarry.start.call(pump="north")), PlanResult.final("done")])
    quarry.warden.planner = planner
    run, _ = await watched("go", policy=RunPolicyOverride(allowed_tags=["read"]))
    assert [spec.id for spec in planner.turns[0].tools] == ["quarry.pumps.level"]
    (end,) = await ends_of(run)
    assert end.retry_hint.reason == "tool_unavailable"


async def test_time_that_is_used_up(serve):
    """When the time is used up, calls in flight are answered with `time_budget`, ended calls keep their results, and the planner answers."""
    tools = Toolset("test.tools")

    @tools.tool
    async def hang() -> str:
        """Never answer."""
        await asyncio.Event().wait()
        return ""

    @tools.tool
    async def note() -> str:
        """Answer."""
        return "noted"

    calls = PlanResult.calls(note.call(), hang.call())
    script = ScriptedPlanner([calls, lambda turn: PlanResult.final(turn.finalize.reason)])
    policy = RunPolicy(time_budget=timedelta(seconds=4))
    client = await serve(planner=script, uses=(tools,), policy=policy)
    run = await client.start("test.agent", "go")
    out = await run.result()
    assert (out.text, out.reason) == ("time_budget", "time_budget")
    assert out.active_time
    assert [end.error and end.error.code for end in await ends_of(run)] == [None, "time_budget"]


async def test_a_run_without_a_budget_measures_no_time(watched, quarry):
    """`active_time` is None without a time budget."""
    app = App(agents=[Agent("quarry.warden", planner=quarry.watch, uses=[quarry.pumps])])
    assert (await watched("level:a", app))[1].active_time is None
    assert (await watched("level:a"))[1].active_time is not None


@by_both
async def test_the_foreman_has_four_calls(serve, quarry):
    """The foreman's two calls leave two of four, one for each child run."""
    client = await serve(quarry.app)
    out = await client.execute("quarry.foreman", "go")
    assert out.text.count('gave up; it said "Stopped by max_tool_calls."') == 2
    assert (out.tool_calls, out.children_count) == (2, 4)


async def test_an_override_holds_for_child_runs(serve, quarry):
    """Child runs are not offered the tools that the run's override denies, and may not ask either."""
    gauger = ScriptedPlanner([PlanResult.final("done")])
    quarry.gauger.planner = gauger
    quarry.gauger.policy = RunPolicy(interrupts_allowed=True)
    client = await serve(quarry.app)
    override = RunPolicyOverride(denied_tags=["change"], interrupts_allowed=False)
    await client.execute("quarry.foreman", "go", policy=override)
    assert [[spec.id.tool for spec in turn.tools] for turn in gauger.turns] == [["level"]] * 2
    assert [turn.run.interrupts_allowed for turn in gauger.turns] == [False] * 2
    assert [turn.caps.tool_calls for turn in gauger.turns] == [1] * 2


# A policy engine.


@pytest.mark.parametrize(
    "principal", [None, Principal(subject="ana", roles=["user"])], ids=["nobody", "user"]
)
async def test_the_engine_of_the_page_asks_for_engineers(watched, quarry, principal):
    """Who is no engineer may only read, whatever the labels say, and each decision is an event."""
    labels = {"engineer": "yes", "roles": "engineer"}
    run, _ = await watched("start:north level:north", quarry.guarded, labels=labels, principal=principal)
    started, level = await ends_of(run)
    assert started.retry_hint.reason == "tool_unavailable"
    assert level.result == 45
    decisions = [event.decision async for event in run.events() if event.type == "policy_decision"]
    assert decisions
    assert all(one.allowed_tools == ["quarry.pumps.level"] for one in decisions)


async def test_the_engine_of_the_page_disables_what_failed(watched, quarry):
    """For an engineer a tool that failed is not offered in the next plan, and is offered again in the one after."""
    planner = ScriptedPlanner(
        [
            PlanResult.calls(ToolRequest(name=quarry.level.id, payload={})),
            PlanResult.calls(quarry.start.call(pump="north")),
            PlanResult.final("done"),
        ]
    )
    quarry.warden.planner = planner
    engineer = Principal(subject="eva", roles=["engineer"])
    await watched("go", App(agents=[quarry.warden], policy_engine=quarry.EngineersOnly()), principal=engineer)
    offered = [[spec.id.tool for spec in turn.tools] for turn in planner.turns]
    assert offered == [["level", "start"], ["start"], ["level", "start"]]


async def test_an_engine_lowers_caps_and_adds_labels_for_the_run(watched, quarry):
    """The engine's caps and labels hold from its decision on, later decisions cannot raise the caps, and the last turn has no decision."""
    inputs = []

    class Engine:
        async def decide(self, asked):
            inputs.append(asked)
            first = len(inputs) == 1
            return PolicyDecision(caps=Caps(tool_calls=1 if first else 99), labels={"seen": "yes"})

    app = App(agents=[quarry.warden], policy_engine=Engine())
    _, out = await watched("level:a level:b level:c", app)
    assert (out.reason, out.tool_calls) == ("max_tool_calls", 1)
    assert [len(asked.requested) for asked in inputs] == [0, 1, 0, 1]
    assert inputs[-1].run.labels == {"seen": "yes"}


# The safeguards.


@by_both
async def test_the_message_of_a_stopped_run(watched):
    """The block of the page is the message of a run that stops after three similar errors."""
    run, _ = await watched("start:old start:old start:old level:a")
    (stopped,) = [event async for event in run.events() if event.type == "retries_stopped"]
    block = re.search(r"^```\n(`quarry.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert block
    assert stopped.limit.message == block[1].rstrip("\n")


def test_the_classes_of_the_reference_are_those_of_the_code(rows):
    """Each row is one of `ERROR_CLASSES`, with an example of its class."""
    table = rows("reference/policies.md", "the first class that fits is taken")
    assert [cells[0] for cells in table] == [f"`{one.category}`: {one.problem}" for one in ERROR_CLASSES]
    for (_, example), row in zip(table, ERROR_CLASSES, strict=True):
        if row.category == "contract_error":
            assert {classify("", reason) for reason in row.reasons} == {"contract_error"}
        else:
            assert classify(example) == row.category


def test_the_rule_can_be_tried_without_a_tool(quarry):
    """Similar errors are counted, another error starts the count again, ten entries are kept, and `reset` clears all."""
    stopped = quarry.strikes("timed out", "connection refused", "HTTP 503")
    assert stopped.should_stop
    assert "a service did not answer" in stopped.suggestion()
    assert stopped.dump()["should_stop"] is True
    assert not quarry.strikes("timed out", "Permission denied", "timed out", "timed out").should_stop
    assert not quarry.strikes("north is stuck", "south is away", "west is dry").should_stop
    assert not quarry.strikes("pump 4711 is stuck", "pump 4712 is stuck", "pump 4713 is stuck").should_stop
    assert quarry.strikes(*["pump 4711 is stuck"] * 3).should_stop
    away = [f"https://{pump}.example.org: timed out" for pump in "abcdef"]
    assert (quarry.strikes(*away[:5]).should_stop, quarry.strikes(*away).should_stop) == (False, True)
    assert len(quarry.strikes(*["timed out"] * 15).entries) == MAX_ENTRIES == 10
    reset = stopped.reset()
    assert (reset.should_stop, reset.entries) == (False, ())
    assert STRIKES == 3


@by_both
async def test_a_loop_is_stopped_and_named(watched, quarry):
    """Two calls that repeat five times with the same results stop the run, and the message names them."""
    run, out = await watched("level:a start:north " * 5 + "level:a")
    assert (out.reason, out.tool_calls) == ("retries_stopped", 10)
    (stopped,) = [event async for event in run.events() if event.type == "retries_stopped"]
    assert "quarry.pumps.level → quarry.pumps.start → quarry.pumps.level" in stopped.limit.message


async def test_a_tool_waits_for_the_model(serve, quarry, monkeypatch):
    """A call of a tool that looks at a job is one call, however often the tool looks; none of it counts as a strike."""
    monkeypatch.setattr(quarry, "LOOK_AGAIN", timedelta(milliseconds=50))
    monkeypatch.setitem(quarry.pits, "pit-4", 30)
    asked = PlanResult.calls(quarry.drained.call(pit="pit-4"))
    planner = ScriptedPlanner([asked, PlanResult.final("done")])
    client = await serve(App(agents=[Agent("quarry.drainer", planner=planner, uses=[quarry.jobs])]))
    run = await client.start("quarry.drainer", "go")
    out = await run.result()
    assert (out.reason, out.tool_calls) == ("answered", 1)
    assert [result.result for result in await ends_of(run)] == ["pit-4 is dry"]
    assert (await run.status()).safeguards is None


def test_the_table_of_loops_is_that_of_the_code(rows):
    """The table's numbers of repetitions, with and without a failure, are those of the code."""
    one, more = rows("limits.md", "### Loops")
    assert (
        (1, int(one[2].split()[0]), int(one[1].split()[0])),
        *((length, int(more[2].split()[0]), int(more[1].split()[0])) for length in (2, 3)),
    ) == _LIMITS
    assert MAX_CALLS == 20


async def test_the_safeguards_show_in_the_status(serve, quarry, status_when, temporal):
    """The status has the class of the last error, the number of similar errors, whether they stopped the run, and each error's match (ME-15)."""
    start = quarry.start.call(pump="old")
    question = PlanResult.ask(AwaitClarification(question="And now?"))
    script = ScriptedPlanner(
        [PlanResult.calls(start), PlanResult.calls(start), question, PlanResult.final("x")]
    )
    client = await serve(planner=script, uses=(quarry.pumps,), policy=RunPolicy(interrupts_allowed=True))
    run = await client.start("test.agent", "go")
    status = await status_when(run, lambda status: status.awaits)
    seen = status.safeguards
    assert isinstance(seen, Safeguards)
    assert (seen.category, seen.similar, seen.stopped, seen.loop) == ("network_error", 2, False, None)
    assert seen.errors[-1] == {
        "message": "old: connection refused",
        "tool": "quarry.pumps.start",
        "category": "network_error",
        "matched": "connection refused",
    }
    code, printed = await temporal("temporal workflow query --workflow-id RUN --type status", run)
    assert (code, '"similar":2' in printed) == (0, True)
    await run.answer(None, "stop")
    await run.result()


def test_the_checklist_names_existing_fields():
    """Every `status` field of the checklist exists, and the checklist has every field of `Safeguards`."""
    text = re.search(r"## When a tool seems stuck\n(.*)", PAGE, re.DOTALL)
    assert text
    assert set(re.findall(r"`status\.(\w+)`", text[1])) <= set(RunStatus.model_fields)
    assert set(Safeguards.model_fields) <= set(re.findall(r"`(\w+)`", text[1]))
    assert "limit" in RetriesStoppedEvent.model_fields


def test_each_safeguard_is_named(rows):
    """The table names error patterns, loops, depth, failure streak, network and arguments (ME-1)."""
    named = " ".join(cells[0] for cells in rows("limits.md", "## The safeguards, by name"))
    for name in ("error patterns", "loops", "depth", "failure streak", "network", "arguments"):
        assert name in named


def test_a_class_is_one_row(quarry, monkeypatch):
    """The error class of CONTRIBUTING, put before the others, matches its messages and gives its suggestion (ME-17)."""
    scope: dict = {}
    exec(next(block for block in blocks_of("../CONTRIBUTING.md") if "ErrorClass(" in block), scope)
    monkeypatch.setattr(error_classes, "ERROR_CLASSES", (scope["flood"], *ERROR_CLASSES))
    assert classify("The pit is flooded!") == "flood_error"
    suggestion = quarry.strikes("the pit is flooded", "shaft flooded", "all is under water").suggestion()
    assert "the pit is under water" in suggestion
    assert "- Call the duty officer." in suggestion
    assert classify("Connection refused") == "network_error"
