"""`sojourn approve` and `sojourn deny`: show a call that a person is asked about, ask, and send what was decided.

What is sent names the call and the arguments that were shown, so that it counts for no others.
"""

import sys
from dataclasses import dataclass

from sojourn.cli.answer_line import word
from sojourn.cli.call_shown import call_lines
from sojourn.cli.connected import by_or_user, with_client
from sojourn.cli.decided_before import decided_before
from sojourn.cli.done import tell_done
from sojourn.cli.encrypted import given_again
from sojourn.cli.exit_codes import USAGE, WAITING, CommandError
from sojourn.cli.open_waits import OpenWait, find_wait
from sojourn.cli.prompt import ask_yes
from sojourn.client.client import Client
from sojourn.contracts.awaits import AwaitConfirmation

__all__ = ["Decision", "run_decide"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What the command line says."""

    run_id: str
    await_id: str | None
    approved: bool
    why: str = ""
    by: str | None = None
    for_run: bool = False
    digest: str | None = None
    """Of the arguments, where they were seen elsewhere."""
    full: bool = False
    """Show all of them."""
    yes: bool = False
    """Do not ask."""
    as_json: bool = False

    @property
    def verb(self) -> str:
        """The command."""
        return "approve" if self.approved else "deny"


def run_decide(decision: Decision) -> int:
    """Show, ask and send; returns the exit code."""
    if (decision.yes or decision.digest) and decision.await_id is None:
        option = "--yes" if decision.yes else "--digest DIGEST"
        raise CommandError(
            f"{option.split(maxsplit=1)[0]} goes with the id of what was seen: "
            f"sojourn {decision.verb} {word(decision.run_id)} AWAIT_ID {option}{given_again()}",
            exit_code=USAGE,
        )
    who = by_or_user(decision.by)

    async def send(client: Client) -> int:
        try:
            found = await find_wait(client, decision.run_id, AwaitConfirmation, decision.await_id)
        except CommandError:
            if (done := await _once_more(client, decision)) is None:
                raise
            return done
        call = found.wait
        assert isinstance(call, AwaitConfirmation)
        digest = decision.digest or call.payload_digest
        lines, seen = call_lines(call, whole=decision.full)
        if decision.digest is None and not await _is_meant(decision, found, lines, is_whole=seen.is_whole):
            print("nothing was decided; the call waits")
            return WAITING
        run = client.get_run(found.run_id)
        if decision.approved:
            await run.approve(
                call.id, payload_digest=digest, by=who, reason=decision.why, for_run=decision.for_run
            )
        else:
            await run.deny(call.id, decision.why, payload_digest=digest, by=who)
        return tell_done(
            "approved" if decision.approved else "denied",
            run.id,
            as_json=decision.as_json,
            by=who,
            await_id=call.id,
            payload_digest=digest,
            shown=None if decision.digest else lines,
            for_run=True if decision.for_run else None,
        )

    return with_client(send)


async def _once_more(client: Client, decision: Decision) -> int | None:
    """Exit code of a decision that was taken before; None where there was none."""
    before = decision.await_id and await decided_before(
        client, decision.run_id, decision.await_id, approved=decision.approved, digest=decision.digest
    )
    if not before:
        return None
    done = "approved before" if decision.approved else "denied before"
    return tell_done(done, before.run_id, as_json=decision.as_json, by=before.by, await_id=before.await_id)


async def _is_meant(decision: Decision, found: OpenWait, lines: list[str], *, is_whole: bool) -> bool:
    """Whether a person who has seen the call decides so.

    Raises:
        CommandError: not all of what would be approved was shown, or nobody is there to be asked.
    """
    if not decision.as_json:
        print("\n".join(lines), flush=True)
    again = f"sojourn {decision.verb} {word(found.run_id)} {word(found.wait.id)}{given_again()}"
    missing = ""
    if decision.approved and not is_whole:
        missing = f"not all of what would run was shown; see all of it, and approve it, with `{again} --full`"
    elif not decision.yes and (decision.as_json or not sys.stdin.isatty()):
        missing = f"nobody is asked here; say that it was seen, with `{again} --yes`"
    if missing:
        raise CommandError(missing, exit_code=USAGE, **found.told(), shown=lines)
    everything = " it and all calls of its tool" if decision.for_run else ""
    return decision.yes or await ask_yes(f"{decision.verb.capitalize()}{everything}?")
