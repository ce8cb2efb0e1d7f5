"""Approvals: a person decides before a call runs; what was shown is what runs, and each decision is used once."""

import asyncio
import hashlib
import uuid
from dataclasses import replace
from datetime import timedelta

import pytest
from pydantic import BaseModel, field_validator
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowUpdateFailedError

import sojourn.worker
from sojourn import (
    Agent,
    AgentTool,
    App,
    ApprovalPolicy,
    AwaitClosed,
    AwaitConfirmation,
    Client,
    InvalidInput,
    PlanResult,
    Run,
    RunPolicy,
    RunPolicyOverride,
    ToolRequest,
    Toolset,
    Worker,
)
from sojourn.core.run import approval
from sojourn.errors import ApprovalVoid, DefinitionError, StaleDigest
from sojourn.testing.scripted import ScriptedPlanner
from sojourn.values.wire import encode_readable

ASKS = RunPolicy(interrupts_allowed=True)


class Wipe(BaseModel):
    disk: str

    @field_validator("disk")
    @classmethod
    def _known(cls, disk: str) -> str:
        if disk == "c":
            raise ValueError("not this one")
        return disk


class Tools:
    """A toolset that records its executed calls."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.tools = Toolset("test.disks")

        @self.tools.tool(destructive=True, tags=["danger"], confirmation="Wipe disk {disk}?")
        async def wipe(args: Wipe) -> str:
            """Destroy."""
            self.done.append(args.disk)
            return f"wiped {args.disk}"

        @self.tools.tool(destructive=True)
        async def format_all() -> str:
            """Destroy more."""
            self.done.append("all")
            return "formatted"

        @self.tools.tool(read_only=True)
        async def look(disk: str = "a") -> str:
            """Read."""
            self.done.append(f"look {disk}")
            return disk


def wipe(disk: str, **fields) -> ToolRequest:
    return ToolRequest(name="test.disks.wipe", payload={"disk": disk}, **fields)


LOOK = ToolRequest(name="test.disks.look", payload={})


def planner(*steps) -> ScriptedPlanner:
    """A planner that makes these calls, step by step, then answers with their results."""

    def report(turn):
        results = [part for message in turn.messages for part in message.tool_results]
        return PlanResult.final(" | ".join(str(r.error or r.result) for r in results))

    return ScriptedPlanner([*(PlanResult.calls(*calls) for calls in steps), report])


async def test_a_call_waits_until_it_is_approved(serve, status_when, traces):
    """The other calls of its step run meanwhile; the wait shows the payload, and the event who decided."""
    tools = Tools()
    client = await serve(
        planner=planner([wipe("a", tool_call_id="c1"), LOOK]), uses=(tools.tools,), policy=ASKS
    )
    run = await client.start("test.agent", "go")
    status = await status_when(
        run, lambda status: {call.state for call in status.calls} == {"waiting", "done"}
    )
    (wait,) = status.awaits
    assert isinstance(wait, AwaitConfirmation)
    assert (wait.tool, wait.prompt, wait.payload) == ("test.disks.wipe", "Wipe disk a?", {"disk": "a"})
    assert tools.done == ["look a"]
    assert status.status == "waiting"
    assert await run.approve(wait.id, by="ana", reason="it is empty") == wait.id
    assert (await run.result()).text == "wiped a | a"
    assert tools.done == ["look a", "a"]
    events = [event async for event in run.events()]
    kinds = [event.type for event in events]
    asked = events[kinds.index("await_confirmation")]
    answered = events[kinds.index("await_answered")]
    assert asked.confirmation == wait
    assert (answered.await_id, answered.approved, answered.by, answered.text) == (
        wait.id,
        True,
        "ana",
        "it is empty",
    )
    assert answered.identity
    assert kinds.count("tool_start") == kinds.count("tool_end") == 2
    await traces(run).check()


async def test_a_denied_call_does_not_run_and_says_why(serve, status_when, traces):
    """The planner gets the reason; the result has the code `denied` and no hint."""
    tools = Tools()
    client = await serve(planner=planner([wipe("a")]), uses=(tools.tools,), policy=ASKS)
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: status.awaits)
    await run.deny(None, "use disk b", by="ana")
    assert (await run.result()).text == "denied: use disk b"
    assert tools.done == []
    (end,) = [event.result async for event in run.events() if event.type == "tool_end"]
    assert (end.error.code, end.retry_hint) == ("denied", None)
    await traces(run).check()


async def test_many_calls_wait_at_once_and_each_runs_when_it_is_approved(serve, until, status_when, traces):
    """More calls may wait than run at once; decisions arrive in any order, as updates and as signals."""
    tools = Tools()
    calls = [wipe(f"d{n}", tool_call_id=f"c{n}") for n in range(8)]
    client = await serve(
        planner=planner(calls),
        uses=(tools.tools,),
        policy=RunPolicy(interrupts_allowed=True, max_parallel_calls=2),
    )
    run = await client.start("test.agent", "go")
    status = await status_when(run, lambda status: len(status.awaits) == 8)
    ids = {wait.tool_call_id: wait.id for wait in status.awaits}
    await run.approve(ids["c5"])
    await until(lambda: tools.done == ["d5"])
    bound = {"id": ids["c2"], "payload_digest": status.awaits[2].payload_digest}
    await traces(run).handle.signal("provide_confirmation", {**bound, "approved": True, "by": "bob"})
    await until(lambda: tools.done == ["d5", "d2"])
    await asyncio.gather(
        *(run.deny(ids[c]) for c in ("c0", "c1")), *(run.approve(ids[c]) for c in ("c3", "c4", "c6", "c7"))
    )
    out = await run.result()
    assert out.text.split(" | ")[:3] == ["denied: it was not approved"] * 2 + ["wiped d2"]
    assert sorted(tools.done) == ["d2", "d3", "d4", "d5", "d6", "d7"]
    await traces(run).check()


async def test_a_decision_counts_only_for_the_arguments_that_were_seen(serve, status_when, until, traces):
    """A decision without a payload digest, or with that of another call, is refused as update, as signal and by the client."""
    tools = Tools()
    client = await serve(
        planner=planner([wipe("a", tool_call_id="c1"), wipe("b", tool_call_id="c2")]),
        uses=(tools.tools,),
        policy=ASKS,
    )
    run = await client.start("test.agent", "go")
    first, second = (await status_when(run, lambda status: len(status.awaits) == 2)).awaits
    handle = traces(run).handle
    decision = {"id": first.id, "approved": True, "scope": "tool"}
    for sent, reason in (
        (decision, f'"payload_digest": "{first.payload_digest}"'),
        ({**decision, "payload_digest": second.payload_digest}, "other arguments"),
    ):
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await handle.execute_update("provide_confirmation", sent)
        assert reason in str(refused.value.cause)
        await handle.signal("provide_confirmation", sent)
        await until(lambda reason=reason: _noted(run, reason))
    with pytest.raises(InvalidInput, match="other arguments"):
        await run.approve(first.id, payload_digest=second.payload_digest)
    with pytest.raises(InvalidInput, match="other arguments"):
        await run.deny(first.model_copy(update={"payload_digest": second.payload_digest}))
    assert (tools.done, len((await run.status()).awaits)) == ([], 2)
    await run.approve(first, by="ana")
    await run.stop_asking("test.disks.wipe", by="ana")
    assert (await run.result()).text == "wiped a | wiped b"
    assert sorted(tools.done) == ["a", "b"]
    notes = [event.text async for event in run.events() if event.type == "planner_note"]
    assert [note.split(":")[0] for note in notes] == ["answer refused"] * 2 + ["test.disks.wipe"]
    await traces(run).check()


async def _noted(run, reason: str) -> bool:
    return any(reason in note for note in (await run.status()).notes)


async def test_a_released_call_takes_no_decision_on_other_arguments(serve, status_when, until, traces):
    """After `stop_asking` has released a call, an approval of it is refused unless it has the digest of what ran."""
    tools = Tools()
    call = wipe("a", tool_call_id="c1")
    client = await serve(
        planner=planner([call, ToolRequest(name="test.disks.format_all", tool_call_id="c2")]),
        uses=(tools.tools,),
        policy=ASKS,
    )
    run = await client.start("test.agent", "go")
    first, second = (await status_when(run, lambda status: len(status.awaits) == 2)).awaits
    await run.stop_asking(tags=["danger"])
    await until(lambda: tools.done == ["a"])
    assert await run.approve(first) == first.id
    with pytest.raises(StaleDigest, match="other arguments"):
        await run.approve(first.id, payload_digest=second.payload_digest)
    await run.approve()
    assert (await run.result()).text == "wiped a | formatted"
    await traces(run).check()


@pytest.mark.parametrize("decide", [Run.approve, Run.deny])
async def test_a_decision_applies_to_no_later_call(serve, status_when, decide):
    """A decision without an id applies to a call that waits now, not to a call that is planned a moment later."""
    go, done = asyncio.Event(), []
    tools = Toolset("test.disks")

    @tools.tool(destructive=True)
    async def wipe(disk: str) -> str:
        """Wipe."""
        done.append(disk)
        return disk

    async def plan(turn):
        await go.wait()
        return PlanResult.final("end") if len(turn.messages) > 1 else PlanResult.calls(wipe.call(disk="a"))

    client = await serve(planner=plan, uses=(tools,), policy=ASKS)
    run = await client.start("test.agent", "go")
    early = asyncio.create_task(decide(run))
    await asyncio.wait({early}, timeout=5)  # it has looked for a call before one is planned
    go.set()
    with pytest.raises(AwaitClosed, match="no call waits"):
        await early
    (asked,) = (await status_when(run, lambda status: status.awaits)).awaits
    assert done == []
    await run.approve(asked)
    await run.result()
    assert done == ["a"]


async def test_the_query_approval_shows_a_call_in_full(serve, status_when, traces):
    """It returns every field, with invisible characters escaped, and the digest that approves the call."""
    tools = Tools()
    client = await serve(planner=planner([wipe("x\u200b" * 300)]), uses=(tools.tools,), policy=ASKS)
    run = await client.start("test.agent", "go")
    (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
    handle = traces(run).handle
    *_, field, digest = await handle.query("approval", wait.id)
    seen = r"x\u200b" * 300
    assert field == f'disk = "{seen}"'
    assert digest == f"payload_digest: {wait.payload_digest}"
    assert await handle.query("approval") == await handle.query("approval", wait.id)
    assert await handle.query("approval", "another") == ["no such call waits for approval"]
    await run.deny(wait)
    await run.result()


@pytest.mark.parametrize("release", ["approval", "tool", "tag", "all"])
async def test_stop_asking_releases_the_calls_that_wait(serve, status_when, traces, release):
    """An approval `for_run`, and `stop_asking` for a tool, a tag or all, run the calls that wait and later ones."""
    tools = Tools()
    client = await serve(
        planner=planner([wipe("a"), wipe("b")], [wipe("d")]), uses=(tools.tools,), policy=ASKS
    )
    run = await client.start("test.agent", "go")
    status = await status_when(run, lambda status: len(status.awaits) == 2)
    if release == "approval":
        await run.approve(status.awaits[0].id, for_run=True)
    elif release == "tool":
        await run.stop_asking(["test.disks.*"], by="ana")
    else:
        await run.stop_asking(
            *([["*"]] if release == "all" else []), tags="danger" if release == "tag" else []
        )
    assert (await run.result()).text == "wiped a | wiped b | wiped d"
    kinds = [event.type async for event in run.events()]
    assert (kinds.count("await_confirmation"), kinds.count("await_answered")) == (2, 2)
    await traces(run).check()


async def test_calls_are_validated_before_anybody_is_asked(serve, traces):
    """A call that lacks a field, or that a validator of its model refuses, is answered with a hint, and no wait opens."""
    tools = Tools()
    bad = [ToolRequest(name="test.disks.wipe", payload={}), wipe("c")]
    client = await serve(planner=planner(bad), uses=(tools.tools,), policy=ASKS)
    run = await client.start("test.agent", "go")
    await run.result()
    results = [event.result async for event in run.events() if event.type == "tool_end"]
    assert [result.retry_hint.reason for result in results] == ["missing_fields", "invalid_arguments"]
    assert "await_confirmation" not in [event.type async for event in run.events()]
    await traces(run).check()


async def test_with_interrupts_off_a_call_that_needs_approval_is_denied(serve):
    """A run never hangs on a question that nobody may answer."""
    tools = Tools()
    client = await serve(planner=planner([wipe("a"), LOOK]), uses=(tools.tools,), policy=ASKS)
    out = await client.execute("test.agent", "go", policy=RunPolicyOverride(interrupts_allowed=False))
    assert out.text == "denied: a person would have to approve it, and this run may not ask a person | a"
    assert tools.done == ["look a"]


@pytest.mark.parametrize(
    ("approval", "expected"),
    [
        pytest.param(ApprovalPolicy.unattended(), "wiped a | a", id="unattended"),
        pytest.param(ApprovalPolicy(run_tools=["test.disks.*"]), "wiped a | a", id="named tools run"),
        pytest.param(ApprovalPolicy(run_tags=["danger"]), "wiped a | a", id="named tags run"),
        pytest.param(
            ApprovalPolicy.read_only(), "denied: this run's policy does not allow it | a", id="read only"
        ),
        pytest.param(
            ApprovalPolicy(denied_tags=["danger"]), "denied: this run's policy denies it | a", id="denied tag"
        ),
    ],
)
async def test_the_approval_policy_runs_or_denies_calls(serve, approval, expected):
    """A call that the approval policy runs or denies opens no wait."""
    tools = Tools()
    policy = RunPolicy(interrupts_allowed=True, approval=approval)
    client = await serve(planner=planner([wipe("a"), LOOK]), uses=(tools.tools,), policy=policy)
    assert (await client.execute("test.agent", "go")).text == expected


async def test_nobody_decides_in_time(serve, traces):
    """A call that nobody decides on within `expires_after` is denied; a later decision is refused."""
    tools = Tools()
    approval = ApprovalPolicy(expires_after=timedelta(seconds=0.3))
    client = await serve(
        planner=planner([wipe("a", tool_call_id="c1")]),
        uses=(tools.tools,),
        policy=RunPolicy(interrupts_allowed=True, approval=approval),
    )
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == "denied: nobody approved it in time"
    with pytest.raises(AwaitClosed):
        await run.approve("confirm-c1")
    events = [event async for event in run.events()]
    (answered,) = [event for event in events if event.type == "await_answered"]
    assert (answered.code, answered.approved) == ("expired", None)
    assert sum(event.type == "tool_end" for event in events) == 1
    await traces(run).check()


async def test_a_decision_is_used_once(serve, status_when, traces):
    """The same decision again changes nothing; a different decision is refused."""
    tools = Tools()
    client = await serve(
        planner=planner([wipe("a", tool_call_id="c1"), wipe("b")]), uses=(tools.tools,), policy=ASKS
    )
    run = await client.start("test.agent", "go")
    status = await status_when(run, lambda status: len(status.awaits) == 2)
    first, second = (wait.id for wait in status.awaits)
    for _ in range(3):
        assert await run.approve(first) == first
    with pytest.raises(AwaitClosed):
        await run.deny(first, "too late")
    await run.approve(second)
    assert (await run.result()).text == "wiped a | wiped b"
    assert tools.done.count("a") == 1
    await traces(run).check()


async def test_an_approval_by_an_earlier_version_holds_for_the_whole_declaration(
    temporal_address, status_when, monkeypatch
):
    """A call that a worker without `shown` has shown is asked about again after any change of the tool, then runs once."""
    monkeypatch.setattr(approval, "shown_tool", lambda _spec: None)
    wipe_call = wipe("a")

    def app(description: str, done: list[str]) -> App:
        tools = Toolset("test.disks")

        @tools.tool(destructive=True, description=description)
        async def wipe(disk: str) -> str:
            done.append(disk)
            return disk

        return App(agents=[Agent("test.agent", planner=planner([wipe_call]), uses=[tools], policy=ASKS)])

    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    done: list[str] = []
    async with Worker(app("Delete a temporary disk.", done), client):
        run = await client.start("test.agent", "go")
        await status_when(run, lambda status: status.awaits)
    monkeypatch.undo()
    async with Worker(app("Delete everything.", done), client):
        with pytest.raises(ApprovalVoid):
            await run.approve()
        (again,) = (await run.status()).awaits
        assert (done, again.changes) == ([], ["its declaration"])
        await run.approve(again)
        assert (await run.result()).text == "a"
    assert done == ["a"]


async def test_an_agent_tool_can_be_asked_about(serve, status_when, traces):
    """No child run starts before it is approved."""
    child = Agent("test.child", planner=ScriptedPlanner([PlanResult.final("done below")]))

    class Question(BaseModel):
        text: str

    below = child.export(
        "test.below", tools=[AgentTool("ask", args=Question, confirmation="Delegate {text}?")]
    )
    call = ToolRequest(name="test.below.ask", payload={"text": "this"})
    app = App(agents=[Agent("test.agent", planner=planner([call]), uses=[below], policy=ASKS), child])
    client = await serve(app)
    run = await client.start("test.agent", "go")
    status = await status_when(run, lambda status: status.awaits)
    assert status.awaits[0].prompt == "Delegate this?"
    assert "agent_run_started" not in [event.type async for event in run.events(follow=False)]
    await run.approve()
    assert (await run.result()).text == "done below"
    await traces(run).check()


def test_a_tool_that_nobody_may_approve_is_an_error_of_declaration():
    """An agent that may ask nobody, and has a tool that needs approval, is refused; the error names the setting."""
    with pytest.raises(DefinitionError, match="interrupts_allowed=True"):
        App(agents=[Agent("test.agent", planner=planner([LOOK]), uses=[Tools().tools])])


async def test_decisions_may_come_with_the_plan(temporal_address, monkeypatch, until, traces):
    """A signal that is delivered in the workflow task in which its wait opens counts, whichever of two waits opens first."""
    tools, planned = Tools(), asyncio.Event()

    async def plan(turn):
        await planned.wait()
        calls = [wipe(disk, tool_call_id=disk) for disk in "ab"]
        return PlanResult.final("done") if turn.tool_results else PlanResult.calls(*calls)

    app = App(agents=[Agent("test.agent", planner=plan, uses=[tools.tools], policy=ASKS)])
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    whole = sojourn.worker.shell(app)
    monkeypatch.setattr(sojourn.worker, "STICKY", timedelta(seconds=1))

    def worker_of(**part) -> Worker:
        monkeypatch.setattr(sojourn.worker, "shell", lambda *_, **__: replace(whole, **part))
        return Worker(app, client)

    async with worker_of(workflows=[]):
        async with worker_of(activities=[]):
            run = await client.start("test.agent", "go")
            await until(lambda: traces(run).count(EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED))
        planned.set()  # no worker has the run now
        await until(lambda: traces(run).count(EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED))
        for disk in "ab":
            seen = hashlib.sha256(encode_readable({"disk": disk})).hexdigest()
            decision = {"id": f"confirm-{disk}", "approved": True, "payload_digest": seen}
            await traces(run).handle.signal("provide_confirmation", decision)
    async with worker_of():
        await asyncio.wait_for(run.result(), 30)
        await traces(run).check()
    assert sorted(tools.done) == ["a", "b"]
