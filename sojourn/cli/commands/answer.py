"""`sojourn answer` answers a question, and `provide` gives results of calls."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from sojourn.cli.arguments import answerer, parse_principal, read_file, read_text
from sojourn.cli.client import by_or_user, print_answered, print_done, with_client
from sojourn.cli.failure import USAGE, CommandError
from sojourn.cli.options import As, By, Json, RunId, add_connection_options
from sojourn.cli.screen.text import plain, shell_word
from sojourn.values.json_text import DuplicateNameError, loads

if TYPE_CHECKING:
    from sojourn.answers import GivenAnswer, WaitView
    from sojourn.client.client import Client

__all__ = ["answer", "provide"]


@add_connection_options
def answer(
    run_id: RunId,
    await_id: Annotated[
        str | None,
        typer.Argument(
            metavar="AWAIT_ID", help="The question's id. Required if several are open.", show_default=False
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="TEXT",
            help="The answer, or - for standard input. Put several words in quotes.",
            show_default=False,
        ),
    ] = None,
    fields: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="NAME=VALUE", help="Answer by field. Can be given several times."),
    ] = None,
    json_values: Annotated[
        str | None, typer.Option("--json-values", metavar="OBJECT", help="Answer by field, as JSON.")
    ] = None,
    decline: Annotated[bool, typer.Option("--decline", help="Decline to answer the question.")] = False,
    why: Annotated[str, typer.Option("--why", metavar="WHY", help="With --decline: the reason.")] = "",
    by: By = None,
    subject: As = None,
    as_json: Json = False,
) -> int:
    """Answer a question of a run, or of a child run.

    \b
    sojourn answer RUN "next Tuesday"
    sojourn answer RUN --field site=s-1 --field urgent=true
    sojourn answer RUN --field to.city=Bonn --field 'tags[]=new' --field 'tags[]=paid'
    sojourn answer RUN --decline --why "not mine to say"
    """
    from sojourn.forms import parse_pairs

    words = [word for word in (await_id, text) if word is not None]
    await_id, text = _read_words(words, is_given=bool(fields or json_values is not None or decline))
    if bool(fields) + (json_values is not None) + decline > 1:
        raise CommandError("give only one of TEXT, --field, --json-values and --decline", exit_code=USAGE)
    if why and not decline:
        raise CommandError("--why needs --decline; the answer itself is TEXT", exit_code=USAGE)
    values = None if json_values is None else _object(json_values)
    pairs = [_field_pair(field) for field in fields or ()]
    named = parse_principal(subject)
    who = by_or_user(subject if by is None else by)

    async def send(client: "Client") -> int:
        from sojourn.answers import find_earlier_answer, parse_payload, submit
        from sojourn.cli.waits import find_wait

        def read(wait: "WaitView") -> "GivenAnswer":
            try:
                typed = parse_pairs(wait.form, pairs)
            except ValueError as error:
                raise CommandError(f"--field: {error}", exit_code=USAGE) from error
            by_field = typed if values is None else values
            return parse_payload(wait, by_field if text is None else text, declined=decline, reason=why)

        def is_it(wait: "WaitView") -> bool:
            return wait.takes_words and wait.await_id == await_id

        try:
            found = await find_wait(
                client, run_id, lambda wait: wait.takes_words, await_id, command="answer", noun="a question"
            )
        except CommandError:
            run = client.get_run(run_id)
            earlier = await_id and await find_earlier_answer(run, None, is_it, read)
            if not earlier:
                raise
            return print_answered(earlier, as_json=as_json)
        run = client.get_run(found.run_id)
        principal = await answerer(client, run.id, named)
        done = await submit(run, principal, found, read(found), by=who, trusted=True)
        return print_answered(done, as_json=as_json)

    return with_client(send)


def _read_words(words: Sequence[str], *, is_given: bool) -> tuple[str | None, str | None]:
    """Return the wait's id and the text. With an option, a single word is the id."""
    if len(words) > (1 if is_given else 2):
        raise CommandError(
            "an answer is one TEXT: put several words in quotes"
            if not is_given
            else "give either TEXT, or one of --field, --json-values and --decline",
            exit_code=USAGE,
        )
    if is_given:
        return (words[0] if words else None), None
    if not words:
        raise CommandError("give the answer: TEXT, --field, --json-values or --decline", exit_code=USAGE)
    return (words[0] if len(words) == 2 else None), read_text(words[-1])


def _object(text: str) -> dict[str, Any]:
    try:
        value = loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"--json-values is not JSON: {error}", exit_code=USAGE) from error
    if not isinstance(value, dict):
        raise CommandError("--json-values must be an object of values by field", exit_code=USAGE)
    return cast("dict[str, Any]", value)


def _field_pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise CommandError(f"--field {text!r} is not NAME=VALUE", exit_code=USAGE)
    return name, value


Result = dict[str, Any]

MAX_RESULTS = 16_000_000
"""Most bytes of a file of results."""


@add_connection_options
def provide(
    run_id: RunId,
    await_id: Annotated[
        str | None,
        typer.Argument(
            metavar="AWAIT_ID", help="The id of the wait. A single word is the FILE.", show_default=False
        ),
    ] = None,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help='JSON, or - for standard input: {"tool_call_id": ..., "result": ...} or "error"; one, a list, or one a line.',
            show_default=False,
        ),
    ] = None,
    results: Annotated[
        list[str] | None,
        typer.Option(
            "--result",
            metavar="CALL=JSON",
            help="""The result of one call, a text as 'CALL="abc"'. Can be given several times.""",
        ),
    ] = None,
    errors: Annotated[
        list[str] | None,
        typer.Option(
            "--error", metavar="CALL=TEXT", help="The error of one call. Can be given several times."
        ),
    ] = None,
    by: By = None,
    subject: As = None,
    as_json: Json = False,
) -> int:
    """Send results of calls that a program outside the run executes.

    Without results, it lists the calls that the run waits for.

    \b
    sojourn provide RUN --result call-1=2.5
    sojourn provide RUN --result 'call-1="a text"'
    sojourn provide RUN results.json
    sojourn provide RUN AWAIT_ID results.json
    """
    if file is None and await_id is not None and (not (results or errors) or _is_source(await_id)):
        await_id, file = None, await_id  # a single word is the file
    sent = [
        *(_from_source(file) if file is not None else ()),
        *(
            {"tool_call_id": call_id, "result": _result(call_id, text)}
            for call_id, text in map(_call_pair, results or ())
        ),
        *({"tool_call_id": call_id, "error": text} for call_id, text in map(_call_pair, errors or ())),
    ]
    named = parse_principal(subject)
    who = by_or_user(subject if by is None else by)

    async def send(client: "Client") -> int:
        from sojourn.answers import Results, find_earlier_answer, open_waits, submit
        from sojourn.cli.waits import command_of, nothing_open, require_worker, to_json

        status = await client.get_run(run_id).status()
        found = open_waits(status)
        waits = [wait for wait in found if wait.kind == "tool_results" and await_id in (None, wait.await_id)]
        call_ids = {str(result["tool_call_id"]) for result in sent}

        def is_it(wait: "WaitView") -> bool:
            return await_id in (None, wait.await_id) and call_ids <= {
                each.tool_call_id for each in wait.calls
            }

        if sent and not waits:
            run = client.get_run(run_id)
            if earlier := await find_earlier_answer(run, None, is_it, lambda _wait: Results(sent)):
                return print_answered(earlier, as_json=as_json, tool_call_ids=sorted(call_ids))
        if found and not waits:
            raise CommandError(
                f"{run_id} waits for no results from outside, but for {found[0].noun}; "
                f"answer with: {command_of(found[0])}",
                run_id=run_id,
            )
        if not found:
            code = "unknown_wait" if status.is_open else "run_ended"
            raise CommandError(nothing_open(status), code=code, run_id=run_id)
        if not sent:
            raise CommandError(
                _list_calls(run_id, waits),
                exit_code=USAGE,
                run_id=run_id,
                open=[to_json(wait) for wait in waits],
            )
        require_worker(status)
        principal = await answerer(client, run_id, named)
        given = [call.tool_call_id for call in status.calls]
        parts = _by_wait(run_id, waits, sent, given)
        done = [
            await submit(client.get_run(wait.run_id), principal, wait, Results(part), by=who, trusted=True)
            for wait, part in parts
        ]
        calls = [result["tool_call_id"] for result in sent]
        if len(done) == 1:
            return print_answered(done[0], as_json=as_json, tool_call_ids=calls)
        return print_done("provided", run_id, as_json=as_json, by=who, tool_call_ids=calls)

    return with_client(send)


def _is_source(word: str) -> bool:
    from pathlib import Path

    return word == "-" or Path(word).is_file()


def _list_calls(run_id: str, waits: "Sequence[WaitView]") -> str:
    from sojourn.cli.waits import answer_lines, lines_of

    lines = [f"  {line}" for wait in waits for line in (*lines_of(wait), *answer_lines(wait)[1:])]
    return "\n".join([f"{run_id} waits for results; give a FILE, --result or --error:", *lines])


def _by_wait(
    run_id: str, waits: "Sequence[WaitView]", sent: Sequence[Result], known: Sequence[str]
) -> "list[tuple[WaitView, list[Result]]]":
    from sojourn.cli.waits import to_json

    parts: list[tuple[WaitView, list[Result]]] = [(wait, []) for wait in waits]
    for result in sent:
        call_id = result.get("tool_call_id")
        places = [part for wait, part in parts if any(call.tool_call_id == call_id for call in wait.calls)]
        if not places and len(parts) == 1 and call_id in known:
            places = [parts[0][1]]  # it has a result, which the run compares with this one
        if len(places) != 1:
            fault = (
                "waits in several child runs; give the id of the child run"
                if places
                else "does not wait here"
            )
            raise CommandError(
                f"call {plain(call_id)} {fault}; {_list_calls(run_id, waits)}",
                exit_code=USAGE,
                run_id=run_id,
                open=[to_json(wait) for wait in waits],
            )
        places[0].append(result)
    return [(wait, part) for wait, part in parts if part]


def _from_source(source: str) -> list[Result]:
    text = read_file(source, limit=MAX_RESULTS)
    try:
        value: Any = loads(text)
    except DuplicateNameError as error:
        raise CommandError(f"{plain(source)}: {error}", exit_code=USAGE) from error
    except (ValueError, RecursionError):
        value = [_json(line, f"correct that in {source}") for line in text.split("\n") if line.strip()]
    found = cast("list[Any]", value) if isinstance(value, list) else [value]
    for result in found:
        if not isinstance(result, dict) or "tool_call_id" not in result:
            raise CommandError(
                f'{source}: a result must be {{"tool_call_id": ..., "result": ...}}, or with "error", '
                f"not {plain(result, 80)}",
                exit_code=USAGE,
            )
    return cast("list[Result]", found)


def _call_pair(text: str) -> tuple[str, str]:
    call_id, equals, value = text.partition("=")
    if not (call_id and equals):
        raise CommandError(f"{text!r} is not CALL=VALUE", exit_code=USAGE)
    return call_id, value


def _result(call_id: str, text: str) -> Any:
    """Parse the value of `--result`, whose quotes the shell has usually removed."""
    as_text = shell_word(f"{call_id}={json.dumps(text[:80], ensure_ascii=False)}")
    return _json(text, f"if it is a text, quote it twice: --result {as_text}")


def _json(text: str, advice: str) -> Any:
    try:
        return loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{plain(text, 80)} is not JSON ({error}); {advice}", exit_code=USAGE) from error
