"""A message while an approval is open: it waits for its turn, or, if the policy says so, it denies the call."""

import pytest

from sojourn import Agent, App, ApprovalPolicy, PlanResult, Principal, RunPolicy, Toolset

ANA, EVE = (Principal(subject=name, tenant="acme", roles=["user"]) for name in ("ana", "eve"))

tools = Toolset("denies.tools")


@tools.tool(destructive=True)
async def wipe(disk: str) -> str:
    """Wipe a disk."""
    return f"wiped {disk}"


@tools.tool
async def look(disk: str) -> str:
    """Look at a disk."""
    return disk


async def plan(turn) -> PlanResult:
    said = turn.messages[-1].text
    if turn.messages[-1].role == "user" and said == "wipe":
        return PlanResult.calls(wipe.call(disk="a"), look.call(disk="a"))
    results = [str(each.error or each.result) for each in turn.tool_results]
    return PlanResult.final(f"{'; '.join(results)} | {said}" if results else said)


def app_of(on_message: str) -> App:
    """An app whose agent's approvals follow such a policy."""
    policy = RunPolicy(interrupts_allowed=True, approval=ApprovalPolicy(on_message=on_message))
    return App(agents=[Agent("test.agent", planner=plan, uses=[tools], policy=policy)])


@pytest.fixture
def client_of(serve):
    """A client of an agent whose approvals follow a policy."""

    async def make(on_message: str):
        return await serve(app_of(on_message))

    return make


async def test_a_message_denies_the_call_as_its_reason_and_is_answered_in_its_turn(client_of, traces):
    """The planner reads the denial and the message; both messages get the answer; the event names who wrote."""
    client = await client_of("deny")
    session = client.session("test.agent", "deny", principal=ANA)
    first = await session.send("wipe")
    (wait,) = await session.run.until_waiting()
    assert wait.on_message == "deny"
    second = await session.send("why disk a?", by="ana")
    for turn in (first, second):
        assert (await turn.result()).text == "denied: why disk a?; a | why disk a?"
    assert second.turn_id == "t1"
    assert (await (await session.send("thanks")).result()).text == "thanks"
    events = [event async for event in session.run.events(follow=False)]
    (denial,) = (event for event in events if event.type == "await_answered")
    assert (denial.approved, denial.text, denial.by, denial.await_id) == (
        False,
        "why disk a?",
        "ana",
        wait.id,
    )
    assert denial.principal.subject == "ana"
    await session.close()
    await session.run.result()
    await traces(session.run).check()


async def test_a_message_waits_for_its_turn_by_default(client_of, traces):
    """The approval stays open, and the message is answered after the turn of the call."""
    client = await client_of("wait")
    session = client.session("test.agent", "wait", principal=ANA)
    first = await session.send("wipe")
    (wait,) = await session.run.until_waiting()
    second = await session.send("why disk a?")
    assert [each.id for each in (await session.run.status()).awaits] == [wait.id]
    await session.run.approve(wait, principal=Principal(subject="bo", tenant="acme", roles=["approver"]))
    assert (await first.result()).text.startswith("wiped a; a")
    assert (await second.result()).text == "why disk a?"
    await traces(session.run).check()


async def test_only_who_may_join_the_turn_denies(client_of, traces):
    """A message of another person opens a turn of its own, one that steers joins, and neither decides on the call."""
    client = await client_of("deny")
    session = client.session("test.agent", "others", principal=ANA)
    first = await session.send("wipe")
    (wait,) = await session.run.until_waiting()
    other = await client.session("test.agent", "others", principal=EVE).send("me too")
    await session.send("note this", mode="steer")
    assert [each.id for each in (await session.run.status()).awaits] == [wait.id]
    await session.run.deny(wait, "no", principal=Principal(subject="bo", tenant="acme", roles=["approver"]))
    assert (await first.result()).text == "denied: no; a | note this"
    assert (await other.result()).text == "me too"
    await traces(session.run).check()


def test_of_two_policies_the_one_that_denies_counts():
    """An override may let a message deny, and cannot take that away."""
    waits, denies = ApprovalPolicy(), ApprovalPolicy(on_message="deny")
    assert [each.on_message for each in (waits.tightened(denies), denies.tightened(waits))] == [
        "deny",
        "deny",
    ]
    assert waits.tightened(waits).on_message == "wait"
