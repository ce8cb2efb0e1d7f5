"""Print a run until it ends, and ask the user to answer its open waits.

The waits of its child runs are included.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

from sojourn.answers import Answer, GivenAnswer, WaitView, open_waits, submit, wait_view
from sojourn.cli.client import by_or_user
from sojourn.cli.failed_call import retry_hint
from sojourn.cli.failure import CANCELED, FAILED, OK, WAITING
from sojourn.cli.options import LAST_TURNS, connection_options
from sojourn.cli.screen.calls import Detail
from sojourn.cli.screen.lines import summed
from sojourn.cli.screen.prompt import ask_approval, ask_person
from sojourn.cli.screen.text import plain, shell_word, took
from sojourn.cli.screen.view import RunView
from sojourn.cli.unserved import telling_of_workers
from sojourn.cli.waits import answer_lines, command_of
from sojourn.client.readable_run import CANCEL_REQUESTED
from sojourn.client.run import Run
from sojourn.contracts.awaits import Await
from sojourn.contracts.event import Event, wait_in
from sojourn.errors import ApprovalVoid, AwaitClosed, InvalidInput, RunNotFound
from sojourn.events import Cursor, event_line
from sojourn.timeline import Timeline, is_run_end, is_turn_end

__all__ = ["code_of", "ends_turn", "follow", "follow_as_json", "show_end", "until_end"]

Line = TypeVar("Line")


def code_of(event: Event, run: Run) -> int | None:
    """Return the exit code for the event that ends the run, or None.

    None for other events, and for those of child runs.
    """
    if event.run_id != run.id or not is_run_end(event):
        return None
    return {"run_completed": OK, "run_canceled": CANCELED}.get(event.type, FAILED)


def ends_turn(event: Event, run: Run) -> bool:
    """Return whether an event ends a turn of the conversation itself."""
    return is_turn_end(event) and event.run_id == run.id


async def follow(
    run: Run,
    *,
    after: str | None = None,
    detail: Detail = Detail.BRIEF,
    is_old: bool = False,
    one_turn: bool = False,
) -> int:
    """Print a run until it ends or waits for a person, and return the exit code.

    At a terminal, the command prompts for the answer and continues.

    Args:
        run: The run.
        after: The id of the last event that is not printed.
        detail: The detail in which to show calls.
        is_old: Whether the run was not just started. On a terminal, only the last turns of a conversation are then drawn in full.
        one_turn: Whether to stop at the end of a conversation's turn.
    """
    code = OK
    shown: set[tuple[str, str]] = set()
    timeline = Timeline(run.id)
    with RunView(detail=detail) as view:
        looks_back = is_old and view.is_live and after is None and (await run.status()).conversation
        read = (
            _from_last_turns(run, view)
            if looks_back
            else run.events(after=after, children=True, deltas=view.is_live)
        )
        async with telling_of_workers(run, view), aclosing(read) as events:
            async for event in events:
                view.show(event)
                timeline.feed(event)
                ended = code_of(event, run)
                code = code if ended is None else ended
                show_end(view, event, run)
                if one_turn and ends_turn(event, run):
                    return FAILED if event.type == "turn_failed" else OK
                wait = wait_in(event)
                if wait is None or not await _is_open(run, event.run_id, wait, view):
                    continue
                shown.add((event.run_id, wait.id))
                is_for_people = wait.is_for_people
                if not is_for_people:
                    view.say(f"send results with: {answer_lines(event.run_id, wait)[0]}", "dim")
                if not sys.stdin.isatty():
                    if await _waits_for_people(run, shown):
                        await _print_waits(run, view)
                        return WAITING
                elif is_for_people:
                    view.pause()
                    if not await _asked(run, wait_view(wait, event.run_id), event.event_id):
                        line = f"sojourn watch {shell_word(run.id)}{connection_options()}"
                        print(f"\nthe run waits for an answer; follow it with: {line}")
                        return WAITING
                    view.resume()
        if line := await retry_hint(run.client, timeline):
            view.say(line, "yellow")
    return code


async def _from_last_turns(run: Run, view: RunView) -> AsyncGenerator[Event]:
    """Yield the events of a conversation, and draw only its last turns in full.

    The view holds the past events back until all of them have been read.
    """
    so_far = Cursor(run.id)
    view.hold(LAST_TURNS)
    async with aclosing(run.events(follow=False, children=True)) as events:
        async for event in events:
            so_far.add(event)
            yield event
    view.release()
    async with aclosing(run.events(after=str(so_far), children=True, deltas=True)) as events:
        async for event in events:
            yield event


async def follow_as_json(run: Run, events: AsyncGenerator[Event], *, one_turn: bool = False) -> int:
    """Print each event as a line of JSON, and return the exit code.

    Stops once the run ends or waits for a person.
    """

    def show(event: Event) -> None:
        print(event_line(event), flush=True)

    return await until_end(run, events, show, one_turn=one_turn)


async def until_end(
    run: Run, events: AsyncGenerator[Event], show: Callable[[Event], None], *, one_turn: bool = False
) -> int:
    """Show events until the run ends or waits for a person, and return the exit code.

    With `one_turn`, the end of a turn of the run stops it too.
    """
    code = OK
    shown: set[tuple[str, str]] = set()
    async with aclosing(events):
        async for event in events:
            show(event)
            ended = code_of(event, run)
            code = code if ended is None else ended
            if one_turn and ends_turn(event, run):
                return FAILED if event.type == "turn_failed" else OK
            wait = wait_in(event)
            if wait is None or not await _is_open(run, event.run_id, wait):
                continue
            shown.add((event.run_id, wait.id))
            if await _waits_for_people(run, shown):
                return WAITING
    return code


def show_end(view: RunView, event: Event, run: Run) -> None:
    """Print the run's calls, tokens, cost and active time below its answer."""
    if event.type == "run_completed" and event.run_id == run.id and event.output:
        active = f", active for {took(event.output.active_time)}" if event.output.active_time else ""
        view.say(f"  {summed(event.output)}{active}", "dim")


async def _is_open(run: Run, run_id: str, wait: Await, view: RunView | None = None) -> bool:
    """Return whether a wait can still be answered.

    Past events include waits that have been answered since, and waits of runs with a cancel
    request.

    Args:
        run: The run that is followed.
        run_id: The run that waits: the same, or a child run.
        wait: The wait.
        view: Prints, once, that a cancel waits for a worker.
    """
    hints = (await run.status()).hints
    if CANCEL_REQUESTED in hints:
        if view is not None:
            for hint in hints:
                view.say(f"! {plain(hint, 500)}", "yellow", once=True)
        return False
    try:
        status = await Run(run.client, run_id).status()
    except RunNotFound:
        return False
    return any(each.id == wait.id for each in status.awaits)


async def _waits_for_people(run: Run, shown: set[tuple[str, str]]) -> bool:
    """Return whether a person must answer, and all open waits have been printed.

    The waits are those of the run and its child runs. Waits not yet printed come with later events.
    """
    waits = open_waits(await run.status())
    is_needed = any(wait.is_for_people for wait in waits)
    return is_needed and all((wait.run_id, wait.await_id) in shown for wait in waits)


async def _print_waits(run: Run, view: RunView) -> None:
    for wait in open_waits(await run.status()):
        view.say(f"waiting; answer with: {command_of(wait)}")


async def _asked(run: Run, wait: WaitView, opened: str) -> bool:
    """Ask the user, and send the answer. Return False at the end of input.

    Stops asking if the wait is answered elsewhere in the meantime.

    Args:
        run: The run that is followed.
        wait: The wait.
        opened: The id of the event that opened it.
    """
    waiting = Run(run.client, wait.run_id)
    elsewhere = asyncio.create_task(_answered_elsewhere(waiting, wait.await_id, opened))
    try:
        return await _answer(waiting, wait, elsewhere)
    except ApprovalVoid as void:
        if void.await_id is None:  # else the run's note gives the reason, above the next question
            print(f"  {plain(str(void), 1000)}")
        return True
    except AwaitClosed:
        print("  somebody else answered first")
        return True
    finally:
        elsewhere.cancel()
        await asyncio.gather(elsewhere, return_exceptions=True)


async def _answered_elsewhere(run: Run, await_id: str, opened: str) -> None:
    """Return once a wait has ended, or its run has."""
    async with aclosing(run.events(after=opened)) as events:
        async for event in events:
            if event.type == "await_answered" and event.await_id == await_id:
                return


async def _typed(line: Coroutine[Any, Any, Line], elsewhere: asyncio.Task[None]) -> Line:
    """Return the line that the user types.

    Waits for the line even if the server cannot tell whether the wait was answered elsewhere.

    Raises:
        AwaitClosed: The wait was answered elsewhere before.
    """
    typing = asyncio.create_task(line)
    try:
        await asyncio.wait({typing, elsewhere}, return_when=asyncio.FIRST_COMPLETED)
        if typing.done() or elsewhere.exception():
            return await typing
        print()
        raise AwaitClosed("answered elsewhere")
    finally:
        typing.cancel()
        await asyncio.gather(typing, return_exceptions=True)


async def _answer(run: Run, wait: WaitView, elsewhere: asyncio.Task[None]) -> bool:
    """Ask until the run accepts an answer, or return False at the end of input."""
    if wait.is_restricted:
        print(f"  decide in the console, over HTTP, or with: {command_of(wait)}")
        await elsewhere
        return True
    while (given := await _typed(_given(wait), elsewhere)) is not None:
        try:
            await submit(run, None, wait, given, by=by_or_user(None), trusted=True)
        except (
            InvalidInput
        ) as refused:  # it does not fit the form, or the asking about this tool cannot be stopped
            print(f"  {plain(str(refused), 1000)}")
        else:
            return True
    return False


async def _given(wait: WaitView) -> GivenAnswer | None:
    """Return the answer that the user types, or None at the end of input."""
    if wait.call is not None:
        return await ask_approval(wait.call)
    line = await ask_person()
    return None if line is None else Answer(line)
