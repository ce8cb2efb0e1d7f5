"""Follow the turn of a message in a conversation, or find the last turn."""

from contextlib import aclosing
from typing import TYPE_CHECKING

from sojourn.answers import WaitView, open_waits
from sojourn.cli.failure import FAILED, OK, WAITING, CommandError
from sojourn.cli.waits import listed, to_json
from sojourn.contracts.event import TurnFailedEvent, wait_in
from sojourn.timeline import TurnEnd, is_turn_end
from sojourn.values.visible import visible

if TYPE_CHECKING:
    from sojourn.client.run import Run
    from sojourn.client.session import SessionTurn
    from sojourn.contracts.run import RunStatus

__all__ = ["follow_turn", "for_people", "last_turn", "print_turn", "waits_error"]


def for_people(status: "RunStatus") -> list[WaitView]:
    """Return the open waits that a person has to answer."""
    return [each for each in open_waits(status) if each.is_for_people]


def print_turn(ended: TurnEnd, *, as_json: bool) -> int:
    """Print the answer of a turn, and return the exit code.

    Raises:
        CommandError: The turn has failed.
    """
    if isinstance(ended, TurnFailedEvent):
        error = ended.error
        raise CommandError(
            f"the turn failed: {visible(str(error), keep='')}", code=error.code, turn_id=ended.turn_id
        )
    output = ended.output
    print(output.model_dump_json() if as_json else visible(output.text, keep="\n\t"), flush=True)
    return OK


async def follow_turn(turn: "SessionTurn", *, as_json: bool) -> int:
    """Follow the turn of a message, print its answer, and return the exit code.

    Raises:
        CommandError: The turn has failed. Or it, or an earlier turn, waits for a person; the error then has the command lines that answer.
        RunFailed: The run ended before.
    """
    before = for_people(await turn.run.status())
    if before and not await _has_ended(turn):
        raise waits_error(turn.run, before)
    async with aclosing(turn.events(children=True, earlier=True)) as events:
        async for event in events:
            if is_turn_end(event):
                if turn.message_id in event.message_ids:
                    return print_turn(event, as_json=as_json)
                continue
            wait = wait_in(event)
            if wait is None:
                continue
            found = for_people(await turn.run.status())
            if asked := [each for each in found if each.await_id == wait.id]:
                raise waits_error(turn.run, asked)
    await turn.result()  # raises why the run ended
    return FAILED


async def _has_ended(turn: "SessionTurn") -> bool:
    """Return whether the turn of a message that was sent before has ended."""
    ended = [each.message_ids async for each in turn.run.events(follow=False) if is_turn_end(each)]
    return any(turn.message_id in message_ids for message_ids in ended)


def waits_error(run: "Run", waits: list[WaitView]) -> CommandError:
    """Return the error of a command that does not wait for a person.

    Its message lists the open waits and the commands that answer them.
    """
    return CommandError(
        listed(f"{run.id} waits for a person, so there is no answer yet; it waits for:", waits, ""),
        exit_code=WAITING,
        run_id=run.id,
        open=[to_json(each) for each in waits],
    )


async def last_turn(run: "Run", *, patient: bool) -> TurnEnd | list[WaitView] | None:
    """Return the end of the last turn, or the waits of the conversation.

    The end is returned once the backlog of messages is empty. None if there was no turn.

    Args:
        run: The conversation.
        patient: Whether to wait also while it waits for a person.
    """
    last: TurnEnd | None = None
    after: str | None = None
    while True:
        status = await run.status()
        async for event in run.events(after=after, follow=False):
            after, last = event.event_id or after, event if is_turn_end(event) else last
        if (status.status == "idle" or not status.is_open) and not status.queued:
            return last
        if not patient and (waits := for_people(status)):
            return waits
        async with aclosing(run.events(after=after)) as events:
            async for event in events:
                after, last = event.event_id or after, event if is_turn_end(event) else last
                if is_turn_end(event) or wait_in(event) or event.type == "run_stream_end":
                    break
