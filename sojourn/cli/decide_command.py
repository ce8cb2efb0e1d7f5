"""`sojourn approve` and `sojourn deny`: decide on a call that a person is asked about."""

from sojourn.cli.connected import by_or_user, with_client
from sojourn.cli.done import tell_done
from sojourn.cli.open_waits import find_wait
from sojourn.client import Client
from sojourn.contracts.awaits import AwaitConfirmation

__all__ = ["run_decide"]


def run_decide(
    run_id: str,
    await_id: str | None,
    *,
    approved: bool,
    why: str,
    by: str | None,
    as_json: bool,
    for_run: bool = False,
) -> int:
    """Send the decision on one call; returns the exit code."""
    who = by_or_user(by)

    async def send(client: Client) -> int:
        found = await find_wait(client, run_id, AwaitConfirmation, await_id)
        run, call = client.get_run(found.run_id), found.wait
        if approved:
            await run.approve(call.id, by=who, reason=why, for_run=for_run)
        else:
            await run.deny(call.id, why, by=who)
        done = "approved" if approved else "denied"
        return tell_done(
            done, run.id, as_json=as_json, by=who, await_id=call.id, for_run=True if for_run else None
        )

    return with_client(send)
