"""Turns of a conversation: follow the one of a message, and find the last one."""

import sys
from contextlib import aclosing
from typing import TYPE_CHECKING

from sojourn.cli.failure import FAILED, OK, WAITING
from sojourn.cli.screen.wait_views import view_of
from sojourn.cli.waits import OpenWait, open_waits
from sojourn.contracts.event import Event, TurnCompletedEvent, TurnFailedEvent
from sojourn.core.awaits.kinds import wait_in
from sojourn.core.values.visible import visible

if TYPE_CHECKING:
    from sojourn.client.run import Run
    from sojourn.client.session import SessionTurn
    from sojourn.contracts.run import RunStatus

__all__ = ["follow_turn", "for_people", "last_turn", "print_turn"]

_OPEN = ("running", "waiting", "paused")


def for_people(status: "RunStatus") -> list[OpenWait]:
    """Return the open waits that a person has to answer."""
    return [each for each in open_waits(status) if view_of(each.wait).is_for_people]


def print_turn(ended: TurnCompletedEvent | TurnFailedEvent, *, as_json: bool) -> int:
    """Print the answer of a turn, or on standard error why it failed; return the exit code."""
    if isinstance(ended, TurnFailedEvent):
        print(f"sojourn: the turn failed: {visible(str(ended.error), keep='')}", file=sys.stderr)
        return FAILED
    output = ended.output
    print(output.model_dump_json() if as_json else visible(output.text, keep="\n\t"), flush=True)
    return OK


async def follow_turn(turn: "SessionTurn", *, as_json: bool) -> int:
    """Follow the turn of a message, and print its answer, why it failed, or how to answer what it waits for; return the exit code.

    Raises:
        RunFailed: The run ended before.
    """
    before = for_people(await turn.run.status())
    if before and not await _has_ended(turn) and _told(before):
        return WAITING
    async with aclosing(turn.events(children=True, earlier=True)) as events:
        async for event in events:
            if isinstance(event, TurnCompletedEvent | TurnFailedEvent):
                if turn.message_id in event.message_ids:
                    return print_turn(event, as_json=as_json)
                continue
            wait = wait_in(event)
            if wait is None:
                continue
            found = for_people(await turn.run.status())
            if _told([each for each in found if each.wait.id == wait.id]):
                return WAITING
    await turn.result()  # raises why the run ended
    return FAILED


async def _has_ended(turn: "SessionTurn") -> bool:
    """Whether the turn of the message has ended, where the message was sent before."""
    ends = [_end_in(event) async for event in turn.run.events(follow=False)]
    return any(end is not None and turn.message_id in end.message_ids for end in ends)


def _told(waits: list[OpenWait]) -> bool:
    """Print how to answer these waits; return whether there are any."""
    for each in waits:
        print(f"sojourn: waiting; answer with: {each.command}", file=sys.stderr)
    return bool(waits)


async def last_turn(
    run: "Run", *, patient: bool
) -> "TurnCompletedEvent | TurnFailedEvent | list[OpenWait] | None":
    """Return the end of the last turn, once no message waits; or what the conversation waits for; None where there was no turn.

    Args:
        run: The conversation.
        patient: Whether to wait also while it waits for a person.
    """
    last: TurnCompletedEvent | TurnFailedEvent | None = None
    after: str | None = None
    while True:
        status = await run.status()
        async for event in run.events(after=after, follow=False):
            after, last = event.event_id or after, _end_in(event) or last
        if status.status not in _OPEN and not status.queued:
            return last
        if not patient and (waits := for_people(status)):
            return waits
        async with aclosing(run.events(after=after)) as events:
            async for event in events:
                after, last = event.event_id or after, _end_in(event) or last
                if _end_in(event) or wait_in(event) or event.type == "run_stream_end":
                    break


def _end_in(event: Event) -> TurnCompletedEvent | TurnFailedEvent | None:
    return event if isinstance(event, TurnCompletedEvent | TurnFailedEvent) else None
