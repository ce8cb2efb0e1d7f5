"""`sojourn approve` and `sojourn deny` decide on a call that needs an approval.

The decision has the digest of the displayed arguments, so it is not valid for others.
"""

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from sojourn.cli.arguments import parse_principal
from sojourn.cli.client import by_or_user, print_answered, print_done, with_client
from sojourn.cli.failure import USAGE, WAITING, CommandError
from sojourn.cli.options import (
    By,
    DecideAs,
    Json,
    Role,
    RunId,
    add_connection_options,
    connection_options,
)
from sojourn.cli.screen.text import shell_word

if TYPE_CHECKING:
    from sojourn.answers import Answered, Decision, WaitView
    from sojourn.client.client import Client
    from sojourn.contracts.awaits import ApprovalScope, AwaitConfirmation
    from sojourn.contracts.principal import Principal
    from sojourn.errors import ApprovalVoid

__all__ = ["approve", "deny"]

AwaitId = Annotated[
    str | None,
    typer.Argument(
        metavar="AWAIT_ID", help="The id of the wait. Required if several are open.", show_default=False
    ),
]
FullOption = Annotated[bool, typer.Option("--full", help="Show the whole call, even if it is long.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask. Requires AWAIT_ID.")]
DigestOption = Annotated[
    str | None,
    typer.Option(
        "--digest",
        metavar="DIGEST",
        help="The digest of a call that you saw elsewhere. Requires AWAIT_ID. Shows and asks nothing.",
    ),
]
TenantOption = Annotated[
    str | None,
    typer.Option("--tenant", metavar="TENANT", help="The tenant of --as. Default: the run's."),
]
EditOption = Annotated[
    str | None,
    typer.Option(
        "--edit",
        metavar="JSON",
        help="Change these arguments, as a JSON object, and approve the call with them. The others stay as they are.",
    ),
]
WhyOption = Annotated[str, typer.Option("--why", metavar="WHY", help="The reason, for the planner.")]


@add_connection_options
def approve(
    run_id: RunId,
    await_id: AwaitId = None,
    full: FullOption = False,
    yes: YesOption = False,
    digest: DigestOption = None,
    for_run: Annotated[
        bool,
        typer.Option("--for-run", help="Also stop asking about this tool, as long as the policy allows."),
    ] = False,
    lift_taint: Annotated[
        bool,
        typer.Option(
            "--lift-taint",
            help="Also say that the texts from outside which are named with the call no longer count in this run.",
        ),
    ] = False,
    edit: EditOption = None,
    why: WhyOption = "",
    by: By = None,
    subject: DecideAs = None,
    role: Role = None,
    tenant: TenantOption = None,
    as_json: Json = False,
) -> int:
    """Show a call that waits for approval, and ask you whether to approve it.

    \b
    sojourn approve RUN
    sojourn approve RUN AWAIT_ID --full
    sojourn approve RUN AWAIT_ID --yes --for-run --by ana
    sojourn approve RUN AWAIT_ID --as ana --role finance
    sojourn approve RUN AWAIT_ID --edit '{"amount": 20}'
    """
    scope = _parse_scope(for_run=for_run, lift_taint=lift_taint)
    return _decide(
        DecideOptions(
            run_id,
            await_id,
            True,
            why,
            by,
            parse_principal(subject, role, tenant),
            scope=scope,
            edit=_parse_edit(edit, scope),
            digest=digest,
            full=full,
            yes=yes,
            as_json=as_json,
            has_tenant=tenant is not None,
        )
    )


@add_connection_options
def deny(
    run_id: RunId,
    await_id: AwaitId = None,
    full: FullOption = False,
    yes: YesOption = False,
    digest: DigestOption = None,
    why: WhyOption = "",
    by: By = None,
    subject: DecideAs = None,
    role: Role = None,
    tenant: TenantOption = None,
    as_json: Json = False,
) -> int:
    """Show a call that waits for approval, and ask you whether to deny it.

    The planner gets the reason.

    \b
    sojourn deny RUN --why "not before Monday"
    """
    return _decide(
        DecideOptions(
            run_id,
            await_id,
            False,
            why,
            by,
            parse_principal(subject, role, tenant),
            digest=digest,
            full=full,
            yes=yes,
            as_json=as_json,
            has_tenant=tenant is not None,
        )
    )


@dataclass(frozen=True, slots=True)
class DecideOptions:
    run_id: str
    await_id: str | None
    approved: bool
    why: str
    by: str | None
    principal: "Principal | None"
    """The principal who decides, if the user names one."""
    digest: str | None
    """The digest of a call that the user saw elsewhere."""
    full: bool
    """Whether to show the whole call."""
    yes: bool
    """Whether to send the decision without asking."""
    as_json: bool
    scope: "ApprovalScope" = "call"
    edit: dict[str, Any] | None = None
    """The arguments that the user changes."""
    has_tenant: bool = False
    """Whether the user names the principal's tenant."""

    @property
    def verb(self) -> str:
        return "approve" if self.approved else "deny"


_EXTENTS = {
    "call": "",
    "tool": " it and all calls of its tool",
    "sources": " it, and let what the run has read from outside no longer count",
}
"""What an approval is for, as the end of the question."""

_EDIT_EXAMPLE = """'{"amount": 20}'"""


def _parse_scope(*, for_run: bool, lift_taint: bool) -> "ApprovalScope":
    if for_run and lift_taint:
        raise CommandError("--for-run goes without --lift-taint", exit_code=USAGE)
    return "tool" if for_run else "sources" if lift_taint else "call"


def _parse_edit(text: str | None, scope: "ApprovalScope") -> dict[str, Any] | None:
    from sojourn.values.json_text import loads

    if text is None:
        return None
    try:
        given: Any = loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"--edit is no JSON, such as {_EDIT_EXAMPLE}: {error}", exit_code=USAGE) from error
    if scope != "call":
        option = "--for-run" if scope == "tool" else "--lift-taint"
        raise CommandError(f"--edit goes without {option}", exit_code=USAGE)
    if not isinstance(given, dict):
        raise CommandError(f"--edit is an object, such as {_EDIT_EXAMPLE}", exit_code=USAGE)
    return cast("dict[str, Any]", given)


def _merge(arguments: dict[str, Any], edit: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with those of an edit. Only objects are merged."""
    merged = dict(arguments)
    for name, value in edit.items():
        before = merged.get(name)
        both = isinstance(before, dict) and isinstance(value, dict)
        merged[name] = (
            _merge(cast("dict[str, Any]", before), cast("dict[str, Any]", value)) if both else value
        )
    return merged


def _decide(options: DecideOptions) -> int:
    who = options.by or (options.principal.subject if options.principal else by_or_user(None))

    async def send(client: "Client") -> int:
        from sojourn.answers import Decision, submit
        from sojourn.cli.screen.waits import call_lines, edit_lines
        from sojourn.cli.waits import find_wait
        from sojourn.errors import ApprovalVoid

        decision = Decision(options.approved, options.digest, options.why, options.scope, options.edit)
        try:
            found = await find_wait(
                client,
                options.run_id,
                lambda wait: wait.call is not None,
                options.await_id,
                command=options.verb,
                noun="an approval",
                is_shown=True,
            )
            _require_id(options, found)
        except CommandError:
            earlier = await _find_earlier(client, options, decision)
            if earlier is None:
                raise
            return print_answered(earlier, as_json=options.as_json)
        call = found.call
        assert call is not None
        lines, seen = call_lines(found, whole=options.full)
        if options.edit is not None:
            decision = replace(decision, arguments=_merge(call.payload, options.edit))
            lines += edit_lines(found, decision.arguments or {})
        if options.digest is None and not await _is_confirmed(options, found, lines, is_whole=seen.is_whole):
            print("no decision was sent; the call still waits")
            return WAITING
        run = client.get_run(found.run_id)
        try:
            done = await submit(run, _of_the_tenant(options, call), found, decision, by=who, trusted=True)
        except ApprovalVoid as void:
            raise _with_command(void) from void
        if done.already:
            return print_answered(done, as_json=options.as_json, left=done.left or None)
        return print_done(
            done.outcome,
            run.id,
            as_json=options.as_json,
            by=who,
            await_id=call.id,
            digest=options.digest or found.digest,
            shown=None if options.digest else lines,
            for_run=True if options.scope == "tool" else None,
            arguments=decision.arguments,
            left=done.left or None,
            then=f"{done.left} more to approve" if done.left else "",
        )

    return with_client(send)


async def _find_earlier(client: "Client", options: DecideOptions, decision: "Decision") -> "Answered | None":
    """Return the same decision if it was sent before, or None."""
    from sojourn.answers import find_earlier_answer
    from sojourn.errors import ApprovalVoid

    if options.await_id is None:
        return None

    def decision_on(view: "WaitView") -> "Decision":
        if options.edit is None or view.call is None:
            return decision
        return replace(decision, arguments=_merge(view.call.payload, options.edit))

    try:
        return await find_earlier_answer(
            client.get_run(options.run_id),
            None,
            lambda view: view.call is not None and view.await_id == options.await_id,
            decision_on,
        )
    except ApprovalVoid as void:
        raise _with_command(void) from void


def _of_the_tenant(options: DecideOptions, call: "AwaitConfirmation") -> "Principal | None":
    principal, asker = options.principal, call.asked_by
    if principal is None or asker is None or options.has_tenant:
        return principal
    return principal.model_copy(update={"tenant": asker.tenant})


def _require_id(options: DecideOptions, found: "WaitView") -> None:
    """Check that a decision sent without asking names its call."""
    from sojourn.cli.waits import list_waits, to_json

    if options.await_id is None and (options.yes or options.digest):
        option, run_id = "--yes" if options.yes else "--digest", options.run_id
        title = f"{option} needs the id of the call that you saw; {run_id} waits for:"
        raise CommandError(
            list_waits(title, [found], options.verb),
            exit_code=USAGE,
            run_id=run_id,
            open=[to_json(found, options.verb)],
        )


def _with_command(void: "ApprovalVoid") -> "ApprovalVoid":
    """Return the error with the command that shows the call and decides again."""
    if void.await_id is None or void.run_id is None:
        return void
    line = f"sojourn approve {shell_word(void.run_id)} {shell_word(void.await_id)}{connection_options()}"
    return type(void)(f"{void}: {line}", run_id=void.run_id, await_id=void.await_id, changes=void.changes)


async def _is_confirmed(
    options: DecideOptions, found: "WaitView", lines: list[str], *, is_whole: bool
) -> bool:
    from sojourn.cli.screen.prompt import ask_yes
    from sojourn.cli.waits import to_json

    if not options.as_json:
        print("\n".join(lines), flush=True)
    to = f"{shell_word(found.run_id)} {shell_word(found.await_id)}{_as_whom(options, found)}"
    again = f"sojourn {options.verb} {to}{connection_options()}"
    missing = ""
    if options.approved and not is_whole:
        missing = f"the call was not shown whole; to see all of it and approve it, use `{again} --full`"
    elif not options.yes and (options.as_json or not sys.stdin.isatty()):
        missing = f"there is no terminal to ask at; if you have seen the call, use `{again} --yes`"
    if missing:
        open_waits = [to_json(found, options.verb)]
        raise CommandError(missing, exit_code=USAGE, run_id=found.run_id, open=open_waits, shown=lines)
    everything = _EXTENTS[options.scope]
    everything = " it with these changes" if options.edit is not None else everything
    if options.yes:
        return True
    other = f"; to deny it: sojourn deny {to}{connection_options()} --why WHY" if options.approved else ""
    return await ask_yes(f"{options.verb.capitalize()}{everything}?", f"y, or n, which sends nothing{other}")


def _as_whom(options: DecideOptions, view: "WaitView") -> str:
    if (principal := options.principal) is not None:
        tenant = f" --tenant {shell_word(principal.tenant)}" if options.has_tenant else ""
        roles = "".join(f" --role {shell_word(role)}" for role in principal.roles)
        return f" --as {shell_word(principal.subject)}{tenant}{roles}"
    return f" --as SUBJECT {view.role_options}" if view.is_restricted else ""
