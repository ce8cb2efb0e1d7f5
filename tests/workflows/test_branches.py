"""A conversation that goes on from an earlier message: what its planners read, and what is left of the other branch."""

import asyncio
import base64
import os
import random
import uuid

import pytest
from pydantic import BaseModel

from activities import branches
from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    AwaitClosed,
    InvalidInput,
    PlanResult,
    Principal,
    RunFailed,
    RunPolicy,
    RunPolicyOverride,
    SessionPolicy,
    ToolCallMeta,
    Toolset,
)
from sojourn.client.session import SessionTurn
from sojourn.errors import NoWorker, RunUnreadable, SessionBusy
from sojourn.events.one_run import transcript_of
from sojourn.storage import FolderStorage
from tests.chain import replay
from workflows import history_budget

tools = Toolset("branch.tools")
paid: list[str] = []
sent: list[str] = []
release = asyncio.Event()


@tools.tool
async def pay(order: str, meta: ToolCallMeta) -> str:
    """Pay."""
    paid.append(meta.idempotency_key)
    return f"paid {order}"


@tools.tool(idempotent=False)
async def send(order: str) -> str:
    """Send, and nothing sends it once more."""
    sent.append(order)
    return f"sent {order}"


@tools.tool(destructive=True)
async def wipe(disk: str) -> str:
    """Destroy."""
    return f"wiped {disk}"


@tools.tool
async def slow() -> str:
    """Take until the test lets go."""
    await release.wait()
    return "slow"


class Errand(BaseModel):
    """What to find."""

    what: str


async def ask(turn) -> PlanResult:
    """Ask, as a child run."""
    return PlanResult.ask(AwaitClarification(question="Which one?"))


clerk = Agent("test.below", planner=ask, policy=RunPolicy(interrupts_allowed=True))
clerks = clerk.export("branch.clerks", tools=[AgentTool("find", args=Errand, user="{what}")])


async def plan(turn) -> PlanResult:
    """Do what the last message says, or say what the users said."""
    present = turn.messages[turn.turn_start :]
    word, _, rest = present[0].text.partition(" ")
    if not turn.tool_results:
        if word == "pay":
            return PlanResult.calls(pay.call(order=rest))
        if word == "send":
            return PlanResult.calls(send.call(order=rest))
        if word == "named":
            return PlanResult.calls(send.call(order=rest).model_copy(update={"tool_call_id": "the-call"}))
        if word == "wipe":
            return PlanResult.calls(wipe.call(disk=rest))
        if word == "delegate":
            return PlanResult.calls(clerks.tools["find"].call(Errand(what="a key")))
        if word == "slow":
            return PlanResult.calls(slow.call())
    if word == "remember":
        return PlanResult.final("remembered", memory={"said": rest})
    if word == "noting":
        return PlanResult.final("noted", notes=[f"note {number}" for number in range(19)])
    said = " / ".join(message.text for message in turn.messages if message.role == "user")
    if len(said) > 100_000:
        return PlanResult.final("long")
    return PlanResult.final(f"{said} {dict(turn.memory) or ''}".strip())


@pytest.fixture
async def client(serve):
    paid.clear()
    sent.clear()
    release.clear()
    policy = RunPolicy(interrupts_allowed=True)
    return await serve(
        App(agents=[clerk, Agent("test.agent", planner=plan, uses=[tools, clerks], policy=policy)])
    )


async def said(session, text: str, message_id: str) -> str:
    return (await (await session.send(text, message_id=message_id)).result()).text


async def edited(session, message_id: str, text: str | None = None) -> str:
    return (await (await session.edit(message_id, text)).result()).text


async def until(session, is_there):
    """Read the conversation until its timeline is as wanted, and return that."""
    async with asyncio.timeout(60):
        while not is_there(timeline := await session.timeline()):
            await asyncio.sleep(0.02)
    return timeline


async def test_an_edited_message_is_answered_without_what_came_after_it(client):
    """Planners, transcript and memory are those of the point before it; the run keeps its id, and the turns of both branches."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await said(session, "one", "m-1")
    await said(session, "remember two", "m-2")
    assert await said(session, "three", "m-3") == "one / remember two / three {'said': 'two'}"
    assert await edited(session, "m-2", "TWO") == "one / TWO"
    assert [message.text for message in await session.transcript()] == ["one", "one", "TWO", "one / TWO"]
    assert await session.memory() == {}
    assert await said(session, "four", "m-4") == "one / TWO / four"
    timeline = await session.timeline()
    assert [turn.messages[0].message.text for turn in timeline.path] == ["one", "TWO", "four"]
    assert [turn.messages[0].message.text for turn in timeline.siblings(timeline.path[1])] == [
        "remember two",
        "TWO",
    ]
    assert len(timeline.turns) == 5
    assert await replay(client.temporal, session.run.id) == 2
    assert (await transcript_of(client.temporal, session.run.id, None)) == await session.transcript()


async def test_the_first_message_can_be_edited_again_and_again(client):
    """Each edit begins at the start of the conversation; the same words are answered anew."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await said(session, "one", "m-1")
    assert await edited(session, "m-1", "two") == "two"
    assert await edited(session, "m-1") == "two"
    timeline = await session.timeline()
    assert [len(timeline.path), len(timeline.siblings(timeline.path[0])), timeline.branches] == [1, 3, 2]


async def test_a_conversation_goes_on_in_the_branch_that_it_is_switched_to(client):
    """The next message comes after the end of that branch, which then is the present one."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await said(session, "one", "m-1")
    await said(session, "two", "m-2")
    await edited(session, "m-2", "TWO")
    timeline = await session.timeline()
    first, second = timeline.siblings(timeline.path[1])
    await session.switch(timeline.tip(first))
    assert await said(session, "three", "m-3") == "one / two / three"
    timeline = await session.timeline()
    assert [turn.messages[0].message.text for turn in timeline.path] == ["one", "two", "three"]
    await session.switch(timeline.tip(second))
    assert await said(session, "four", "m-4") == "one / TWO / four"
    with pytest.raises(InvalidInput, match="no turn"):
        await session.switch("0-000001-00000")


async def test_a_switch_that_is_refused_says_why_at_once(client, monkeypatch):
    """The point cannot be read, so that the conversation stays where it is."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await said(session, "one", "m-1")
    await edited(session, "m-1", "ONE")
    timeline = await session.timeline()

    async def find_nothing(*_given, **_more):
        raise RunUnreadable("its history was deleted")

    monkeypatch.setattr(branches, "fork_of", find_nothing)
    with pytest.raises(InvalidInput, match="branch refused: its history was deleted"):
        async with asyncio.timeout(25):  # a switch that is not refused waits for 30 s
            await session.switch(timeline.tip(timeline.turns[0]))
    assert await said(session, "two", "m-2") == "ONE / two"


class Unusable:
    """A point that was read, and that the run cannot go on from."""

    async def fitting(self, *_given):
        return self

    def argument(self):
        return {}


async def test_a_switch_to_a_point_that_cannot_be_used_says_so_at_once(client, monkeypatch):
    """The history does not say so before the run does something else, and the next switch is not taken for refused then."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await said(session, "one", "m-1")
    await edited(session, "m-1", "ONE")
    timeline = await session.timeline()
    tip = timeline.tip(timeline.turns[0])

    async def find_unusable(*_given, **_more):
        return Unusable()

    with monkeypatch.context() as patched:
        patched.setattr(branches, "fork_of", find_unusable)
        for _ in range(2):
            with pytest.raises(InvalidInput, match="stays in its present branch: branch refused: the conv"):
                async with asyncio.timeout(10):
                    await session.switch(tip)
            await said(session, "noting", uuid.uuid4().hex)  # a run keeps 20 notes: the refusal is the oldest
    await session.switch(tip)
    assert await said(session, "two", "m-2") == "one / two"


async def test_a_switch_that_does_not_begin_in_time_is_not_told_as_done(client, monkeypatch):
    """Its worker still reads the point; the switch takes effect later, and once."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await said(session, "one", "m-1")
    await edited(session, "m-1", "ONE")
    timeline = await session.timeline()
    first, fork_of = timeline.tip(timeline.turns[0]), branches.fork_of

    async def find_late(*given, **more):
        await release.wait()
        return await fork_of(*given, **more)

    monkeypatch.setattr(branches, "fork_of", find_late)
    monkeypatch.setattr("sojourn.client.session.UNTIL_BEGUN", 0.2)
    with pytest.raises(NoWorker, match="has not gone on from"):
        await session.switch(first, branches=timeline.branches)
    release.set()
    later = await until(session, lambda now: now.branches > timeline.branches)
    with pytest.raises(AwaitClosed):
        await session.switch(first, branches=timeline.branches)
    assert [turn.messages[0].message.text for turn in later.path] == ["one"]


async def test_a_branch_that_is_left_ends_its_turn_and_its_waits(client):
    """The turn is interrupted, its approval closed, and the message that waited is withdrawn."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await said(session, "one", "m-1")
    left = await session.send("wipe a", message_id="m-2")
    async for event in left.events():
        if event.type == "await_confirmation":
            break
    waiting = await session.send("three", message_id="m-3")
    turn = await session.edit("m-2", "two")
    with pytest.raises(RunFailed, match="earlier message"):
        await left.result()
    with pytest.raises(RunFailed, match="withdrawn"):
        await waiting.result()
    assert (await turn.result()).text == "one / two"
    assert (await session.status()).awaits == []
    with pytest.raises(AwaitClosed):
        await session.run.approve(event.confirmation)


async def test_a_branch_for_an_idle_conversation_ends_no_turn(client):
    """It is refused while a turn is under way or a message waits, and begins later."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await said(session, "one", "m-1")
    timeline = await session.timeline()
    late = (timeline.path[0].follows, 0, {"text": "ONE", "message_id": "m-3"})
    await session.run.pause()
    waiting = await session.send("slow", message_id="m-2")
    for is_waiting in (True, False):
        with pytest.raises(SessionBusy, match="under way"):
            await session.run.branch(*late, idle=True)
        if is_waiting:
            await session.run.resume()
            async for event in waiting.events():
                if event.type == "tool_start":
                    break
    release.set()
    await waiting.result()
    while (await session.status()).status != "idle":  # the run learns of the end after its readers
        await asyncio.sleep(0.02)
    accepted = await session.run.branch(*late, idle=True)
    assert (await SessionTurn(session.run, accepted).result()).text == "ONE"
    assert await replay(client.temporal, session.run.id) == 2


async def test_an_edit_stops_the_calls_of_the_turn(client):
    """A call under way is cancelled, and the new branch begins without it."""
    session = client.session("test.agent", uuid.uuid4().hex)
    left = await session.send("slow", message_id="m-1")
    async for event in left.events():
        if event.type == "tool_start":
            break
    assert await edited(session, "m-1", "two") == "two"
    (call,) = (await session.timeline()).calls or [None]
    assert (call.state, call.turn.failure.error.code) == ("canceled", "interrupted")


async def test_an_effect_of_the_branch_that_is_left_is_known(client):
    """The same call in the new branch has the key of the first one, and a call that must not be repeated asks a person."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await said(session, "pay 7", "m-1")
    await edited(session, "m-1", "pay 7, please")
    await edited(session, "m-1", "pay 7")
    first, other, again = paid
    assert (first == again, first == other) == (True, False)
    await said(session, "send 7", "m-2")
    turn = await session.edit("m-2")
    async for event in turn.events():
        if event.type == "await_confirmation":
            break
    assert (event.confirmation.payload, "carried out" in str(event.confirmation)) == ({"order": "7"}, True)
    await session.run.deny(event.confirmation)
    await turn.result()
    assert sent == ["7"]


async def test_messages_that_cannot_be_edited_are_refused(client):
    """Only a message that has opened a turn of the present branch can be edited, and only once from one view."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await said(session, "one", "m-1")
    await said(session, "two", "m-2")
    with pytest.raises(InvalidInput, match="m-9"):
        await session.edit("m-9", "nine")
    for nothing in ("", " ", "\ud800"):
        with pytest.raises(InvalidInput, match="text"):
            await session.edit("m-2", nothing)
    timeline = await session.timeline()
    await edited(session, "m-1", "ONE")
    with pytest.raises(InvalidInput, match="m-2"):
        await session.edit("m-2", "TWO")
    with pytest.raises(AwaitClosed, match="meanwhile"):
        await session.run.branch(timeline.path[0].follows, timeline.branches, {"text": "late"})


async def test_a_branch_that_cannot_begin_is_noted_and_the_next_one_can(client):
    """The message opens a turn where the conversation is, and neither that turn nor a later edit is lost."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await said(session, "one", "m-1")
    accepted = await session.run.branch("0-000999-00000", 0, {"text": "two", "message_id": "m-2"})
    assert (await SessionTurn(session.run, accepted).result()).text == "one / two"
    large = [base64.b85encode(random.Random(k).randbytes(165_000)).decode() for k in range(7)]
    for k, text in enumerate(large[:-1]):
        await said(session, text, f"l-{k}")
    await said(session, "three", "m-3")
    await (await session.edit("m-3", large[-1])).result()  # too large, with what was said before it
    notes = [event.text async for event in session.events(follow=False) if event.type == "planner_note"]
    assert [("no event" in note, "too large" in note) for note in notes] == [(True, False), (False, True)]
    assert (await session.status()).notes == notes
    assert await edited(session, "m-1", "ONE") == "ONE"
    timeline = await session.timeline()
    assert (timeline.branches, [len(timeline.path), len(timeline.turns)]) == (1, [1, 11])
    assert await edited(session, "m-1", "last") == "last"
    assert await replay(client.temporal, session.run.id) == 3


async def test_an_edit_can_be_edited_before_it_is_answered(client):
    """The words that count are the last ones, which are answered once; the memory is that of the point."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await said(session, "remember one", "m-1")
    await said(session, "remember two", "m-2")
    await session.run.pause()
    await session.edit("m-2", "TWO")
    timeline = await until(session, lambda timeline: timeline.branches == 1)
    assert dict(timeline.memory) == {"said": "one"}
    again = await session.edit("m-2", "2")
    assert (await session.edit("m-2", "2")).is_repeated
    await until(session, lambda timeline: timeline.branches == 2)
    await session.run.resume()
    assert (await again.result()).text == "remember one / 2 {'said': 'one'}"
    assert [message.text for message in await session.transcript() if message.role == "user"] == [
        "remember one",
        "2",
    ]
    assert len((await session.timeline()).turns) == 3


async def test_no_effect_of_any_branch_is_repeated_unasked(client):
    """Calls that have the same id in several branches are different effects, and each is known to all branches."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await said(session, "named 7", "m-1")
    await edited(session, "m-1", "named 8")
    await edited(session, "m-1", "named 9")
    timeline = await session.timeline()
    await session.switch(timeline.tip(timeline.turns[1]))
    await said(session, "hello", "m-2")
    for order in ("7", "9"):
        turn = await session.edit("m-2", f"named {order}")
        async for event in turn.events():
            if event.type == "await_confirmation":
                break
        assert event.confirmation.payload == {"order": order}
        assert event.confirmation.prompt.startswith(
            "Another branch of this conversation may have carried out"
        )
        await session.run.deny(event.confirmation)
        await turn.result()
    turn = await session.edit("m-1")
    async for event in turn.events():
        if event.type == "await_confirmation":
            break
    assert event.confirmation.payload == {"order": "8"}
    await session.run.deny(event.confirmation)
    await turn.result()
    assert sent == ["7", "8", "9"]


class Model:
    """What a conversation should be: its turns as a tree, with the turn after which the next one begins."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.parents: list[int] = []
        self.tip = -1

    def add(self, text: str, after: int) -> None:
        self.texts.append(text)
        self.parents.append(after)
        self.tip = len(self.texts) - 1

    def path(self) -> list[int]:
        at, found = self.tip, []
        while at >= 0:
            found.append(at)
            at = self.parents[at]
        return found[::-1]

    def answer(self) -> str:
        said = [self.texts[turn] for turn in self.path()]
        if said[-1].startswith("remember"):
            return "remembered"
        kept = [text.partition(" ")[2] for text in said if text.startswith("remember")]
        return " / ".join(said) + (f" {{'said': '{kept[-1]}'}}" if kept else "")

    def newest_after(self, turn: int) -> int:
        while after := [each for each, parent in enumerate(self.parents) if parent == turn]:
            turn = after[-1]
        return turn


@pytest.mark.parametrize("seed", range(int(os.environ.get("SOJOURN_CASES", "2"))))
async def test_any_walk_through_branches_is_answered_as_its_path_says(client, monkeypatch, seed):
    """Sent, edited, answered again, switched, paused or cut off by an edit: each turn knows its own branch, and it alone."""
    monkeypatch.setattr(history_budget, "CONTINUE_EVENTS", 40)  # it continues as new in between
    session, model, dice = client.session("test.agent", uuid.uuid4().hex), Model(), random.Random(seed)
    ids: list[str] = []

    async def check(turn, text: str, after: int) -> None:
        model.add(text, after)
        ids.append(turn.message_id)
        assert (await turn.result()).text == model.answer()

    await check(await session.send("remember 0"), "remember 0", -1)
    for step in range(1, 13):
        path, deed = model.path(), dice.choice(["send", "edit", "again", "switch", "busy", "paused", "both"])
        at = dice.choice(path)
        text = dice.choice([f"say {step}", f"remember {step}"])
        deed = "edit" if deed == "again" and model.texts[at] == "slow" else deed
        if deed == "switch":
            at = model.newest_after(dice.randrange(len(model.texts)))
            await session.switch((await session.timeline()).turns[at].end.event_id)
            model.tip = at
        elif deed == "busy":
            slow = await session.send("slow")
            async for event in slow.events():
                if event.type == "tool_start":
                    break
            queued = await session.send("lost")
            turn = await session.edit(ids[at], text)
            for left in (slow, queued):
                with pytest.raises(RunFailed):
                    await left.result()
            model.add("slow", model.tip)
            ids.append(slow.message_id)
            await check(turn, text, model.parents[at])
        elif deed == "both":
            turn, later = await session.edit(ids[at], text), await session.send("later")
            await check(turn, text, model.parents[at])
            await check(later, "later", model.tip)
        elif deed == "paused":
            await session.run.pause()
            turn = await session.edit(ids[at], text)
            await session.run.resume()
            await check(turn, text, model.parents[at])
        elif deed == "send":
            await check(await session.send(text), text, model.tip)
        else:
            turn = await session.edit(ids[at], text if deed == "edit" else None)
            await check(turn, text if deed == "edit" else model.texts[at], model.parents[at])
    timeline = await session.timeline()
    assert [timeline.turns.index(turn) for turn in timeline.path] == model.path()
    users = [message.text for message in await session.transcript() if message.role == "user"]
    assert users == [model.texts[turn] for turn in model.path()]
    assert (await session.status()).turns == len(model.texts)
    assert await replay(client.temporal, session.run.id) > len(timeline.turns) // 4


async def test_of_two_edits_at_once_one_is_refused(client):
    """One of them begins a branch, and a message that is sent meanwhile is answered in it."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await said(session, "one", "m-1")
    found = await asyncio.gather(
        *(session.edit("m-1", text) for text in ("two", "three")),
        session.send("later"),
        return_exceptions=True,
    )
    done, (refused,) = (
        [each for each in found if not isinstance(each, Exception)],
        [each for each in found if isinstance(each, Exception)],
    )
    assert isinstance(refused, AwaitClosed | SessionBusy)
    await asyncio.gather(*(turn.result() for turn in done[:1]))
    assert (await session.timeline()).branches == 1


async def test_a_fork_has_branches_of_its_own(client):
    """The first message of a fork, and one after it, are edited; the fork knows the effects of its origin and of its branches."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await said(session, "one", "m-1")
    end = (await session.timeline()).path[0].end.event_id
    await said(session, "named 7", "m-2")
    await edited(session, "m-2", "hello")
    fork = await client.fork(session.run.id, at=end, message="two")
    copy = client.session("test.agent", (await fork.status()).session_id)
    first = await until(copy, lambda timeline: timeline.path and timeline.path[-1].is_over)
    message_id = first.path[0].messages[0].message_id
    assert await edited(copy, message_id, "TWO") == "one / TWO"
    await said(copy, "named 8", "m-3")
    for text, who in (("named 7", "The run from which this one was forked"), ("named 8", "Another branch")):
        turn = await copy.edit(message_id, text)
        async for event in turn.events():
            if event.type == "await_confirmation":
                break
        assert event.confirmation.prompt.startswith(who)
        await copy.run.deny(event.confirmation)
        await turn.result()
    assert sent == ["7", "8"]
    assert [turn.messages[0].message.text for turn in (await session.timeline()).path] == ["one", "hello"]


async def test_a_child_run_ends_with_the_branch_that_is_left(client):
    """Its question is closed, and the turns of all branches count for the conversation's limit."""
    policy = RunPolicyOverride(session=SessionPolicy(max_turns=3))
    session = client.session("test.agent", uuid.uuid4().hex, policy=policy)
    left = await session.send("delegate", message_id="m-1")
    async for event in left.events(children=True):
        if event.type == "await_clarification":
            break
    assert (await session.status()).child_awaits
    assert await edited(session, "m-1", "one") == "one"
    assert not (await session.status()).child_awaits
    with pytest.raises(RunFailed):
        await client.get_run(event.run_id).result()
    assert await edited(session, "m-1", "two") == "two"
    assert (await session.run.result()).reason == "max_turns"
    with pytest.raises(AwaitClosed):
        await session.edit("m-1", "three")


async def test_files_stay_with_the_message_that_is_answered_again(serve, tmp_path):
    """Its file is readable in each branch, and an edit of the words keeps it if it says so."""
    storage = FolderStorage(tmp_path / "storage")
    client = await serve(App(agents=[Agent("test.agent", planner=plan)]), storage=storage)
    session = client.session("test.agent", uuid.uuid4().hex)
    note = tmp_path / "note.txt"
    note.write_text("x" * 20_000)
    await (await session.send("look", message_id="m-1", attachments=[note])).result()
    await edited(session, "m-1")
    await (await session.edit("m-1", "read", keep_files=True)).result()
    (message, _) = await session.transcript()
    assert (message.text, [file.name for file in message.attachments]) == ("read", ["note.txt"])
    (file,) = await session.run.attachments()
    assert b"".join([chunk async for chunk in file.chunks()]) == note.read_bytes()
    await (await session.edit("m-1", "nothing else")).result()
    assert not (await session.transcript())[0].attachments


async def test_the_files_of_a_message_stay_whoever_edits_it(serve, tmp_path):
    """A person answers another one's message again, and changes its words; nobody uploads the file anew."""
    storage = FolderStorage(tmp_path / "storage")
    client = await serve(App(agents=[Agent("test.agent", planner=plan)]), storage=storage)
    ana, col = (Principal(subject=name, tenant="acme", roles=["user"]) for name in ("ana", "col"))
    name = uuid.uuid4().hex
    note = tmp_path / "note.txt"
    note.write_text("x" * 20_000)
    sent = await client.session("test.agent", name, principal=ana).send("look", attachments=[note])
    await sent.result()
    session = client.session("test.agent", name, principal=col)
    await edited(session, sent.message_id)
    await (await session.edit(sent.message_id, "read", keep_files=True)).result()
    (message, _) = await session.transcript()
    assert (message.text, [file.name for file in message.attachments]) == ("read", ["note.txt"])
    with pytest.raises(InvalidInput, match="no such upload of yours"):
        await client.session("test.agent", uuid.uuid4().hex, principal=col).send(message)
