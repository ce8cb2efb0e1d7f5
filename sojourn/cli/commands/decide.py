"""`sojourn approve` and `sojourn deny`: show a call that waits for an approval, ask, and send the decision.

The decision contains the digest of the arguments that were shown, so it is not valid for others.
"""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.cli.acting import principal_of
from sojourn.cli.client import by_or_user, print_done, with_client
from sojourn.cli.failure import USAGE, WAITING, CommandError
from sojourn.cli.options import By, Json, RunId, connected, connection_options
from sojourn.cli.screen.text import plain, shell_word

if TYPE_CHECKING:
    from sojourn.cli.waits import OpenWait
    from sojourn.client.client import Client
    from sojourn.contracts.awaits import Await, AwaitConfirmation
    from sojourn.contracts.event import AwaitAnsweredEvent, AwaitConfirmationEvent, ToolEndEvent
    from sojourn.contracts.principal import Principal
    from sojourn.errors import ApprovalVoid

__all__ = ["approve", "deny"]

AwaitId = Annotated[
    str | None,
    typer.Argument(
        metavar="AWAIT_ID", help="The id of the wait; needed when several are open.", show_default=False
    ),
]
FullOption = Annotated[bool, typer.Option("--full", help="Show the whole call, however long.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask; needs AWAIT_ID.")]
DigestOption = Annotated[
    str | None,
    typer.Option(
        "--digest",
        metavar="DIGEST",
        help="The payload_digest of a call that you saw elsewhere; needs AWAIT_ID, shows and asks nothing.",
    ),
]
AsOption = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="SUBJECT",
        help="Decide as this principal, for a call of which a tool or a policy says who may decide; recorded, and not proved.",
    ),
]
RoleOption = Annotated[
    list[str] | None, typer.Option("--role", metavar="ROLE", help="A role of --as; may be repeated.")
]
TenantOption = Annotated[
    str | None,
    typer.Option("--tenant", metavar="TENANT", help="The tenant of --as; that of the run if left out."),
]
WhyOption = Annotated[str, typer.Option("--why", metavar="WHY", help="The reason; the planner reads it.")]


@connected
def approve(
    run_id: RunId,
    await_id: AwaitId = None,
    full: FullOption = False,
    yes: YesOption = False,
    digest: DigestOption = None,
    for_run: Annotated[
        bool, typer.Option("--for-run", help="Also stop asking about this tool, as long as the policy lets.")
    ] = False,
    why: WhyOption = "",
    by: By = None,
    subject: AsOption = None,
    role: RoleOption = None,
    tenant: TenantOption = None,
    as_json: Json = False,
) -> int:
    """Approve a call that waits for a person: shows it, and asks you first.

    \b
    sojourn approve RUN
    sojourn approve RUN AWAIT_ID --full
    sojourn approve RUN AWAIT_ID --yes --for-run --by ana
    sojourn approve RUN AWAIT_ID --as ana --role finance
    """
    return _decide(
        Decision(
            run_id,
            await_id,
            True,
            why,
            by,
            principal_of(subject, role, tenant),
            for_run=for_run,
            digest=digest,
            full=full,
            yes=yes,
            as_json=as_json,
            has_tenant=tenant is not None,
        )
    )


@connected
def deny(
    run_id: RunId,
    await_id: AwaitId = None,
    full: FullOption = False,
    yes: YesOption = False,
    digest: DigestOption = None,
    why: WhyOption = "",
    by: By = None,
    subject: AsOption = None,
    role: RoleOption = None,
    tenant: TenantOption = None,
    as_json: Json = False,
) -> int:
    """Deny a call that waits for a person: shows it, and asks you first. The planner gets the reason.

    \b
    sojourn deny RUN --why "not before Monday"
    """
    return _decide(
        Decision(
            run_id,
            await_id,
            False,
            why,
            by,
            principal_of(subject, role, tenant),
            digest=digest,
            full=full,
            yes=yes,
            as_json=as_json,
            has_tenant=tenant is not None,
        )
    )


@dataclass(frozen=True, slots=True)
class Decision:
    """The arguments and options of the command."""

    run_id: str
    await_id: str | None
    approved: bool
    why: str
    by: str | None
    principal: "Principal | None"
    """As whom, where the caller says."""
    digest: str | None
    """The payload_digest of a call that was seen elsewhere."""
    full: bool
    """Whether to show all of the call."""
    yes: bool
    """Whether to send the decision without asking."""
    as_json: bool
    for_run: bool = False
    has_tenant: bool = False
    """Whether the caller names the principal's tenant."""

    @property
    def verb(self) -> str:
        """The name of the command."""
        return "approve" if self.approved else "deny"

    @property
    def done(self) -> str:
        """The decision in the past tense."""
        return "approved" if self.approved else "denied"


def _decide(decision: Decision) -> int:
    """Show the call, ask, send the decision, and return the exit code."""
    who = decision.by or (decision.principal.subject if decision.principal else by_or_user(None))

    async def send(client: "Client") -> int:
        from sojourn.cli.screen.wait_views import call_lines
        from sojourn.cli.waits import find_wait
        from sojourn.contracts.awaits import AwaitConfirmation
        from sojourn.errors import ApprovalVoid

        try:
            found = await find_wait(
                client, decision.run_id, AwaitConfirmation, decision.await_id, command=decision.verb
            )
            _require_id(decision, found)
        except CommandError:
            earlier = await _decided_before(client, decision)
            if earlier is None:
                raise
            done, by = f"{decision.done} before", earlier.by
            return print_done(
                done, earlier.run_id, as_json=decision.as_json, by=by, await_id=earlier.await_id
            )
        call = found.wait
        assert isinstance(call, AwaitConfirmation)
        principal = _of_the_tenant(decision, call)
        digest = decision.digest or call.payload_digest
        lines, seen = call_lines(call, whole=decision.full)
        if decision.digest is None and not await _is_confirmed(
            decision, found, lines, is_whole=seen.is_whole
        ):
            print("no decision was sent; the call still waits")
            return WAITING
        run = client.get_run(found.run_id)
        if decision.approved:
            try:
                await run.approve(
                    call.id,
                    payload_digest=digest,
                    by=who,
                    principal=principal,
                    reason=decision.why,
                    for_run=decision.for_run,
                )
            except ApprovalVoid as void:
                raise _with_command(void, run.id) from void
        else:
            await run.deny(call.id, decision.why, payload_digest=digest, by=who, principal=principal)
        return print_done(
            decision.done,
            run.id,
            as_json=decision.as_json,
            by=who,
            await_id=call.id,
            payload_digest=digest,
            shown=None if decision.digest else lines,
            for_run=True if decision.for_run else None,
        )

    return with_client(send)


def _of_the_tenant(decision: Decision, call: "AwaitConfirmation") -> "Principal | None":
    """The principal of the decision, of the run's own tenant where the caller names none."""
    principal, asker = decision.principal, call.asked_by
    if principal is None or asker is None or decision.has_tenant:
        return principal
    return principal.model_copy(update={"tenant": asker.tenant})


def _require_id(decision: Decision, found: "OpenWait") -> None:
    """Check that a decision that is sent without a question names its call.

    Raises:
        CommandError: `--yes` or `--digest` was given without an id; with the call that is open.
    """
    from sojourn.cli.waits import listed

    if decision.await_id is None and (decision.yes or decision.digest):
        option, run_id = "--yes" if decision.yes else "--digest", decision.run_id
        title = f"{option} needs the id of the call that you saw; {run_id} waits for:"
        raise CommandError(
            listed(title, [found], decision.verb),
            exit_code=USAGE,
            run_id=run_id,
            open=[found.to_json(decision.verb)],
        )


async def _decided_before(client: "Client", decision: Decision) -> "AwaitAnsweredEvent | None":
    """Return the event of an earlier decision that was the same; None if nothing was decided under this id.

    Raises:
        ApprovalVoid: The tool was changed since the earlier approval.
        CommandError: The earlier decision was the opposite, or was about other arguments than those of the digest.
        RunNotFound: There is no such run.
    """
    from sojourn.errors import ApprovalVoid

    if decision.await_id is None:
        return None
    run_id, await_id, about = decision.run_id, decision.await_id, ""
    asked: AwaitConfirmationEvent | None = None
    earlier: AwaitAnsweredEvent | None = None
    async for event in client.get_run(run_id).events(follow=False, children=True):
        if event.type == "await_confirmation" and event.confirmation.id == await_id:
            asked = event
            about = event.confirmation.payload_digest
        elif event.type == "await_confirmation" and earlier and _asks_again(event, earlier):
            again = event.confirmation
            changed = "; ".join(again.changes)
            void = ApprovalVoid(
                f"the approval is void: the tool was changed since it was shown ({changed}); "
                f"look at {again.id}, and decide on it",
                run_id=event.run_id,
                await_id=again.id,
                changes=again.changes,
            )
            raise _with_command(void, event.run_id)
        elif event.type == "tool_end" and asked and earlier and _is_void(event, asked):
            raise ApprovalVoid(
                f"the approval is void: {event.error and event.error.message}", run_id=event.run_id
            )
        elif event.type == "await_answered" and event.await_id == await_id and event.approved is not None:
            if event.approved != decision.approved:
                by = f" by {plain(event.by)}" if event.by else ""
                what = "approved" if event.approved else "denied"
                raise CommandError(f"{plain(await_id)} was already {what}{by}", run_id=run_id)
            if decision.digest not in (None, about):
                raise CommandError(
                    f"{plain(await_id)} was about other arguments than those of this digest", run_id=run_id
                )
            earlier = event
    return earlier


def _with_command(void: "ApprovalVoid", run_id: str) -> "ApprovalVoid":
    """The error with the command by which the call is shown and decided on anew, where it is asked about again."""
    if void.await_id is None:
        return void
    line = f"sojourn approve {shell_word(run_id)} {shell_word(void.await_id)}{connection_options()}"
    return type(void)(f"{void}: {line}", run_id=run_id, await_id=void.await_id, changes=void.changes)


def _asks_again(event: "AwaitConfirmationEvent", earlier: "AwaitAnsweredEvent") -> bool:
    """Whether an event asks again about the call of an earlier approval, because its tool was changed."""
    asked, (first, _, _) = event.confirmation, earlier.await_id.partition("#")
    return bool(asked.changes) and event.run_id == earlier.run_id and asked.id.startswith(f"{first}#")


async def _is_confirmed(decision: Decision, found: "OpenWait", lines: list[str], *, is_whole: bool) -> bool:
    """Print the call, and ask the person to confirm the decision, unless `--yes` is given.

    Raises:
        CommandError: The call would be approved without being shown whole, or there is no terminal to ask at.
    """
    from sojourn.cli.screen.prompt import ask_yes

    if not decision.as_json:
        print("\n".join(lines), flush=True)
    to = f"{shell_word(found.run_id)} {shell_word(found.wait.id)}{_as_whom(decision, found.wait)}"
    again = f"sojourn {decision.verb} {to}{connection_options()}"
    missing = ""
    if decision.approved and not is_whole:
        missing = f"the call was not shown whole; to see all of it and approve it, use `{again} --full`"
    elif not decision.yes and (decision.as_json or not sys.stdin.isatty()):
        missing = f"there is no terminal to ask at; if you have seen the call, use `{again} --yes`"
    if missing:
        raise CommandError(missing, exit_code=USAGE, **found.to_json(decision.verb), shown=lines)
    everything = " it and all calls of its tool" if decision.for_run else ""
    return decision.yes or await ask_yes(f"{decision.verb.capitalize()}{everything}?")


def _as_whom(decision: Decision, call: "Await") -> str:
    """Return the options that name the principal, as they were given, or as the call needs them."""
    from sojourn.contracts.awaits import AwaitConfirmation
    from sojourn.core.awaits.confirmation import role_options
    from sojourn.core.awaits.deciding import is_restricted

    if (principal := decision.principal) is not None:
        tenant = f" --tenant {shell_word(principal.tenant)}" if decision.has_tenant else ""
        roles = "".join(f" --role {shell_word(role)}" for role in principal.roles)
        return f" --as {shell_word(principal.subject)}{tenant}{roles}"
    if isinstance(call, AwaitConfirmation) and is_restricted(call):
        return f" --as SUBJECT {role_options(call)}"
    return ""


def _is_void(event: "ToolEndEvent", asked: "AwaitConfirmationEvent") -> bool:
    """Whether a call ended without having run, because its tool is not the one that was shown."""
    from sojourn.core.awaits.confirmation import is_void

    is_its_call = event.tool_call_id == asked.confirmation.tool_call_id and event.run_id == asked.run_id
    return is_its_call and is_void(event.result)
