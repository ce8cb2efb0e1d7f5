"""`on_message="answer"`: a message is answered while an approval is open, and the approval stays as it is."""

import asyncio
from datetime import timedelta

import pytest

from sojourn import (
    Agent,
    App,
    ApprovalPolicy,
    InvalidInput,
    Message,
    PlanResult,
    Principal,
    RunFailed,
    RunPolicy,
    Toolset,
    Turn,
    Usage,
    flow,
)
from sojourn.core.history.fold import Fold
from sojourn.core.run.set_aside import requests_in
from sojourn.events import one_run
from sojourn.values.wire import MAX_INLINE_BYTES
from tests.workflows.test_endless import flood, shorter

__all__ = ["shorter"]

ANA, EVE = (Principal(subject=name, tenant="acme", roles=["user"]) for name in ("ana", "eve"))
BO = Principal(subject="bo", tenant="acme", roles=["approver"])

tools = Toolset("answers.tools")
done: list[str] = []
holds: list[asyncio.Event] = []
"""What a call waits for before it ends."""


@tools.tool(destructive=True)
async def wipe(disk: str) -> str:
    """Wipe a disk."""
    done.append(disk)
    for each in holds:
        await each.wait()
    return f"wiped {disk}"


verdicts: list[asyncio.Event] = []
"""What a worker waits for before it judges a decision."""


async def is_bo(principal: Principal, _call, _wait) -> bool:
    """Let Bo decide."""
    for each in verdicts:
        await each.wait()
    return principal.subject == "bo"


@tools.tool(approvers=is_bo)
async def burn(disk: str) -> str:
    """Burn a disk."""
    done.append(disk)
    return f"burnt {disk}"


@tools.tool
async def look(disk: str) -> str:
    """Look at a disk."""
    return disk


class Planner:
    """Wipes disk a and looks at b, answers each message meanwhile, and then tells what it has read in the turn."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked: list[Turn] = []
        """The turns in which it could only answer."""

    async def plan(self, turn: Turn) -> PlanResult:
        """Plan."""
        usage = Usage(input_tokens=10, output_tokens=1, model="m")
        if turn.finalize is not None:
            self.asked.append(turn)
            await self.gate.wait()
            return await self.answer(turn, usage)
        messages = turn.messages[turn.turn_start :]
        if messages[-1].role == "user" and messages[-1].text.startswith("wipe"):
            return PlanResult.calls(wipe.call(disk="a"), look.call(disk="b"), usage=usage)
        return PlanResult.final(" | ".join(map(words, messages)), usage=usage)

    async def answer(self, turn: Turn, usage: Usage) -> PlanResult:
        """Answer a message with its own words."""
        said = [each.text for each in turn.messages if each.role == "user"]
        return PlanResult.final(f"on {said[-1]}", usage=usage, notes=["asked meanwhile"])


class Meddling(Planner):
    """Calls a tool, asks, sleeps and remembers in place of an answer, whatever it is told."""

    async def answer(self, turn: Turn, usage: Usage) -> PlanResult:
        """Try anything else."""
        plans = [
            PlanResult.calls(wipe.call(disk="z"), usage=usage),
            PlanResult.ask("May I?"),
            PlanResult.wait(timedelta(seconds=1)),
        ]
        assert [each for each in turn.reminders if "refused" in each] == turn.reminders[1:]
        return plans[len(self.asked) - 1]


def words(message: Message) -> str:
    """A message in a few words."""
    results = [str(each.error or each.result) for each in message.tool_results]
    return ", ".join(results) or message.text[:20] or "calls"


def app_of(planner: Planner, *, local: bool = False, **policy) -> App:
    """An app whose agent answers messages while it waits for approvals."""
    rules = RunPolicy(interrupts_allowed=True, approval=ApprovalPolicy(on_message="answer"), **policy)
    return App(agents=[Agent("test.agent", planner=planner.plan, uses=[tools], policy=rules, local=local)])


ENDS = (one_run.first_execution, one_run.present_execution)


async def state_from(find, client, run_id: str):
    """The folded state of a run from one of its executions on."""
    fold = Fold(run_id)
    async for _ in one_run.records_of(
        client.temporal, fold, await find(client.temporal, run_id), follow=False
    ):
        pass
    return fold.state


async def open_approval(client, name: str):
    """A conversation of Ana's whose call waits, its first turn, and the wait."""
    done.clear()
    holds.clear()
    session = client.session("test.agent", name, principal=ANA)
    first = await session.send("wipe")
    (wait,) = await session.run.until_waiting()
    assert wait.on_message == "answer"
    return session, first, wait


ROLES = ["user", "assistant", "tool", "user", "assistant", "user", "assistant", "system", "assistant"]


@pytest.mark.parametrize("local", [False, True])
async def test_messages_are_answered_and_the_approval_stays_open(serve, traces, local):
    """Each message has its own answer, once in the transcript behind the results; the wait is the same until it is decided."""
    planner = Planner()
    client = await serve(app_of(planner, local=local))
    session, first, wait = await open_approval(client, f"story-{local}")
    why = await session.send("why?", by="ana")
    assert (await why.result()).text == "on why?"
    assert why.turn_id == "t1"
    second = await session.send("and when?")
    assert (await second.result()).text == "on and when?"
    status = await session.status()
    assert [(each.id, each.payload_digest) for each in status.awaits] == [(wait.id, wait.payload_digest)]
    assert (status.status, status.answering, status.queued, done) == ("waiting", "", 0, [])
    assert [each.role for each in await session.transcript()][3:] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    waiting, known = (planner.asked[-1].tool_results, [each.text for each in planner.asked[-1].messages])
    assert [each.error and each.error.code for each in waiting] == ["awaiting_approval", None]
    assert known[-4:-1] == ["why?", "on why?", "and when?"]
    await session.run.approve(wait, principal=BO)
    told = (await first.result()).text
    assert told.startswith(
        "wipe | calls | wiped a, b | why? | on why? | and when? | on and when? | The messages"
    )
    messages = await traces(session.run).check()
    assert [each.role for each in messages] == ROLES
    assert messages == await session.transcript()
    output = await first.result()
    assert (output.usage.input_tokens, output.rounds, output.notes.count("asked meanwhile")) == (40, 1, 2)
    assert (await (await session.send("thanks")).result()).text == "thanks"
    kinds = [event.type async for event in session.events(follow=False)]
    assert (kinds.count("interim_answer"), kinds.count("turn_completed"), kinds.count("await_answered")) == (
        2,
        2,
        1,
    )
    timeline = await session.timeline()
    plans = [each for each in timeline.turns[0].entries if each.kind == "plan"]
    assert [each.text for each in plans if each.interim_for] == ["on why?", "on and when?"]


async def test_a_decision_takes_effect_while_the_answer_is_made(serve, traces, until, status_when):
    """The call runs at once, further messages queue, the answers arrive, and only then the turn goes on."""
    planner = Planner()
    client = await serve(app_of(planner))
    session, first, wait = await open_approval(client, "meanwhile")
    planner.gate.clear()
    sent = [await session.send(text) for text in ("why?", "who?")]
    status = await status_when(session.run, lambda status: status.answering == sent[0].message_id)
    assert status.queued == 1
    with pytest.raises(Exception, match="its turn has begun"):
        await session.withdraw(sent[0].message_id)
    await session.run.approve(wait, principal=BO)
    await until(lambda: done == ["a"])
    planner.gate.set()
    assert (await sent[0].result()).text == "on why?"
    assert (await first.result()).text.startswith("wipe | calls | wiped a, b | why? | on why? | The messages")
    assert (await sent[1].result()).text == "who?"
    await traces(session.run).check()
    (answered,) = [event async for event in session.events(follow=False) if event.type == "interim_answer"]
    fork = await client.fork(session.run.id, at=answered.event_id, message="go on")
    async for event in fork.events():
        if event.type == "turn_completed":
            assert "why? | on why? | The messages" in event.output.text
            break


class Correcting(Planner):
    """Asks twice in place of an answer, and then answers."""

    async def answer(self, turn: Turn, usage: Usage) -> PlanResult:
        """Ask, or answer."""
        return PlanResult.ask("May I?") if len(self.asked) < 3 else await super().answer(turn, usage)


async def test_a_correction_begins_once_the_run_is_resumed_and_knows_what_was_decided(
    serve, traces, until, status_when
):
    """It is not told any more that the call waits, and nobody but a plan reads the placeholder of a large message."""
    planner = Correcting()
    client = await serve(app_of(planner))
    session, first, wait = await open_approval(client, "corrected")
    planner.gate.clear()
    why = await session.send("why? " + "x" * MAX_INLINE_BYTES)
    await until(lambda: planner.asked)
    read = [each.error for message in await session.transcript() for each in message.tool_results]
    assert [each.code for each in read if each] == []
    await session.run.pause()
    planner.gate.set()
    await until(lambda: _is_noted(session))
    assert ((await session.run.status()).paused is not None, len(planner.asked)) == (True, 1)
    planner.gate.clear()
    await session.run.resume()
    await until(lambda: len(planner.asked) == 2)
    holds.append(hold := asyncio.Event())
    await session.run.approve(wait, principal=BO)
    await until(lambda: done == ["a"])
    planner.gate.set()
    assert (await why.result()).text.startswith("on why? x")
    codes = [[each.error and each.error.code for each in turn.tool_results] for turn in planner.asked]
    assert codes == [["awaiting_approval", None], ["awaiting_approval", None], ["under_way", None]]
    hold.set()
    assert (await first.result()).text.startswith("wipe | calls | wiped a, b | why? xxx")
    await traces(session.run).check()


async def _is_noted(session) -> bool:
    notes = [event.text async for event in session.events(follow=False) if event.type == "planner_note"]
    return any("planner fault" in text for text in notes)


async def test_a_planner_that_does_anything_else_is_refused_and_reads_the_message_later(serve, traces):
    """It calls nothing, asks nothing and decides nothing; after three faults the message joins the turn."""
    planner = Meddling()
    client = await serve(app_of(planner))
    session, first, wait = await open_approval(client, "meddling")
    other = await session.send("wipe z, and approve")
    events = [event async for event in session.events(follow=False)]
    while not any(event.type == "interim_answer" for event in events):
        events = [event async for event in session.events(follow=False)]
    (ended,) = (event for event in events if event.type == "interim_answer")
    assert ended.message is None
    assert "may only answer" in str(ended.error)
    assert len(planner.asked) == 3
    assert [each.id for each in (await session.status()).awaits] == [wait.id]
    await session.run.deny(wait, "no", principal=BO)
    told = "wipe | calls | denied: no, b | wipe z, and approve | The messages before"
    assert (await first.result()).text.startswith(told)
    assert (await other.result()).text.startswith(told)
    assert done == []
    await traces(session.run).check()


@pytest.mark.parametrize("end", ["interrupt", "message", "cancel"])
async def test_the_end_of_the_turn_ends_the_answer(serve, traces, status_when, end):
    """The message belongs to the turn that was stopped, and the next planner reads it."""
    planner = Planner()
    client = await serve(app_of(planner))
    session, first, _ = await open_approval(client, end)
    planner.gate.clear()
    why = await session.send("why?")
    await status_when(session.run, lambda status: status.answering)
    if end == "cancel":
        await session.run.cancel()
        with pytest.raises(RunFailed):
            await why.result()
        return
    if end == "interrupt":
        await session.interrupt("stop")
    last = await session.send("and now?", mode="interrupt" if end == "message" else "queue")
    for turn in (first, why):
        with pytest.raises(RunFailed) as failed:
            await turn.result()
        assert failed.value.code == "interrupted"
    planner.gate.set()
    await last.result()
    said = [each.text for each in await traces(session.run).check() if each.role == "user"]
    assert said == ["wipe", "why?", "and now?"]


async def test_only_messages_that_may_join_the_turn_are_answered(serve, traces):
    """Another person's message opens a turn of its own, one that steers joins the next plan, and both wait."""
    planner = Planner()
    client = await serve(app_of(planner))
    session, first, wait = await open_approval(client, "others")
    other = await client.session("test.agent", "others", principal=EVE).send("me too")
    await session.send("note this", mode="steer")
    gone = await client.session("test.agent", "others", principal=EVE).send("not me")
    assert await client.session("test.agent", "others", principal=EVE).withdraw(gone.message_id)
    assert (await (await session.send("why?")).result()).text == "on why?"
    await session.run.approve(wait, principal=BO)
    assert (await first.result()).text.startswith("wipe | calls | wiped a, b | why? | on why? | The messages")
    assert (await other.result()).text == "me too"
    await traces(session.run).check()


async def test_a_limit_that_is_used_up_lets_messages_wait(serve, traces):
    """Each answer counts: the second message has no money left, and waits for its turn."""
    planner = Planner()
    client = await serve(app_of(planner, max_tokens=22))
    session, first, wait = await open_approval(client, "limited")
    assert (await (await session.send("why?")).result()).text == "on why?"
    await session.send("and when?")
    status = await session.status()
    assert (status.queued, status.answering, status.caps.tokens) == (1, "", 0)
    await session.run.approve(wait, principal=BO)
    output = await first.result()
    assert (output.reason, output.usage.input_tokens, done) == ("max_tokens", 30, ["a"])
    await traces(session.run).check()


async def test_an_answer_takes_no_time_of_the_call(serve, traces):
    """The time budget is the same after an answer, so that no question keeps an approved call from running."""
    client = await serve(app_of(Planner(), time_budget=timedelta(minutes=1)))
    session, first, wait = await open_approval(client, "off-clock")
    before = (await session.status()).caps.time
    assert (await (await session.send("why?")).result()).text == "on why?"
    assert (await session.status()).caps.time == before
    await session.run.approve(wait, principal=BO)
    await first.result()
    assert done == ["a"]
    await traces(session.run).check()


class Single(Planner):
    """Wipes disk a, and nothing else."""

    async def plan(self, turn: Turn) -> PlanResult:
        """Plan."""
        plan = await super().plan(turn)
        return PlanResult.calls(wipe.call(disk="a")) if plan.tool_calls else plan


async def test_no_message_gets_the_number_of_another(serve, traces):
    """A message that was answered while a call without a result waits keeps its number, and only it is set aside by that."""
    client = await serve(app_of(Single()))
    session, first, wait = await open_approval(client, "numbers")
    await (await session.send("why?")).result()
    asked = [message.text for message in await session.transcript()]
    number = asked.index("why?")
    queried = await client.temporal.get_workflow_handle(session.run.id).query("transcript")
    assert [Message.model_validate(each).text for each in queried] == asked
    with pytest.raises(
        InvalidInput, match=f"no message {number} yet; set it aside after the run's next plan"
    ):
        await session.run.set_aside(number)
    await session.run.approve(wait, principal=BO)
    await first.result()
    messages = await traces(session.run).check()
    assert [each.text for each in messages][: len(asked)] == asked
    assert await session.run.set_aside(number)
    (request,) = requests_in(await session.transcript())
    assert messages[request.message].text == "why?"


async def test_a_long_conversation_goes_on_between_answers(serve, shorter, traces):
    """In further executions the call, what was said and its place are the same, from either end of the history."""
    planner = Planner()
    client = await serve(app_of(planner))
    session, first, wait = await open_approval(client, "long")
    for n in range(3):
        assert (await (await session.send(f"why {n}?")).result()).text == f"on why {n}?"
        await flood(session.run, 20, start=20 * n)
    states = [await state_from(find, client, session.run.id) for find in ENDS]
    assert states[0].executions > 1
    for state in states:
        assert [each.sent.message.text for each in state.interim] == ["why 0?", "why 1?", "why 2?"]
        assert (state.totals, state.taken) == (states[0].totals, states[0].taken)
    assert [each.id for each in (await session.status()).awaits] == [wait.id]
    await session.run.approve(wait, principal=BO)
    said = " | ".join(f"why {n}? | on why {n}?" for n in range(3))
    assert (await first.result()).text.startswith(f"wipe | calls | wiped a, b | {said} | The messages")
    await traces(session.run).check()


async def test_a_fork_and_a_branch_know_what_was_said(serve, traces):
    """A fork in the step reads the message and its answer behind the results, also if it carries out a call again.

    A branch from before has neither.
    """
    planner = Planner()
    client = await serve(app_of(planner))
    session, first, wait = await open_approval(client, "fork")
    await (await session.send("why?")).result()
    forks = [
        await client.fork(session.run.id, message="go on"),
        await client.fork(session.run.id, approve=True, by="bo"),
    ]
    ends = []
    for fork in forks:
        async for event in fork.events():
            if event.type == "turn_completed":
                ends.append(event.output.text)
                break
        said = [each.text for each in await traces(fork).check() if each.role == "user"]
        assert said[:2] == ["wipe", "why?"]
    assert "b | why? | on why? | The messages" in ends[0]
    assert ends[0].endswith("| go on")
    assert ends[1].startswith("wipe | calls | wiped a, b | why? | on why? | The messages before")
    await session.run.approve(wait, principal=BO)
    await first.result()
    again = await session.edit(first.message_id, "hello")
    assert (await again.result()).text == "hello"
    await traces(session.run).check()


def test_of_two_policies_the_one_that_says_more_counts():
    """`wait` says nothing, and a denial is the strictest."""
    waits, answers, denies = (ApprovalPolicy(on_message=each) for each in ("wait", "answer", "deny"))
    pairs = [(waits, answers), (answers, waits), (answers, denies), (denies, answers), (waits, waits)]
    assert [one.tightened(two).on_message for one, two in pairs] == [
        "answer",
        "answer",
        "deny",
        "deny",
        "wait",
    ]


async def test_a_flow_lets_messages_wait(serve):
    """It follows from the results of its steps, of which one is missing."""

    @flow
    def errand(case):
        return case.call(wipe, disk="a")

    policy = RunPolicy(interrupts_allowed=True, approval=ApprovalPolicy(on_message="answer"))
    client = await serve(App(agents=[Agent("test.agent", planner=errand, uses=[tools], policy=policy)]))
    session = client.session("test.agent", "flow", principal=ANA)
    await session.send("go")
    (wait,) = await session.run.until_waiting()
    assert wait.on_message == "wait"
