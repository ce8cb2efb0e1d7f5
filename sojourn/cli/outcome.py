"""Print how a run or a turn ended, and what to do next."""

import itertools
import sys
from collections.abc import Sequence
from contextlib import aclosing
from io import BufferedWriter
from pathlib import Path
from typing import TYPE_CHECKING

from sojourn.answers import WaitView, open_waits, status_once_judged
from sojourn.cli.failure import FAILED, OK, WAITING, CommandError
from sojourn.cli.options import connection_options
from sojourn.cli.screen.text import plain, shell_word
from sojourn.cli.waits import list_waits, to_json
from sojourn.contracts.attachment import file_name
from sojourn.contracts.event import (
    InterimAnswerEvent,
    TurnFailedEvent,
    TurnStartedEvent,
    TurnSteeredEvent,
    wait_in,
)
from sojourn.contracts.ids import place_of
from sojourn.timeline import TurnEnd, is_turn_end
from sojourn.values.text import count_noun
from sojourn.values.visible import visible

if TYPE_CHECKING:
    from sojourn.client.access import Access
    from sojourn.client.run import Run
    from sojourn.client.session import SessionTurn
    from sojourn.contracts.run import RunOutput
    from sojourn.contracts.tool_result import Artifact
    from sojourn.timeline import Call, Timeline

__all__ = [
    "follow_turn",
    "last_turn",
    "print_turn",
    "retry_advice",
    "retry_hint",
    "save_made_files",
    "waits_error",
]


def print_turn(ended: TurnEnd, *, as_json: bool) -> int:
    """Print the answer of a turn, and return the exit code."""
    if isinstance(ended, TurnFailedEvent):
        error = ended.error
        raise CommandError(
            f"the turn failed: {visible(str(error), keep='')}", code=error.code, turn_id=ended.turn_id
        )
    return _print_output(ended.output, as_json=as_json)


def _print_output(output: "RunOutput", *, as_json: bool) -> int:
    print(output.model_dump_json() if as_json else visible(output.text, keep="\n\t"), flush=True)
    return OK


async def follow_turn(turn: "SessionTurn", *, as_json: bool, patient: bool = False) -> int:
    """Follow the turn of a message, print its answer, and return the exit code."""
    if not patient:
        await _require_progress(turn)
    async with aclosing(turn.events(children=True, earlier=True)) as events:
        async for event in events:
            if is_turn_end(event):
                if _is_of(turn, event):
                    return print_turn(event, as_json=as_json)
                continue
            if isinstance(event, InterimAnswerEvent):
                if event.output is not None and event.message_id == turn.message_id:
                    return _print_output(event.output, as_json=as_json)
                if not patient:
                    await _require_progress(turn)
            wait = None if patient else wait_in(event)
            if wait is None:
                continue
            found = open_waits(await turn.run.status())
            if asked := [each for each in found if each.await_id == wait.id]:
                raise waits_error(turn.run, asked)
    await turn.result()  # raises why the run ended
    return FAILED


async def _require_progress(turn: "SessionTurn") -> None:
    """Raise the waits of a conversation that does nothing before they end."""
    status = await status_once_judged(turn.run)
    waits = [] if status.answering else open_waits(status)
    if waits and not await _has_ended(turn):
        raise waits_error(turn.run, waits)


def _is_of(turn: "SessionTurn", end: TurnEnd) -> bool:
    """Return whether a turn is that which took the message.

    The turn that an edit leaves behind has a message with the same id.
    """
    return turn.message_id in end.message_ids and (turn.is_answer or end.turn_id == turn.turn_id)


async def _has_ended(turn: "SessionTurn") -> bool:
    async for each in turn.run.events(after=turn.after, follow=False):
        is_mine = getattr(each, "message_id", "") == turn.message_id
        is_answered = isinstance(each, InterimAnswerEvent) and is_mine and each.output is not None
        if isinstance(each, (TurnStartedEvent, TurnSteeredEvent)) and turn.message_id in each.message_ids:
            turn.turn_id = each.turn_id
        if is_answered or (is_turn_end(each) and _is_of(turn, each)):
            return True
    return False


def waits_error(run: "Run", waits: list[WaitView]) -> CommandError:
    """Return the error of a command that does not wait, with those that answer."""
    return CommandError(
        list_waits(f"{run.id} waits, so there is no answer yet; it waits for:", waits, ""),
        exit_code=WAITING,
        run_id=run.id,
        open=[to_json(each) for each in waits],
    )


async def last_turn(run: "Run", *, patient: bool) -> TurnEnd | list[WaitView] | None:
    """Return the last turn's end once no message is queued, or the open waits."""
    last: TurnEnd | None = None
    after: str | None = None
    while True:
        status = await run.status()
        async for event in run.events(after=after, follow=False):
            after, last = event.event_id or after, event if is_turn_end(event) else last
        if (status.status == "idle" or not status.is_open) and not status.queued:
            return last
        if not patient and (waits := open_waits(status)):
            return waits
        async with aclosing(run.events(after=after)) as events:
            async for event in events:
                after, last = event.event_id or after, event if is_turn_end(event) else last
                if is_turn_end(event) or wait_in(event) or event.type == "run_stream_end":
                    break


async def save_made_files(run: "Run", artifacts: "Sequence[Artifact]", folder: Path) -> None:
    """Write the files among artifacts to a folder.

    A file gets a number if the folder has another one of its name.
    """
    made = {artifact.attachment.id for artifact in artifacts if artifact.attachment}
    files = [file for file in await run.attachments() if file.id in made] if made else []
    for file in files:
        with _new_file(folder, file.name) as out:
            async for chunk in file.chunks():
                out.write(chunk)
        about = f"{plain(file.media_type)}, {count_noun(file.size, 'byte')}"
        print(f"saved {plain(out.name, 300)} ({about})", file=sys.stderr)
    if not files:
        print("no tool has made a file", file=sys.stderr)


def _new_file(folder: Path, name: str) -> BufferedWriter:
    folder.mkdir(parents=True, exist_ok=True)
    first = folder / _short(file_name(name))  # of a program that wrote the record itself, perhaps
    numbered = (first.with_stem(f"{first.stem}-{count}") for count in itertools.count(2))
    return next(path for path in itertools.chain([first], numbered) if not path.exists()).open("xb")


_MAX_FILE_NAME = 240
"""Bytes of the name of a file, of 255 that disks allow: a number may follow."""

_MAX_SUFFIX = 40
"""Bytes of a suffix. What follows the dot is part of the name if it is longer."""


def _short(name: str) -> str:
    suffix = Path(name).suffix
    if len(suffix.encode()) > _MAX_SUFFIX:
        suffix = ""
    room = _MAX_FILE_NAME - len(suffix.encode())
    return name.removesuffix(suffix).encode()[:room].decode(errors="ignore") + suffix


_MAX_ORIGINS = 5
"""Most retries of a retry to follow back to the run that made the call."""


def _retry_line(run_id: str) -> str:
    return f"take it up again with: sojourn retry {shell_word(run_id)}{connection_options()}"


async def retry_advice(run: "Run") -> str | None:
    """Return `retry_hint` for a run whose events were not followed."""
    return await retry_hint(run.client, await _read_timeline(run.client, run.id))


async def retry_hint(client: "Access", timeline: "Timeline") -> str | None:
    """Return how to retry a failed run, or how to make its last call again.

    A retry keeps the results of calls, errors included. One without a call of its own fails at the call
    of the run that it retries.
    """
    if timeline.end is None or timeline.end.status not in ("failed", "timed_out"):
        return None
    found = timeline
    for _ in range(_MAX_ORIGINS):
        last = max((each for each in found.calls if each.end_event_id), key=_end_place, default=None)
        if last is not None and last.error and last.start_event_id:
            line = f"sojourn fork {shell_word(found.run_id)} --at {last.start_event_id}{connection_options()}"
            return f"a retry keeps the failure of {plain(last.call.name)}; to make the call again: {line}"
        origin = found.started and found.started.forked_from
        if last is not None or origin is None or origin.at:
            break
        found = await _read_timeline(client, origin.run_id)
    return _retry_line(timeline.run_id)


async def _read_timeline(client: "Access", run_id: str) -> "Timeline":
    from sojourn.client.run import Run
    from sojourn.timeline import Timeline

    timeline = Timeline(run_id)
    async with aclosing(Run(client, run_id).events(follow=False)) as events:
        async for event in events:
            timeline.feed(event)
    return timeline


def _end_place(call: "Call") -> tuple[int, ...]:
    return place_of(call.end_event_id)
