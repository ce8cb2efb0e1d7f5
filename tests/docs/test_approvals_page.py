"""docs/approvals.md: its module works as written, and its claims are tested."""

import re
import uuid
from typing import get_args

import pytest

from sojourn import (
    Agent,
    App,
    ApprovalPolicy,
    AwaitClosed,
    Client,
    InvalidInput,
    PlanResult,
    Principal,
    RunPolicy,
    RunPolicyOverride,
    ToolRequest,
    Toolset,
    Worker,
)
from sojourn.contracts import Annotations
from sojourn.contracts.run_policy import Tainted
from sojourn.core.run.approval import judge
from sojourn.errors import ApprovalVoid, DefinitionError, NotApprover
from sojourn.policy import PolicyDecision
from sojourn.testing.scripted import ScriptedPlanner
from tests.docs.text_model import TextModel

ASKS = RunPolicy(interrupts_allowed=True)


def person(subject: str, *roles: str) -> Principal:
    return Principal(subject=subject, tenant="acme", roles=list(roles))


by_both = pytest.mark.parametrize("archive", ["code", "model"], indirect=True)
"""For tests of what is read of a call: its code plans the calls of the page, and so does a model that writes JSON text."""


@pytest.fixture
def archive(module_of, request):
    """The module of the page, with calls that are planned by its code, or by a model that writes JSON text."""
    archive = module_of("approvals.md", "archive")
    if getattr(request, "param", "code") == "model":
        archive.tidy = TextModel(archive.archivist.planner)
        for agent in (archive.archivist, archive.curator, archive.reader):
            agent.planner = archive.tidy
    return archive


@pytest.fixture
def fates_of(serve, archive, status_when):
    """Request these calls of the page under an agent's policy; returns each call's state by its id."""

    async def play(calls, *, agent="archive.archivist", approval=None, override=None, app=None):
        if approval is not None:
            policy = RunPolicy(interrupts_allowed=True, approval=approval)
            app = App(agents=[Agent(agent, planner=archive.tidy, uses=[archive.files], policy=policy)])
        client = await serve(app or archive.app)
        run = await client.start(agent, calls, policy=override)
        status = await status_when(
            run,
            lambda status: (
                len(status.calls) == len(calls.split())
                and all(call.state != "running" for call in status.calls)
            ),
        )
        if status.closed_at is None and status.awaits:
            await run.cancel()
        return {call.tool_call_id: call.state for call in status.calls}

    return play


@pytest.fixture
def asked(serve, archive, status_when):
    """Start a run of the archivist with these calls, and wait for `count` approvals; returns the run and its waits."""

    async def start(calls, count=1):
        client = await serve(archive.app)
        run = await client.start("archive.archivist", calls)
        status = await status_when(run, lambda status: len(status.awaits) == count)
        return run, status.awaits

    return start


async def test_a_tools_declaration_decides_on_approval(asked, fates_of):
    """Tools that read or declare nothing run without approval; the prompt is the tool's own, or made of its title."""
    _, waits = await asked("delete empty", count=2)
    assert [wait.prompt for wait in waits] == ["Delete a.old for ever?", "Run “Empty bin”?"]
    assert [(wait.id, wait.tags) for wait in waits] == [
        ("confirm-delete", ["danger"]),
        ("confirm-empty", ["danger"]),
    ]
    assert await fates_of("find move delete empty") == {
        "find": "done",
        "move": "done",
        "delete": "waiting",
        "empty": "waiting",
    }


def test_an_agent_that_may_ask_nobody_is_refused(archive):
    """An agent that may not ask raises DefinitionError for a tool with approval, and so does an external tool with a confirmation."""
    with pytest.raises(DefinitionError, match="interrupts_allowed=True"):
        App(agents=[Agent("archive.test", planner=archive.tidy, uses=[archive.files])])
    with pytest.raises(DefinitionError, match="leave out confirmation"):
        Toolset("archive.outside", external=True).declare(
            "burn", args=dict[str, str], result=str, confirmation="Burn?"
        )


@by_both
async def test_the_page_decides(asked, archive):
    """The calls that the page's function approves run; those that it denies do not, and their results hold the reason."""
    run, waits = await asked("delete delete-new", count=2)
    await archive.decide(run.client, run.id)
    assert (await run.result()).text == "a.old is gone | denied: only .old files may go"
    events = [event async for event in run.events()]
    decided = [event for event in events if event.type == "await_answered"]
    assert [(event.approved, event.by, event.text) for event in decided] == [
        (True, "ana", "it was copied"),
        (False, "ana", "only .old files may go"),
    ]
    assert all(event.identity for event in decided)
    assert {event.turn_id for event in events} == {"t1"}
    (denied,) = [event.result for event in events if event.type == "tool_end" and event.result.error]
    assert (denied.error.code, denied.retry_hint) == ("denied", None)
    assert [event.confirmation for event in events if event.type == "await_confirmation"] == waits


@by_both
async def test_a_bad_call_needs_no_approval(fates_of):
    """A call with a bad payload fails without an approval."""
    assert await fates_of("delete-nothing") == {"delete-nothing": "failed"}


async def test_a_decision_is_used_once(asked):
    """A repeated decision changes nothing, and another decision is refused."""
    run, (first, _) = await asked("delete empty", count=2)
    assert await run.approve(first.id) == await run.approve(first.id) == "confirm-delete"
    with pytest.raises(AwaitClosed):
        await run.deny(first.id)
    await run.deny(None)
    assert (await run.result()).text == "a.old is gone | denied: it was not approved"


async def test_a_decision_that_does_not_come_in_time(serve, archive, monkeypatch):
    """A call without a decision within `expires_after` is denied."""
    approval = ApprovalPolicy(expires_after=archive.timedelta(seconds=0.3))
    archive.archivist.policy = RunPolicy(interrupts_allowed=True, approval=approval)
    client = await serve(archive.app)
    assert (await client.execute("archive.archivist", "delete")).text == "denied: nobody approved it in time"


@pytest.mark.parametrize("how", ["approval", "family", "tag"])
async def test_stop_asking(asked, how):
    """Open calls of a tool, family or tag that is approved for the rest of the run are executed at once."""
    run, waits = await asked("delete delete-new empty", count=3)
    if how == "approval":
        await run.approve(waits[0].id, for_run=True)
        await run.deny(None)
    elif how == "family":
        await run.stop_asking(["archive.files.*"], by="ana")
    else:
        await run.stop_asking(tags=["danger"], by="ana")
    last = "denied: it was not approved" if how == "approval" else "the bin is empty"
    assert (await run.result()).text == f"a.old is gone | a.txt is gone | {last}"


@pytest.mark.parametrize(
    ("index", "text"),
    [(0, "a.old is gone"), (1, "denied: not today"), (2, "a.old is gone"), (3, "a.old is gone")],
    ids=["approve", "deny", "for the run", "stop asking"],
)
async def test_the_lines_of_the_page_decide(asked, temporal, lines, index, text):
    """Each signal of the page, sent with the `temporal` command, is a decision."""
    run, (wait,) = await asked("delete")
    line = lines("approvals.md", "temporal workflow signal")[index]
    status, _ = await temporal(line.replace("DIGEST", wait.payload_digest), run)
    assert status == 0
    assert (await run.result()).text == text


@by_both
async def test_the_query_of_the_page_shows_the_whole_call(asked, temporal, lines):
    """The query returns prompt, tool, arguments and the digest, and another digest is refused."""
    run, (wait,) = await asked("delete")
    (line,) = lines("approvals.md", "--type approval")
    status, printed = await temporal(line, run)
    assert status == 0
    for part in ("Delete a.old for ever?", "archive.files.delete", 'path = \\"a.old\\"', wait.payload_digest):
        assert part in printed
    with pytest.raises(InvalidInput, match="other arguments"):
        await run.approve(wait.id, payload_digest="another")
    await run.deny(wait)


@by_both
async def test_a_decision_names_its_payload(asked, traces):
    """A decision with another digest, or without one, is refused and becomes a note."""
    run, (wait,) = await asked("delete")
    handle = traces(run).handle
    await handle.signal("provide_confirmation", {"approved": True, "payload_digest": "another"})
    assert "other arguments" in (await run.status()).notes[0]
    await handle.signal("provide_confirmation", {"approved": True})
    assert wait.payload_digest in (await run.status()).notes[1]
    await handle.signal("provide_confirmation", {"approved": True, "payload_digest": wait.payload_digest})
    assert (await run.result()).text == "a.old is gone"


async def test_a_tool_that_changed_since_does_not_run(temporal_address, module_of, status_when):
    """An approval holds only for the tool as it was shown; then a person is asked again."""
    archive = module_of("approvals.md", "archive")
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(archive.app, client):
        run = await client.start("archive.archivist", "delete")
        await status_when(run, lambda status: status.awaits)
    tool = archive.files.tools["delete"]
    tool.spec = tool.spec.model_copy(
        update={"annotations": tool.spec.annotations.model_copy(update={"open_world": True})}
    )
    async with Worker(archive.app, client):
        with pytest.raises(ApprovalVoid) as void:
            await run.approve()
        (again,) = (await run.status()).awaits
        assert (void.value.await_id, void.value.changes) == (again.id, again.changes)
        assert (again.id, again.changes) == ("confirm-delete#2", ["open_world: not declared → yes"])
        await run.approve(again)
        assert (await run.result()).text == "a.old is gone"


EVERY = "find move delete empty"
DENIED, ASKED, RUNS = "denied", "waiting", "done"


@pytest.mark.parametrize(
    ("approval", "fates"),
    [
        (ApprovalPolicy(), [RUNS, RUNS, ASKED, ASKED]),
        (ApprovalPolicy.unattended(), [RUNS] * 4),
        (ApprovalPolicy.supervised(), [RUNS, ASKED, ASKED, ASKED]),
        (ApprovalPolicy.read_only(), [RUNS, DENIED, DENIED, DENIED]),
        (ApprovalPolicy(asks_for="everything"), [RUNS, ASKED, ASKED, ASKED]),
        (ApprovalPolicy(asks_for="everything", read_only_runs=False), [ASKED] * 4),
        (
            ApprovalPolicy(denied_tags=["danger"], run_tools=["*"], asks_for="everything"),
            [RUNS, RUNS, DENIED, DENIED],
        ),
        (ApprovalPolicy(run_tags=["danger"], asks_for="changes"), [RUNS, ASKED, RUNS, RUNS]),
    ],
    ids=[
        "default",
        "unattended",
        "supervised",
        "read only",
        "everything",
        "really everything",
        "denied first",
        "named ones run",
    ],
)
async def test_the_first_layer_that_fits_decides(fates_of, approval, fates):
    """The first matching layer of a policy decides; the presets decide as the page says."""
    assert list((await fates_of(EVERY, approval=approval)).values()) == fates


async def test_the_agents_of_the_page(fates_of):
    """The curator asks about the calls that its lists do not decide; the reader denies calls that change something."""
    assert list((await fates_of(EVERY, agent="archive.curator")).values()) == [RUNS, RUNS, ASKED, DENIED]
    assert list((await fates_of(EVERY, agent="archive.reader")).values()) == [RUNS, DENIED, DENIED, DENIED]


async def test_an_override_makes_it_stricter(fates_of):
    """A call that policy or override denies is denied, and a call runs without approval only if both allow it."""
    override = RunPolicyOverride(approval=ApprovalPolicy(denied_tools=["archive.files.delete"]))
    fates = await fates_of(EVERY, agent="archive.curator", override=override)
    assert list(fates.values()) == [RUNS, ASKED, DENIED, DENIED]


async def test_a_call_is_denied_if_nobody_may_be_asked(fates_of):
    """With `interrupts_allowed=False` calls that need approval are denied, and the rest of the plan runs."""
    fates = await fates_of(EVERY, override=RunPolicyOverride(interrupts_allowed=False))
    assert list(fates.values()) == [RUNS, RUNS, DENIED, DENIED]


@pytest.mark.parametrize("asks_for", ["marked", "changes"])
@pytest.mark.parametrize("declared", [{"read_only": True}, {"destructive": True}], ids=str)
def test_annotations_of_an_mcp_server_count_only_if_trusted(archive, declared, asks_for):
    """A tool of an untrusted MCP server counts as one without annotations; the app's own declaration counts."""
    approval, call = ApprovalPolicy(asks_for=asks_for), archive.CALLS[1]
    spec = archive.move.spec.model_copy(update={"annotations": Annotations(**declared), "kind": "mcp"})

    def fate(**changes) -> str:
        changed = spec.model_copy(update=changes)
        return judge(changed, call, approval, None, interrupts_allowed=True).kind

    undeclared = judge(archive.move.spec, call, approval, None, interrupts_allowed=True).kind
    assert fate(trusted=False) == undeclared
    assert fate(trusted=True) == ("run" if "read_only" in declared else "ask")
    assert fate(trusted=False, confirmation="Sure?") == "ask"


@by_both
async def test_the_policy_engine_of_the_page(fates_of, archive):
    """The page's engine approves the deletion of an old file, and requires approval for a call that only reads."""
    fates = await fates_of("find delete delete-new", app=archive.engaged)
    assert fates == {"find": ASKED, "delete": RUNS, "delete-new": ASKED}
    assert (
        await archive.OldFiles().decide(archive.PolicyInput.model_construct(requested=[])) == PolicyDecision()
    )


def test_the_tables_are_those_of_the_code(rows):
    """The tables have every field of `ApprovalPolicy`, every value of `asks_for`, and the presets as the code makes them."""
    layers = rows("approvals.md", "## The policy, layer by layer")
    named = [name for cells in layers for name in re.findall(r"`(\w+)`", cells[1])]
    fields = set(ApprovalPolicy.model_fields) - {
        "expires_after",
        "allows_edits",
        "approvals",
        "escalate_after",
        "escalate_to",
        "on_message",
        "tainted",
    }
    assert fields <= set(named)
    assert set(named) - fields == {"marked", "turn", "interrupts_allowed"}
    words = [re.findall(r"`(\w+)`", cells[0])[0] for cells in rows("approvals.md", "all as `*`.")]
    assert words == ["nothing", "marked", "changes", "everything"]
    words = [
        re.findall(r"`(\w+)`", cells[0])[0]
        for cells in rows("approvals.md", "limit what such a tool may reach")
    ]
    assert set(words) == set(get_args(Tainted))
    for cells in rows("approvals.md", "really everything |"):
        expression, arguments = re.findall(r"`(.+?)`", cells[0])[0], re.findall(r"`(.+)`", cells[1])
        preset = eval(expression, {"ApprovalPolicy": ApprovalPolicy})
        assert preset == eval(
            f"ApprovalPolicy({arguments[0] if arguments else ''})", {"ApprovalPolicy": ApprovalPolicy}
        )


async def test_a_reason_that_is_too_long(asked):
    """A reason of more than 2,000 characters raises InvalidInput, and the call still waits."""
    run, _ = await asked("delete")
    with pytest.raises(InvalidInput):
        await run.deny(None, "x" * 2_001)
    await run.approve()
    assert (await run.result()).text == "a.old is gone"


async def test_the_arguments_of_a_call_are_corrected(asked, archive, capsys):
    """The page's function approves a call with another path, and prints what does not fit while the call waits on."""
    run, (wait,) = await asked("delete")
    await archive.correct(run.client, run.id, 7)
    assert capsys.readouterr().out == "/path must be a string, not an integer\n"
    assert [each.id for each in (await run.status()).awaits] == [wait.id]
    await archive.correct(run.client, run.id, "b.old")
    assert (await run.result()).text == "b.old is gone"


async def test_the_recipe_of_four_eyes(serve, archive, capsys):
    """Neither the asker, nor a role that only the tool names, nor `approver` approves; the keeper does, and the tool learns who."""
    client = await serve(archive.app)
    assert await archive.four_eyes(client) == "box 7 is gone, approved by kim"
    told = [line.partition(": ")[2] for line in capsys.readouterr().out.splitlines()]
    assert told == [
        "ana asked for this call, which takes the approval of another person",
        "dan does not have the role keeper",
        "bo does not have the role keeper",
    ]


async def test_two_roles_approve_in_their_order(serve, archive, status_when):
    """Under the page's rule a keeper approves a box first, then a director; the tool learns of both."""
    agent = Agent("archive.payer", planner=archive.clear, uses=[archive.vault], policy=archive.paying)
    client = await serve(App(agents=[agent]))
    run = await client.start("archive.payer", "7", principal=person("ana", "user"))
    (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
    with pytest.raises(NotApprover, match="does not have the role keeper, which approves next"):
        await run.approve(wait, principal=person("dan", "director"))
    await run.approve(wait, principal=person("kim", "keeper"))
    await run.approve(wait, principal=person("dan", "director"))
    assert (await run.result()).text == "box 7 is gone, approved by dan"


async def test_many_calls_are_decided_each_by_itself(serve, archive, status_when):
    """The function of the page approves the old file, denies the new one, and names what another person decided first."""
    client = await serve(archive.app)
    runs = [await client.start("archive.archivist", call) for call in ("delete", "delete-new", "delete")]
    for run in runs:
        await status_when(run, lambda status: status.awaits)
    stale = await archive.keep_all_but_old(client, [run.id for run in runs[:2]])
    assert stale == []
    assert [(await run.result()).text for run in runs[:2]] == [
        "a.old is gone",
        "denied: it was not approved by ana",
    ]
    (late,) = (await runs[2].status()).awaits
    decided = [(archive.WaitRef(runs[2].id, late.id, late.payload_digest), archive.Decision(approved=True))]
    await runs[2].deny(late, by="kim")
    (result,) = await archive.decide_each(client, decided, by="ana")
    assert "already denied by kim" in str(result.error)


async def test_the_planner_of_the_page_answers_while_its_call_waits(serve, archive, status_when):
    """It finds the person's message before Sojourn's notice, and tells the result once the call was decided."""
    client = await serve(App(agents=[archive.keeper]))
    session = client.session("archive.keeper", uuid.uuid4().hex, principal=person("ana", "user"))
    turn = await session.send("a.txt")
    (wait,) = (await status_when(session.run, lambda status: status.awaits)).awaits
    await session.send("Why?")
    async for event in session.events():
        if event.type == "interim_answer":
            break
    assert event.message.text == "You asked: Why? The deletion of a.txt waits for an approval."
    await session.run.approve(wait, principal=person("kim", "approver"))
    assert (await turn.result()).text == "a.txt is gone"


async def test_text_from_outside_makes_a_person_decide(serve, archive, status_when):
    """The sweeper empties the bin without asking until it has read a page; then the wait names the page."""
    page, empty = archive.fetch.call(url="example.org"), ToolRequest(name=archive.empty_bin.id)
    steps = [
        PlanResult.calls(empty),
        PlanResult.calls(page),
        PlanResult.calls(empty),
        PlanResult.final("done"),
    ]
    archive.sweeper.planner = ScriptedPlanner(steps)
    run = await (await serve(archive.app)).start("archive.sweeper", "sweep")
    (wait,) = (await status_when(run, lambda status: bool(status.awaits))).awaits
    assert [source.tool for source in wait.taint.sources] == ["archive.pages.fetch"]
    await run.approve(wait)
    assert (await run.result()).tool_calls == 3
