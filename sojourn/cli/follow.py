"""Follow a run to its end, and prompt for the answers to its waits."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, TypeVar

from sojourn.answers import GivenAnswer, WaitView, event_line, open_waits, parse_answer, submit, wait_view
from sojourn.cli.client import by_or_user, worker_line
from sojourn.cli.failure import CANCELED, FAILED, OK, WAITING, Interrupted
from sojourn.cli.options import LAST_TURNS, connection_options
from sojourn.cli.outcome import retry_hint, waits_error
from sojourn.cli.screen.calls import Detail
from sojourn.cli.screen.lines import usage_text
from sojourn.cli.screen.prompt import ask_approval, ask_person
from sojourn.cli.screen.text import format_duration, plain, shell_word
from sojourn.cli.screen.view import RunView
from sojourn.cli.waits import answer_lines, command_of
from sojourn.client.readable_run import CANCEL_REQUESTED
from sojourn.client.run import Run
from sojourn.client.stuck import find_stuck
from sojourn.contracts.event import Event, wait_in
from sojourn.errors import ApprovalVoid, AwaitClosed, InvalidInput, RunNotFound, SojournError
from sojourn.events import Cursor
from sojourn.timeline import is_run_end, is_turn_end

__all__ = [
    "attach",
    "code_of",
    "ends_turn",
    "follow",
    "follow_as_json",
    "show_end",
    "until_end",
    "warn_without_worker",
]


async def attach(
    run: Run,
    *,
    as_json: bool,
    deltas: bool,
    verbose: int,
    after: str | None = None,
    is_old: bool = False,
    one_turn: bool = False,
    patient: bool = False,
) -> int:
    """Follow a run until its end or Ctrl-C, and return the exit code."""
    try:
        if as_json:
            events = run.events(after=after, children=True, deltas=deltas)
            return await follow_as_json(run, events, one_turn=one_turn, patient=patient)
        detail = Detail(min(verbose, Detail.ALL))
        return await follow(
            run, after=after, detail=detail, is_old=is_old, one_turn=one_turn, patient=patient
        )
    except asyncio.CancelledError:
        line = f"sojourn watch {shell_word(run.id)}{connection_options()}"
        text = f"interrupted; the run continues; follow it with: {line}"
        raise Interrupted(text, run_id=run.id) from None


Line = TypeVar("Line")


def code_of(event: Event, run: Run) -> int | None:
    """Return the exit code for the event that ends this run, or None."""
    if event.run_id != run.id or not is_run_end(event):
        return None
    return {"run_completed": OK, "run_canceled": CANCELED}.get(event.type, FAILED)


def ends_turn(event: Event, run: Run) -> bool:
    return is_turn_end(event) and event.run_id == run.id


async def follow(
    run: Run,
    *,
    after: str | None = None,
    detail: Detail = Detail.BRIEF,
    is_old: bool = False,
    one_turn: bool = False,
    patient: bool = False,
) -> int:
    """Print a run until it ends, or waits for what is not given at this terminal."""
    code = OK
    shown: set[str] = set()
    with RunView(run.id, detail=detail) as view:
        looks_back = is_old and view.is_live and after is None and (await run.status()).conversation
        read = (
            _from_last_turns(run, view)
            if looks_back
            else run.events(after=after, children=True, deltas=view.is_live)
        )
        async with warn_without_worker(run, view), aclosing(read) as events:
            async for event in events:
                view.show(event)
                ended = code_of(event, run)
                code = code if ended is None else ended
                show_end(view, event, run)
                if one_turn and ends_turn(event, run):
                    return FAILED if event.type == "turn_failed" else OK
                wait = wait_opened_by(event)
                if wait is None or not await _is_open(run, wait, view):
                    continue
                shown.add(wait.key)
                if not sys.stdin.isatty():
                    if await _has_shown_all(run, shown):
                        await _print_waits(run, view)
                        if not patient:
                            return WAITING
                elif not wait.is_for_people:
                    view.say(f"send results with: {answer_lines(wait)[0]}", "dim")
                else:
                    view.pause()
                    if not await _ask(run, wait, event.event_id):
                        line = f"sojourn watch {shell_word(run.id)}{connection_options()}"
                        print(f"\nthe run waits for an answer; follow it with: {line}")
                        return WAITING
                    view.resume()
        if line := await retry_hint(run.client, view.timeline):
            view.say(line, "yellow")
    return code


async def _from_last_turns(run: Run, view: RunView) -> AsyncGenerator[Event]:
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


async def follow_as_json(
    run: Run, events: AsyncGenerator[Event], *, one_turn: bool = False, patient: bool = False
) -> int:
    """Print each event as JSON until the run ends or waits."""

    def show(event: Event) -> None:
        print(event_line(event), flush=True)

    return await until_end(run, events, show, one_turn=one_turn, patient=patient)


async def until_end(
    run: Run,
    events: AsyncGenerator[Event],
    show: Callable[[Event], None],
    *,
    one_turn: bool = False,
    patient: bool = False,
) -> int:
    """Show events until the run ends, and return the exit code.

    Raises:
        CommandError: The run waits for an answer or for results from outside, and the command is not `patient`.
    """
    code = OK
    shown: set[str] = set()
    async with aclosing(events):
        async for event in events:
            show(event)
            ended = code_of(event, run)
            code = code if ended is None else ended
            if one_turn and ends_turn(event, run):
                return FAILED if event.type == "turn_failed" else OK
            wait = None if patient else wait_opened_by(event)
            if wait is None or not await _is_open(run, wait):
                continue
            shown.add(wait.key)
            if await _has_shown_all(run, shown):
                raise waits_error(run, open_waits(await run.status()))
    return code


def show_end(view: RunView, event: Event, run: Run) -> None:
    """Print the run's calls, tokens, cost and active time below its answer."""
    if event.type == "run_completed" and event.run_id == run.id and event.output:
        active = (
            f", active for {format_duration(event.output.active_time)}" if event.output.active_time else ""
        )
        view.say(f"  {usage_text(event.output)}{active}", "dim")


def wait_opened_by(event: Event) -> WaitView | None:
    wait = wait_in(event)
    return wait and wait_view(wait, event.run_id)


async def _is_open(run: Run, wait: WaitView, view: RunView | None = None) -> bool:
    """Return whether a wait of a past event can still be answered."""
    hints = (await run.status()).hints
    if CANCEL_REQUESTED in hints:
        if view is not None:
            for hint in hints:
                view.say(f"! {plain(hint, 500)}", "yellow", once=True)
        return False
    try:
        status = await Run(run.client, wait.run_id).status()
    except RunNotFound:
        return False
    return any(each.id == wait.await_id for each in status.awaits)


async def _has_shown_all(run: Run, shown: set[str]) -> bool:
    """Return whether the run waits, and all its open waits have been printed."""
    waits = open_waits(await run.status())
    return bool(waits) and all(wait.key in shown for wait in waits)


async def _print_waits(run: Run, view: RunView) -> None:
    for wait in open_waits(await run.status()):
        view.say(f"waiting; answer with: {command_of(wait)}")


async def _ask(run: Run, wait: WaitView, opened: str) -> bool:
    """Ask the user, and send the answer. Return False at the end of input."""
    waiting = Run(run.client, wait.run_id)
    elsewhere = asyncio.create_task(_wait_until_answered(waiting, wait.await_id, opened))
    try:
        return await _answer(waiting, wait, elsewhere)
    except ApprovalVoid as void:
        if void.await_id is None:  # else the run's note gives the reason, above the next question
            print(f"  {plain(str(void), 1000)}")
        return True
    except AwaitClosed:
        print("  another person answered first")
        return True
    finally:
        elsewhere.cancel()
        await asyncio.gather(elsewhere, return_exceptions=True)


async def _wait_until_answered(run: Run, await_id: str, opened: str) -> None:
    async with aclosing(run.events(after=opened)) as events:
        async for event in events:
            if event.type == "await_answered" and event.await_id == await_id:
                return


async def _read_unless_answered(line: Coroutine[Any, Any, Line], elsewhere: asyncio.Task[None]) -> Line:
    """Return the line that the user types, unless another answer comes first."""
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
    if wait.is_restricted:
        print(f"  decide in the console, over HTTP, or with: {command_of(wait)}")
        await elsewhere
        return True
    while (given := await _read_unless_answered(_read_answer(wait), elsewhere)) is not None:
        try:
            await submit(run, None, wait, given, by=by_or_user(None), trusted=True)
        except (
            InvalidInput
        ) as refused:  # it does not fit the form, or the asking about this tool cannot be stopped
            print(f"  {plain(str(refused), 1000)}")
        else:
            return True
    return False


async def _read_answer(wait: WaitView) -> GivenAnswer | None:
    if wait.call is not None:
        return await ask_approval(wait)
    line = await ask_person()
    return None if line is None else parse_answer(wait, line)


LOOKED_AT_EVERY = 5.0
"""Seconds between two checks."""


@asynccontextmanager
async def warn_without_worker(run: Run, view: RunView) -> AsyncGenerator[None]:
    """Warn once, while the body runs, that no worker serves the run."""
    task = asyncio.create_task(_watch_workers(run, view))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _watch_workers(run: Run, view: RunView) -> None:
    while True:
        await asyncio.sleep(LOOKED_AT_EVERY)
        with suppress(SojournError):  # the server is away, which the follower of the run reports
            stuck = (await find_stuck(run.client, [run.id])).get(run.id)
            if stuck and stuck.kind == "unserved":
                view.say(
                    f"! {stuck.reason}; start one with `{worker_line(stuck.queue)}`", "yellow", once=True
                )
