"""`sojourn provide`: send results of calls that are executed outside."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from sojourn.cli.answer_line import answer_lines
from sojourn.cli.connected import by_or_user, with_client
from sojourn.cli.done import tell_done
from sojourn.cli.exit_codes import USAGE, CommandError
from sojourn.cli.open_waits import OpenWait, open_waits, require_worker, standing
from sojourn.cli.plain import plain
from sojourn.client.client import Client
from sojourn.contracts.awaits import AwaitExternalTools

__all__ = ["run_provide"]

Result = dict[str, Any]


def run_provide(
    run_id: str,
    source: str | None,
    *,
    results: Sequence[str],
    errors: Sequence[str],
    by: str | None,
    as_json: bool,
) -> int:
    """Send results, each to the wait that holds its call; returns the exit code."""
    sent = [
        *(_from_source(source) if source is not None else ()),
        *({"tool_call_id": call_id, "result": _json(said)} for call_id, said in map(_pair, results)),
        *({"tool_call_id": call_id, "error": said} for call_id, said in map(_pair, errors)),
    ]
    who = by_or_user(by)

    async def send(client: Client) -> int:
        status = await client.get_run(run_id).status()
        waits = [one for one in open_waits(status) if isinstance(one.wait, AwaitExternalTools)]
        if not waits:
            raise CommandError(f"{run_id} {_instead(status)}", run_id=run_id)
        if not sent:
            raise CommandError(
                _asked(run_id, waits), exit_code=USAGE, run_id=run_id, open=[one.told() for one in waits]
            )
        require_worker(status)
        for one, part in _sorted(run_id, waits, sent):
            await client.get_run(one.run_id).provide_tool_results(one.wait.id, part, by=who)
        calls = [result["tool_call_id"] for result in sent]
        return tell_done("provided", run_id, as_json=as_json, by=who, tool_call_ids=calls)

    return with_client(send)


def _instead(status: Any) -> str:
    waits = open_waits(status)
    if waits:
        return f"waits for no results from outside, but for {waits[0].kind}; answer with: {waits[0].command}"
    return standing(status) + "".join(f"; {hint}" for hint in status.hints)


def _asked(run_id: str, waits: Sequence[OpenWait]) -> str:
    lines = [f"  {line}" for one in waits for line in (*one.lines(), *answer_lines(one.run_id, one.wait)[1:])]
    return "\n".join([f"{run_id} waits for results; give a FILE, --result or --error:", *lines])


def _sorted(
    run_id: str, waits: Sequence[OpenWait], sent: Sequence[Result]
) -> list[tuple[OpenWait, list[Result]]]:
    """Which results go to which wait."""
    parts: list[tuple[OpenWait, list[Result]]] = [(one, []) for one in waits]
    for result in sent:
        call_id = result.get("tool_call_id")
        places = [
            part
            for one, part in parts
            if any(item.tool_call_id == call_id for item in cast("AwaitExternalTools", one.wait).items)
        ]
        if len(places) != 1:
            fault = "waits in several child runs: name the child run" if places else "does not wait here"
            raise CommandError(
                f"call {plain(call_id)} {fault}; {_asked(run_id, waits)}",
                exit_code=USAGE,
                run_id=run_id,
                open=[one.told() for one in waits],
            )
        places[0].append(result)
    return [(one, part) for one, part in parts if part]


def _from_source(source: str) -> list[Result]:
    """Results from a file, or `-`: one object, a list of them, or one a line."""
    text = sys.stdin.read() if source == "-" else _text_of(Path(source))
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        value = [_json(line) for line in text.splitlines() if line.strip()]
    found = cast("list[Any]", value) if isinstance(value, list) else [value]
    for result in found:
        if not isinstance(result, dict) or "tool_call_id" not in result:
            raise CommandError(
                f'{source}: a result is {{"tool_call_id": ..., "result": ...}} or with "error", '
                f"not {plain(result, 80)}",
                exit_code=USAGE,
            )
    return cast("list[Result]", found)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}", exit_code=USAGE) from error


def _pair(text: str) -> tuple[str, str]:
    call_id, equals, value = text.partition("=")
    if not (call_id and equals):
        raise CommandError(f"{text!r} is not CALL=VALUE", exit_code=USAGE)
    return call_id, value


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandError(
            f"{plain(text, 80)} is no JSON ({error}); a text goes in double quotes", exit_code=USAGE
        ) from error
