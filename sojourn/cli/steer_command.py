"""`sojourn pause`, `resume` and `cancel`: what an operator tells a run."""

from collections.abc import Sequence

from sojourn.cli.connected import by_or_user, with_client
from sojourn.cli.done import tell_done
from sojourn.cli.exit_codes import CommandError
from sojourn.cli.open_waits import require_worker
from sojourn.client.client import Client
from sojourn.contracts.run import RunStatus

__all__ = ["run_cancel", "run_pause", "run_resume"]

_OPEN = ("running", "waiting", "paused")


def run_pause(run_id: str, why: str, *, by: str | None, as_json: bool) -> int:
    """Start nothing new; returns the exit code."""
    who = by_or_user(by)

    async def send(client: Client) -> int:
        run = client.get_run(run_id)
        require_worker(await _open(client, run_id, "pause"))
        await run.pause(why, by=who)
        return tell_done("paused", run_id, as_json=as_json, by=who)

    return with_client(send)


def run_resume(run_id: str, note: str, *, messages: Sequence[str], by: str | None, as_json: bool) -> int:
    """Go on; returns the exit code."""
    who = by_or_user(by)

    async def send(client: Client) -> int:
        run = client.get_run(run_id)
        status = await _open(client, run_id, "resume")
        if status.status != "paused":
            raise CommandError(
                f"{run_id} is not paused, it is {status.status}; pause it with `sojourn pause`", run_id=run_id
            )
        require_worker(status)
        await run.resume(note, messages=messages, by=who)
        return tell_done("resumed", run_id, as_json=as_json, by=who)

    return with_client(send)


def run_cancel(run_id: str, why: str, *, by: str | None, as_json: bool) -> int:
    """Ask the run to cancel, which needs no worker to be recorded; returns the exit code."""
    who = by_or_user(by)

    async def send(client: Client) -> int:
        await _open(client, run_id, "cancel")
        reason = " ".join(part for part in (why, f"(by {who})" if who else "") if part)
        await client.get_run(run_id).cancel(reason)
        return tell_done("cancel_requested", run_id, as_json=as_json, by=who)

    return with_client(send)


async def _open(client: Client, run_id: str, verb: str) -> RunStatus:
    """How the run stands.

    Raises:
        CommandError: it has ended.
        RunNotFound: there is no such run.
    """
    status = await client.get_run(run_id).status()
    if status.status not in _OPEN:
        raise CommandError(f"{run_id} has ended ({status.status}); there is nothing to {verb}", run_id=run_id)
    return status
