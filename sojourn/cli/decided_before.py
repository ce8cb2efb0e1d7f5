"""What was decided about a call before: the same decision sent once more changes nothing, and is no error."""

from sojourn.cli.exit_codes import CommandError
from sojourn.cli.plain import plain
from sojourn.client.client import Client
from sojourn.contracts.event import AwaitAnsweredEvent

__all__ = ["decided_before"]


async def decided_before(
    client: Client, run_id: str, await_id: str, *, approved: bool, digest: str | None
) -> AwaitAnsweredEvent | None:
    """The decision that was taken, where it is this one; None where nothing was asked under this id.

    Raises:
        CommandError: another was taken, or it was about other arguments than those of the digest.
        RunNotFound: there is no such run.
    """
    about = ""
    async for event in client.get_run(run_id).events(follow=False, children=True):
        if event.type == "await_confirmation" and event.confirmation.id == await_id:
            about = event.confirmation.payload_digest
        elif event.type == "await_answered" and event.await_id == await_id and event.approved is not None:
            what = "approved" if event.approved else "denied"
            by = f" by {plain(event.by)}" if event.by else ""
            if event.approved != approved:
                raise CommandError(f"{plain(await_id)} was {what}{by} before", run_id=run_id)
            if digest not in (None, about):
                raise CommandError(
                    f"{plain(await_id)} was about other arguments than those of this digest", run_id=run_id
                )
            return event
    return None
