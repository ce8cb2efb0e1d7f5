"""A message that waits can be withdrawn, until its turn begins."""

import asyncio

import pytest

from sojourn import AwaitClosed, InvalidInput, PlanResult, Principal, RunFailed, RunPolicy, Toolset
from sojourn.errors import MissingRole

tools = Toolset("withdraw.tools")
release = asyncio.Event()


@tools.tool
async def slow(n: int) -> int:
    """Take until the test lets go."""
    await release.wait()
    return n


async def plan(turn) -> PlanResult:
    """Call `slow`, or answer with all that was said."""
    said = [message.text for message in turn.messages if message.role == "user"]
    if said[-1] == "slow" and turn.messages[-1].role == "user":
        return PlanResult.calls(slow.call(n=1))
    return PlanResult.final(" ".join(said))


@pytest.fixture
async def client(serve):
    release.clear()
    return await serve(planner=plan, uses=(tools,), policy=RunPolicy(max_tool_calls=1))


async def busy(session):
    """A turn whose call is in flight until `release` is set."""
    turn = await session.send("slow", message_id="slow")
    async for event in turn.events():
        if event.type == "tool_start":
            return turn
    raise AssertionError


@pytest.mark.parametrize("mode", ["queue", "steer"])
async def test_a_withdrawn_message_is_read_by_no_planner(client, traces, mode):
    """Its result says so, its event names who withdrew it, and what was sent after it is answered."""
    session = client.session("test.agent", f"withdraws-{mode}")
    first = await busy(session)
    gone = await session.send("gone", message_id="gone", mode=mode)
    last = await session.send("last")
    assert await session.withdraw("gone", by="ana") is True
    assert (await session.status()).queued == 1
    with pytest.raises(RunFailed, match="was withdrawn") as failed:
        await gone.result()
    assert failed.value.code == "withdrawn"
    release.set()
    assert (await first.result()).text == "slow"
    assert (await last.result()).text == "slow last"
    events = [event async for event in gone.events()]
    assert [event.type for event in events] == ["message_received", "message_withdrawn"]
    assert (events[-1].message_id, events[-1].by) == ("gone", "ana")
    await session.close()
    await session.run.result()
    await traces(session.run).check()


async def test_a_withdrawal_is_idempotent_and_final(client):
    """Withdrawn again it changes nothing, and sent again under its id the message stays withdrawn."""
    session = client.session("test.agent", "again")
    first = await busy(session)
    await session.send("gone", message_id="gone")
    assert [await session.withdraw("gone") for _ in range(3)] == [True, False, False]
    again = await session.send("gone", message_id="gone")
    assert again.is_repeated
    release.set()
    await first.result()
    with pytest.raises(RunFailed, match="was withdrawn"):
        await again.result()
    assert (await (await session.send("last")).result()).text == "slow last"


async def test_a_message_whose_turn_has_begun_stays(client):
    """Its sender learns to stop the turn, also once it has ended; an unknown message is refused too."""
    session = client.session("test.agent", "begun")
    first = await busy(session)
    with pytest.raises(AwaitClosed, match="its turn has begun; stop the turn instead"):
        await session.withdraw("slow")
    with pytest.raises(InvalidInput, match="there is no message"):
        await session.withdraw("nothing")
    release.set()
    await first.result()
    with pytest.raises(AwaitClosed, match="its turn has begun"):
        await session.withdraw("slow")


async def test_only_the_sender_or_an_operator_withdraws(client):
    """Another person of the tenant is refused, and the message still waits."""
    ana, eve = (Principal(subject=each, tenant="acme", roles=["user"]) for each in ("ana", "eve"))
    session = client.session("test.agent", "of-ana", principal=ana)
    first = await busy(session)
    for message_id in ("one", "two"):
        await session.send(message_id, message_id=message_id)
    others = client.session("test.agent", "of-ana", principal=eve)
    with pytest.raises(MissingRole, match="only the sender"):
        await others.withdraw("one")
    assert (await session.status()).queued == 2
    assert await others.withdraw("one", as_operator=True) is True
    assert await session.withdraw("two") is True
    release.set()
    await first.result()


async def test_a_paused_conversation_without_its_message_goes_on(client):
    """The message that was to open a turn is withdrawn while the run is paused: nothing is planned until the next one."""
    session = client.session("test.agent", "paused")
    await (await session.send("first")).result()
    await session.run.pause()
    await session.send("gone", message_id="gone")
    assert await session.withdraw("gone") is True
    await session.run.resume()
    assert (await (await session.send("last")).result()).text == "first last"


async def test_a_closed_conversation_ends_without_the_withdrawn_message(client):
    """What waits when a conversation is closed may still be withdrawn."""
    session = client.session("test.agent", "closed")
    first = await busy(session)
    gone = await session.send("gone", message_id="gone")
    await session.close("done")
    assert await session.withdraw("gone") is True
    release.set()
    assert (await first.result()).text == "slow"
    assert (await session.run.result()).reason == "closed"
    with pytest.raises(RunFailed, match="was withdrawn"):
        await gone.result()
