"""Approvals with edited arguments: they are checked before anything is decided, and are what runs and what all read."""

import asyncio
import hashlib
import json
import uuid

import pytest
from pydantic import BaseModel, Field, SecretStr, field_validator
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowUpdateFailedError
from temporalio.worker import UnsandboxedWorkflowRunner
from temporalio.worker import Worker as TemporalWorker

from sojourn import (
    Agent,
    AgentTool,
    App,
    ApprovalPolicy,
    Client,
    InvalidInput,
    PlanResult,
    Principal,
    RunPolicy,
    RunPolicyOverride,
    ToolCallMeta,
    ToolFailed,
    ToolRequest,
    Toolset,
    Turn,
    Worker,
)
from sojourn.answers import Decision, submit, wait_view
from sojourn.errors import AlreadyAnswered, ApprovalVoid, AwaitClosed, EditRefused, NotApprover
from sojourn.values.wire import encode_readable
from sojourn.worker import shell

ANA = Principal(subject="ana", tenant="acme", roles=["approver"])
BEN = Principal(subject="ben", tenant="acme", roles=["approver"])


class Letter(BaseModel):
    to: str = Field(pattern="@")
    amount: int = Field(default=1, le=500)
    note: str | None = None
    password: SecretStr | None = None

    @field_validator("to")
    @classmethod
    def _known(cls, to: str) -> str:
        if to == "nobody@x":
            raise ValueError("this address is blocked")
        return to


class DeskLetter(Letter):
    desk: str


SENT: list[tuple[str, dict, ToolCallMeta]] = []
"""Every letter that was sent: its run, its arguments and its meta."""


async def deliver(letter: Letter, meta: ToolCallMeta) -> str:
    secret = letter.password and letter.password.get_secret_value()
    SENT.append((meta.run_id, {**letter.model_dump(), "password": secret}, meta))
    if letter.note == "fail":
        raise ToolFailed("the mailbox is full")
    if letter.note == "break":
        raise RuntimeError("the answer was lost")
    return f"sent {letter.amount} to {letter.to}"


def may_send(principal: Principal, request: ToolRequest, _wait) -> bool:
    """Let ana approve at most 100."""
    return principal.subject == "ben" or request.payload["amount"] <= 100


def mail_of(**options) -> Toolset:
    """The tools of a release."""
    mail = Toolset("desk.mail", description="Mail")

    @mail.tool(
        destructive=True,
        inject={"desk": lambda _: "desk-1"},
        confirmation="Send {amount} to {to}?",
        **options,
    )
    async def send(letter: DeskLetter, meta: ToolCallMeta) -> str:
        """Send."""
        return await deliver(letter, meta)

    @mail.tool(approvers=may_send, idempotent=True, local=True)
    async def judged(letter: Letter, meta: ToolCallMeta) -> str:
        """Send what a function judges."""
        return await deliver(letter, meta)

    @mail.tool(destructive=True, allows_edits=False)
    async def fixed(letter: Letter, meta: ToolCallMeta) -> str:
        """Send what no approver edits."""
        return await deliver(letter, meta)

    return mail


async def plan(turn: Turn) -> PlanResult:
    """Make the calls that the newest message lists, and report what the planner reads of each."""
    made = [call for message in turn.messages for call in message.tool_calls]
    wanted = json.loads(turn.messages[0].text)
    if len(made) < len(wanted):
        name, payload = wanted[len(made)]
        return PlanResult.calls(ToolRequest(name=name, payload=payload))
    read = [[str(each.error or each.result), each.edited_arguments] for each in turn.results]
    return PlanResult.final(json.dumps(read))


ASKS = RunPolicy(interrupts_allowed=True)
PAIR = RunPolicy(interrupts_allowed=True, approval=ApprovalPolicy(approvals=2))
FIXED = RunPolicy(interrupts_allowed=True, approval=ApprovalPolicy(allows_edits=False))
secretary = Agent("desk.writer", planner=plan)
writer = secretary.export(
    "desk.agents", tools=[AgentTool("write", args=Letter, user="{to}", confirmation="Write?")]
)


def release(**options) -> App:
    mail = mail_of(**options)
    agents = [
        secretary,
        Agent("desk.clerk", planner=plan, uses=[mail, writer], policy=ASKS),
        Agent("desk.fixed", planner=plan, uses=[mail], policy=FIXED),
        Agent("desk.pair", planner=plan, uses=[mail], policy=PAIR),
    ]
    return App(agents=agents)


@pytest.fixture
async def asked(serve, status_when):
    """Start a run with these calls, and wait for what it asks first."""
    client = await serve(release())

    async def start(*calls, agent="clerk", **more):
        text = json.dumps([[f"desk.{name}", payload] for name, payload in calls])
        run = await client.start(f"desk.{agent}", text, principal=ANA, **more)
        (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
        return run, wait

    return start


def sent_by(run):
    return [arguments for run_id, arguments, _ in SENT if run_id == run.id]


async def told(run):
    return json.loads((await run.result()).text)


FIRST = {"to": "a@x", "amount": 5, "note": "hello"}


@pytest.mark.parametrize("tool", ["mail.send", "mail.judged"], ids=["by a worker", "locally"])
async def test_the_edited_call_is_what_runs_and_what_everyone_reads(asked, traces, tool):
    """It runs once with a digest and a key of its own; history, planner and tool say who edited it, and from what to what."""
    run, wait = await asked((tool, FIRST))
    assert wait.allows_edits
    edited = {"to": "b@x", "amount": 7}
    await run.approve(wait, principal=BEN, arguments=edited, reason="the other one")
    assert await told(run) == [["sent 7 to b@x", edited]]
    ((_, arguments, meta),) = [each for each in SENT if each[0] == run.id]
    assert (arguments["to"], arguments["amount"], arguments["note"]) == ("b@x", 7, None)
    digest = hashlib.sha256(encode_readable(edited)).hexdigest()
    assert (meta.approval.digest, meta.approval.edited, meta.approval.subject) == (digest, True, "ben")
    call_id = wait.tool_call_id
    assert meta.idempotency_key != ToolCallMeta.key_of(
        run.id, ToolRequest(name="", payload=FIRST, tool_call_id=call_id)
    )
    events = [event async for event in run.events()]
    asked_for = next(each for each in events if each.type == "await_confirmation").confirmation
    answered = next(each for each in events if each.type == "await_answered")
    start = next(each for each in events if each.type == "tool_start")
    end = next(each for each in events if each.type == "tool_end")
    assert (asked_for.payload, answered.edited_arguments) == (FIRST, edited)
    assert (answered.by, answered.principal, answered.approved) == ("ben", BEN, True)
    assert (start.call.payload, end.result.edited_arguments) == (edited, edited)
    (planned,) = [call for message in await run.transcript() for call in message.tool_calls]
    assert planned.payload == FIRST  # as the planner wrote it
    await traces(run).check()


REFUSED = [
    ({**FIRST, "amount": 501}, "/amount", "must be at most 500"),
    ({**FIRST, "amount": "many"}, "/amount", "must be an integer"),
    ({"amount": 5}, "/to", "is required"),
    ({**FIRST, "cc": "c@x"}, "/cc", "is not a known field"),
    ({**FIRST, "to": "nobody@x"}, "", "does not pass the tool's own validators"),
    ({**FIRST, "desk": "desk-2"}, "/desk", "is filled in when the call runs"),
]


async def test_an_edit_that_does_not_fit_is_refused_by_field_and_changes_nothing(asked, status_when, traces):
    """Schema, the author's own validator, unknown and injected fields: update and signal are refused, and the call waits as it was."""
    run, wait = await asked(("mail.send", FIRST))
    for arguments, field, why in REFUSED:
        with pytest.raises(EditRefused, match=why) as refused:
            await run.approve(wait, arguments=arguments)
        assert [each["field"] for each in refused.value.faults] == [field]
    with pytest.raises(
        InvalidInput, match=r"has 70,\d\d\d bytes, and those of this call may have at most 64,\d\d\d"
    ):
        await run.approve(wait, arguments={**FIRST, "note": "x" * 70_000})
    bound = {"id": wait.id, "payload_digest": wait.payload_digest, "approved": True}
    await traces(run).handle.signal("provide_confirmation", {**bound, "arguments": REFUSED[0][0]})
    status = await status_when(run, lambda status: status.notes)
    assert "`amount` must be at most 500" in status.notes[0]
    assert (status.awaits, sent_by(run)) == ([wait], [])
    for sent, why in (
        ({**bound, "arguments": "to=b@x"}, "is an object"),
        ({**bound, "arguments": {}, "scope": "tool"}, "approval of one call"),
        ({**bound, "approved": False, "arguments": {}}, "approval of one call"),
        ({**bound, "edited_action": {}}, "edited arguments are `arguments`"),
    ):
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await traces(run).handle.execute_update("provide_confirmation", sent)
        assert why in str(refused.value.cause)
    await traces(run).handle.signal(
        "provide_confirmation", {**bound, "by": "ana", "arguments": {"to": "b@x"}}
    )
    assert await told(run) == [["sent 1 to b@x", {"to": "b@x"}]]
    events = [event async for event in run.events()]
    assert [event.edited_arguments for event in events if event.type == "await_answered"] == [{"to": "b@x"}]
    await traces(run).check()


async def test_the_tools_own_function_judges_the_edited_call(asked, traces):
    """Who may approve 5 may not raise it to 300; who may approve 300 does."""
    run, wait = await asked(("mail.judged", FIRST))
    with pytest.raises(NotApprover, match="ana may not decide on this call, says may_send"):
        await run.approve(wait, principal=ANA, arguments={**FIRST, "amount": 300})
    with pytest.raises(EditRefused, match="at most 500"):
        await run.approve(wait, principal=ANA, arguments={**FIRST, "amount": 501})
    with pytest.raises(EditRefused, match="blocked") as refused:
        await run.approve(wait, principal=ANA, arguments={**FIRST, "to": "nobody@x"})
    assert [each["field"] for each in refused.value.faults] == ["/to"]
    with pytest.raises(NotApprover):
        await run.approve(wait, arguments={**FIRST, "amount": 6})
    await run.approve(wait, principal=BEN, arguments={**FIRST, "amount": 300})
    assert [each["amount"] for each in (sent_by(run) if await told(run) else [])] == [300]
    await traces(run).check()


@pytest.mark.parametrize(
    ("call", "more"),
    [
        (("mail.fixed", FIRST), {}),
        (("mail.send", FIRST), {"agent": "fixed"}),
        (("mail.send", FIRST), {"policy": RunPolicyOverride(approval=ApprovalPolicy(allows_edits=False))}),
        (("agents.write", FIRST), {}),
    ],
    ids=["the tool", "the policy", "the run's own limits", "an agent's call"],
)
async def test_a_tool_or_a_policy_forbids_edits(asked, call, more):
    """The wait says so, an edit is refused with what to do instead, and the call can still be decided."""
    run, wait = await asked(call, **more)
    assert not wait.allows_edits
    with pytest.raises(InvalidInput, match="deny the call, with a reason"):
        await run.approve(wait, arguments={**FIRST, "amount": 6})
    await run.deny(wait, "not so much")
    assert await told(run) == [["denied: not so much", None]]


async def test_the_same_edit_again_is_the_same_answer(asked):
    """Before and after the run's end; another one, or none, is told who decided what, and a plain approval is no edit."""
    run, wait = await asked(("mail.send", FIRST), ("mail.send", {"to": "z@x"}))
    view, edited = wait_view(wait, run.id), {"to": "b@x", "amount": 7}
    decision = Decision(approved=True, digest=view.digest, arguments=edited)
    assert (await submit(run, BEN, view, decision)).outcome == "approved"
    again = Decision(approved=True, digest=view.digest, arguments=dict(reversed(edited.items())))
    assert (await submit(run, BEN, view, again)).await_id == wait.id
    others = [
        Decision(approved=True, digest=view.digest, arguments={"to": "c@x"}),
        Decision(approved=True, digest=view.digest),
        Decision(approved=False, digest=view.digest),
    ]
    for ended in (False, True):
        if ended:
            second = (await run.status()).awaits[0]
            await run.approve(second, by="ana", arguments={"to": "z@x", "amount": 1})
            await run.result()
        assert (await submit(run, BEN, view, decision)).already
        for other in others:
            with pytest.raises(AwaitClosed, match="was already approved with changes by ben at"):
                await submit(run, BEN, view, other)
    assert await told(run) == [["sent 7 to b@x", edited], ["sent 1 to z@x", None]]


async def test_planners_do_not_read_secrets_of_an_edit(asked, traces):
    """A secret value stays masked for the planner, and the tool gets it."""
    run, wait = await asked(("mail.send", {**FIRST, "password": "old-secret"}))
    await run.approve(wait, by="ana", arguments={**FIRST, "password": "new-secret"})
    assert await told(run) == [["sent 5 to a@x", {**FIRST, "password": "[password]"}]]
    assert [each["password"] for each in sent_by(run)] == ["new-secret"]
    assert "new-secret" not in "".join(message.model_dump_json() for message in await run.transcript())
    await traces(run).check()


async def test_a_failed_call_says_what_ran(asked):
    """An error of an edited call comes with its arguments; a later equal call repeats the effect of the edited one, not of the planned."""
    edited = {"to": "b@x", "note": "break"}
    run, wait = await asked(("mail.send", FIRST), ("mail.send", FIRST), ("mail.send", edited))
    await run.approve(wait, by="ana", arguments=edited)
    seen = [wait]
    while len(seen) < 3:
        (await_now,) = [each for each in (await run.status()).awaits if each.id != seen[-1].id] or [None]
        if await_now:
            seen.append(await_now)
            await run.approve(await_now, by="ana")
    read = await told(run)
    assert [each[1] for each in read] == [edited, None, None]
    assert [wait.outcome_unknown for wait in seen] == [False, False, True]
    first, second, third = [meta.idempotency_key for run_id, _, meta in SENT if run_id == run.id]
    assert first == third != second


async def test_a_masked_edit_is_known_when_it_comes_again(asked, status_when):
    """Its outcome is unknown, and the transcript has no secret: the same call later has its key, and its approver reads that."""
    edited = {"to": "b@x", "note": "break", "password": "s3cret"}
    run, wait = await asked(
        ("mail.send", FIRST), ("mail.send", {**edited, "password": "other"}), ("mail.send", edited)
    )
    await run.approve(wait, by="ana", arguments=edited)
    waits = [wait]
    while len(waits) < 3:
        status = await status_when(run, lambda status: status.awaits and status.awaits[0].id != waits[-1].id)
        waits.append(status.awaits[0])
        await run.approve(waits[-1], by="ana")
    await told(run)
    assert [each.outcome_unknown for each in waits] == [False, False, True]
    first, other, again = [meta.idempotency_key for run_id, _, meta in SENT if run_id == run.id]
    assert first == again != other


async def test_an_edit_that_comes_again_is_known_as_it_was_sent(asked, status_when):
    """The run compares what was sent, and the record has arguments with their defaults: the repetition is a success all the same."""
    run, wait = await asked(("mail.send", {"to": "a@x"}), ("mail.send", FIRST))
    edit = {**wait.payload, "note": None}
    await run.approve(wait, by="ana", arguments=edit)
    await status_when(run, lambda status: status.awaits and status.awaits[0].id != wait.id)
    again = await run.approve(wait, by="ana", arguments=edit)
    assert (again.already, again.by) == (True, "ana")
    with pytest.raises(AlreadyAnswered):
        await run.approve(wait, by="ana", arguments={**edit, "amount": 3})
    await run.cancel()


async def test_no_edit_repeats_a_call_that_may_have_taken_effect(asked, status_when, traces):
    """Its approver has read no warning, and it would have another key: it is refused, there and back again too."""
    broken = {"to": "b@x", "note": "break"}
    run, wait = await asked(("mail.send", broken), ("mail.send", FIRST), ("mail.send", broken), agent="pair")
    for principal in (ANA, BEN):
        await run.approve(wait, principal=principal)
    second = (await status_when(run, lambda status: status.awaits and status.awaits[0].id != wait.id)).awaits[
        0
    ]
    with pytest.raises(EditRefused, match="another call, which may have taken effect"):
        await run.approve(second, principal=ANA, arguments={**broken, "amount": 1.0})
    for principal in (ANA, BEN):
        await run.approve(second, principal=principal)
    third = (
        await status_when(run, lambda status: status.awaits and status.awaits[0].id != second.id)
    ).awaits[0]
    await run.approve(third, principal=ANA, arguments={"to": "c@x"})
    (edited,) = (await run.status()).awaits
    assert (second.outcome_unknown, third.outcome_unknown, edited.outcome_unknown) == (False, True, False)
    with pytest.raises(EditRefused, match="another call, which may have taken effect"):
        await run.approve(edited, principal=BEN, arguments=broken)
    await run.approve(edited, principal=BEN)
    await told(run)
    assert [each["to"] for each in sent_by(run)] == ["b@x", "a@x", "c@x"]
    await traces(run).check()


async def test_a_tool_that_changed_meanwhile_asks_again_about_the_edited_call(
    temporal_address, status_when, traces
):
    """The edit is not lost: the new wait shows it, and the call runs with it once it is approved."""
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(release(), client):
        run = await client.start("desk.clerk", json.dumps([["desk.mail.send", FIRST]]))
        (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
    async with Worker(release(idempotent=False), client):
        with pytest.raises(ApprovalVoid, match="idempotent"):
            await run.approve(wait, by="ana", arguments={"to": "b@x"})
        (again,) = (await status_when(run, lambda status: status.awaits)).awaits
        assert (again.payload, again.allows_edits, bool(again.changes)) == ({"to": "b@x"}, True, True)
        await run.approve(again, by="ben")
        assert await told(run) == [["sent 1 to b@x", {"to": "b@x"}]]
        await traces(run).check()
    assert [each["to"] for each in sent_by(run)] == ["b@x"]


async def test_an_early_signal_is_judged_and_checked_like_any_other(
    temporal_address, until, status_when, traces
):
    """Signals that reach the run in the workflow task that opens the waits: no edit counts unchecked, and no sender unjudged."""
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    planned, go = asyncio.Event(), asyncio.Event()
    calls = [
        ToolRequest(name="desk.mail.send", payload=FIRST, tool_call_id="c1"),
        ToolRequest(name="desk.mail.judged", payload={**FIRST, "amount": 300}, tool_call_id="c2"),
        ToolRequest(name="desk.mail.send", payload=FIRST, tool_call_id="c3"),
    ]

    async def plan_late(turn: Turn) -> PlanResult:
        if turn.tool_results:
            return PlanResult.final("done")
        planned.set()
        await go.wait()
        return PlanResult.calls(*calls)

    app = App(agents=[Agent("desk.late", planner=plan_late, uses=[mail_of()], policy=ASKS)])
    parts = shell(app)
    options = {"task_queue": client.task_queue, "workflow_runner": UnsandboxedWorkflowRunner()}
    async with TemporalWorker(client.temporal, activities=parts.activities, task_queue=client.task_queue):
        async with TemporalWorker(client.temporal, workflows=parts.workflows, **options):
            run = await client.start("desk.late", "go")
            await planned.wait()
        go.set()
        handle = traces(run).handle
        await until(lambda: has_planned(traces(run)))
        edits = [{"to": "b@x"}, None, {"to": 7}]
        for call, edit in zip(calls, edits, strict=True):
            digest = hashlib.sha256(encode_readable(call.payload)).hexdigest()
            sent = {"id": f"confirm-{call.tool_call_id}", "approved": True, "payload_digest": digest}
            sent |= {"principal": ANA.model_dump()} | ({"arguments": edit} if edit else {})
            await handle.signal("provide_confirmation", sent)
        async with TemporalWorker(client.temporal, workflows=parts.workflows, **options):
            status = await status_when(run, lambda status: len(status.notes) == 2 and len(status.awaits) == 2)
            assert {wait.tool_call_id for wait in status.awaits} == {"c2", "c3"}
            assert "may not decide on this call, says may_send" in " ".join(status.notes)
            assert "`to` must be a string" in " ".join(status.notes)
            for wait in status.awaits:
                await run.deny(wait, principal=BEN)
            assert (await run.result()).text == "done"
            await traces(run).check()
    assert [each["to"] for each in sent_by(run)] == ["b@x"]


async def has_planned(traces) -> bool:
    return await traces.count(EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED) > 0
