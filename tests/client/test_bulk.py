"""A retry of a run names its new run before any list has it, and never takes another run for it."""

import uuid

import pytest

from sojourn import Agent, App, AwaitClarification, PlanResult, Principal, RunPolicy, Turn
from sojourn.client.bulk import Retried, retry_once
from sojourn.errors import RunAlreadyExists


async def plan(_: Turn) -> PlanResult:
    """Ask."""
    return PlanResult.ask(AwaitClarification(id="which", question="Which site?"))


app = App(agents=[Agent("bulk.clerk", planner=plan, policy=RunPolicy(interrupts_allowed=True))])


@pytest.mark.parametrize("kind", ["run", "conversation"])
async def test_a_retry_has_the_same_id_whoever_asks(serve, status_when, kind):
    """The second one names the first, without a list; a run of this id that is no fork of the origin is refused."""
    client, ana = await serve(app), Principal(subject="ana", tenant="acme")

    async def canceled():
        if kind == "run":
            run = await client.start("bulk.clerk", "go", principal=ana)
        else:
            session = client.session("bulk.clerk", f"s-{uuid.uuid4().hex[:8]}", principal=ana)
            await session.send("go")
            run = session.run
        await status_when(run, lambda status: status.awaits)
        await run.cancel()
        await status_when(run, lambda status: status.closed_at)
        return run

    async def retry(run, origin):
        async def find(_):
            return []

        async def fork(new_id):
            return await client.fork(origin.id, new_run_id=new_id)

        return await retry_once(run, find=find, fork=fork)

    run, other = await canceled(), await canceled()
    first = await retry(run, run)
    assert not first.already
    assert await retry(run, run) == Retried(first.run_id, already=True)
    new = await status_when(client.get_run(first.run_id), lambda status: status.awaits)
    assert (new.forked_from.run_id, new.conversation, new.tenant) == (run.id, kind == "conversation", "acme")
    assert first.run_id.startswith("acme=clerk-" if kind == "run" else "bulk.clerk:acme@s-")
    await retry(other, run)  # under the id that a retry of the other would have
    with pytest.raises(RunAlreadyExists):
        await retry(other, other)
