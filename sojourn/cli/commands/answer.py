"""`sojourn answer` answers a question of a run, or declines to."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from sojourn.cli.acting import answerer, principal_of
from sojourn.cli.client import by_or_user, print_done, with_client
from sojourn.cli.failure import USAGE, CommandError
from sojourn.cli.options import As, By, Json, RunId, connected
from sojourn.values.json_text import loads

if TYPE_CHECKING:
    from sojourn.client.client import Client

__all__ = ["answer"]


@connected
def answer(
    run_id: RunId,
    await_id: Annotated[
        str | None,
        typer.Argument(
            metavar="AWAIT_ID", help="The question's id; needed when several are open.", show_default=False
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="The answer; put several words in quotes.", show_default=False),
    ] = None,
    fields: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="NAME=VALUE", help="Answer by field; can be given several times."),
    ] = None,
    json_values: Annotated[
        str | None, typer.Option("--json-values", metavar="OBJECT", help="Answer by field, as JSON.")
    ] = None,
    decline: Annotated[
        bool, typer.Option("--decline", help="Decline the question: there will be no answer.")
    ] = False,
    why: Annotated[str, typer.Option("--why", metavar="WHY", help="With --decline: the reason.")] = "",
    by: By = None,
    subject: As = None,
    as_json: Json = False,
) -> int:
    """Answer a question of a run, or of a child run.

    \b
    sojourn answer RUN "next Tuesday"
    sojourn answer RUN --field site=s-1 --field urgent=true
    sojourn answer RUN --decline --why "not mine to say"
    """
    from sojourn.forms import typed_value

    words = [word for word in (await_id, text) if word is not None]
    await_id, text = _read_words(words, is_given=bool(fields or json_values is not None or decline))
    if bool(fields) + (json_values is not None) + decline > 1:
        raise CommandError("give only one of TEXT, --field, --json-values and --decline", exit_code=USAGE)
    if why and not decline:
        raise CommandError("--why needs --decline; the answer itself is TEXT", exit_code=USAGE)
    values = None if json_values is None else _object(json_values)
    pairs = [_pair(field) for field in fields or ()]
    named = principal_of(subject)
    who = by_or_user(subject if by is None else by)

    async def send(client: "Client") -> int:
        from sojourn.answers import Answer, Declined, submit
        from sojourn.cli.waits import find_wait

        found = await find_wait(client, run_id, "question", await_id, command="answer")
        run = client.get_run(found.run_id)
        principal = await answerer(client, run.id, named)
        typed = {name: typed_value(found.form, name, value) for name, value in pairs}
        by_field = typed if values is None else values
        given = Declined(why) if decline else Answer(by_field if text is None else text)
        done = await submit(run, principal, found, given, by=who, trusted=True)
        return print_done(done.done, run.id, as_json=as_json, by=who, await_id=found.await_id)

    return with_client(send)


def _read_words(words: Sequence[str], *, is_given: bool) -> tuple[str | None, str | None]:
    """Return the await's id and the text.

    A single word is the text, or the id if an option gives the answer.
    """
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
    return (words[0] if len(words) == 2 else None), words[-1]


def _object(text: str) -> dict[str, Any]:
    try:
        value = loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"--json-values is not JSON: {error}", exit_code=USAGE) from error
    if not isinstance(value, dict):
        raise CommandError("--json-values must be an object of values by field", exit_code=USAGE)
    return cast("dict[str, Any]", value)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise CommandError(f"--field {text!r} is not NAME=VALUE", exit_code=USAGE)
    return name, value
