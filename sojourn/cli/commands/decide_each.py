"""`sojourn decide` sends decisions on calls of several runs, from a file.

Each decision names its call by the digest of its arguments, as the list of open approvals has it. So the file
of a list, with a decision added to its lines, is what the command takes, and a call that changed meanwhile is
left alone.
"""

import json
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from sojourn.cli.arguments import parse_principal, read_lines
from sojourn.cli.client import by_or_user, with_client
from sojourn.cli.failure import FAILED, OK, USAGE, CommandError, failure_of
from sojourn.cli.options import By, DecideAs, Json, OnlyAgent, Role, add_connection_options
from sojourn.cli.screen.text import plain
from sojourn.values.json_text import loads

if TYPE_CHECKING:
    from sojourn.answers import Decision, DecisionResult, WaitRef
    from sojourn.client.client import Client
    from sojourn.contracts.principal import Principal

__all__ = ["decide"]

MOST_RUNS = 1_000
"""Most waiting runs that `--list` looks at."""


@add_connection_options
def decide(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="Decisions, one JSON object a line; - for standard input.",
            show_default=False,
        ),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="Print the open approvals of all runs, one JSON object a line.")
    ] = False,
    agent_id: OnlyAgent = None,
    by: By = None,
    subject: DecideAs = None,
    role: Role = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="TENANT", help="The tenant of --as.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Decide on calls of several runs, each by itself.

    A line has run_id, await_id, digest and approved, and perhaps reason and arguments, all those with which the call then runs.
    Other fields, such as payload, only show the call. Lines without approved are ignored.

    \b
    sojourn decide --list > waits.jsonl
    sojourn decide waits.jsonl
    sojourn decide --list | jq -c '.approved = (.payload.amount < 100)' | sojourn decide -
    """
    if (file is None) != list_:
        raise CommandError("give a FILE with decisions, or --list", exit_code=USAGE)
    if file is None:
        return with_client(lambda client: _list(client, agent_id))
    if agent_id is not None:
        raise CommandError("--agent goes with --list", exit_code=USAGE)
    principal = parse_principal(subject, role, tenant)
    decisions = _read(file)
    who = by or (principal.subject if principal else by_or_user(None))
    return with_client(lambda client: _send(client, decisions, who, principal, as_json=as_json))


async def _list(client: "Client", agent_id: str | None) -> int:
    from sojourn.answers import wait_view
    from sojourn.errors import RunNotFound, RunUnreadable

    found = client.list_runs(agent_id=agent_id, status="waiting", children=True, limit=MOST_RUNS)
    async for run in found:
        try:
            status = await client.get_run(run.run_id).status()
        except (RunNotFound, RunUnreadable):
            continue
        for wait in status.awaits:
            view = wait_view(wait, run.run_id, status=status)
            if view.call is not None:
                print(view.model_dump_json(exclude_none=True))
    return OK


async def _send(
    client: "Client",
    decisions: "list[tuple[WaitRef, Decision]]",
    who: str | None,
    principal: "Principal | None",
    *,
    as_json: bool,
) -> int:
    from sojourn.answers import decide_each

    results = await decide_each(client, decisions, by=who, principal=principal)
    for each in results:
        print(json.dumps(_to_json(each)) if as_json else _line(each))
    return FAILED if any(each.error for each in results) else OK


def _to_json(result: "DecisionResult") -> dict[str, Any]:
    fields = {"run_id": result.run_id, "await_id": result.await_id}
    if result.error is None:
        by = result.answered.by if result.answered else ""
        known = {"by": by, "left": result.left}
        done = {"done": result.outcome, "already": result.already}
        return {**fields, **done, **{name: value for name, value in known.items() if value}}
    failure = failure_of(result.error)
    return {**failure.more, **fields, "error": failure.name, "message": failure.message}


def _line(result: "DecisionResult") -> str:
    of = f"{plain(result.await_id)} of {plain(result.run_id, 300)}"
    if result.error is None:
        left = f"; {result.left} more to approve" if result.left else ""
        return f"{result.outcome}{' before' if result.already else ''}: {of}{left}"
    return f"left alone: {of}: {plain(failure_of(result.error).message, 500)}"


def _read(path: str) -> "list[tuple[WaitRef, Decision]]":
    place = "standard input" if path == "-" else plain(path)
    found: list[tuple[WaitRef, Decision]] = []
    for number, line in read_lines(path):
        if decision := _parse(line, f"line {number} of {place}"):
            found.append(decision)
    if not found:
        raise CommandError(f"{place} decides on nothing: no line has `approved`", exit_code=USAGE)
    return found


def _parse(line: str, place: str) -> "tuple[WaitRef, Decision] | None":
    """Return the decision of a line, or None if it leaves the call open."""
    from sojourn.answers import Decision, WaitRef

    try:
        value = loads(line)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{place} is not JSON: {plain(str(error))}", exit_code=USAGE) from error
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    approved = fields.get("approved")
    if fields and approved is None:
        return None
    if fault := _fault(fields):
        example = '{"run_id": "r", "await_id": "confirm-c", "digest": "3f1c...", "approved": true}'
        raise CommandError(f"{place} is no decision: {fault}; one looks like {example}", exit_code=USAGE)
    run_id, await_id, digest, reason = (fields.get(name, "") for name in _TEXTS)
    decision = Decision(approved is True, digest, reason, arguments=fields.get("arguments"))
    return WaitRef(run_id, await_id, digest), decision


_TEXTS = ("run_id", "await_id", "digest", "reason")


def _fault(fields: dict[str, Any]) -> str:
    """Return what is wrong with a line, or an empty text."""
    if not fields:
        return "it is no JSON object with fields"
    for name in _TEXTS:
        if not fields.get(name) and name != "reason":
            return f"`{name}` is missing"
        if not isinstance(fields.get(name, ""), str):
            return f"`{name}` is a text"
    if not isinstance(fields.get("arguments", {}), dict):
        return "`arguments` is an object"
    if "arguments" in fields and fields["approved"] is False:
        return "only an approval has `arguments`"
    return "" if isinstance(fields["approved"], bool) else "`approved` is true or false"
