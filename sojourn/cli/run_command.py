"""`sojourn run`: start a run, follow it to its answer, ask the person what it asks."""

import asyncio
import sys

from sojourn.cli.exit_codes import CANCELED, FAILED, OK, WAITING
from sojourn.cli.prompt import ask_approval, ask_person
from sojourn.cli.view import RunView, plain
from sojourn.client import Client
from sojourn.contracts.awaits import AwaitClarification, AwaitConfirmation
from sojourn.core.waiting import command_of
from sojourn.errors import AwaitClosed, InvalidInput
from sojourn.run import Run

__all__ = ["follow", "run_agent"]

_CODES = {
    "run_completed": OK,
    "run_failed": FAILED,
    "run_terminated": FAILED,
    "run_timed_out": FAILED,
    "run_canceled": CANCELED,
}


def run_agent(
    agent: str, text: str, *, run_id: str | None, session_id: str, task_queue: str | None, json: bool
) -> int:
    """Start and follow a run; the exit code says how it ended."""

    async def main() -> int:
        client = await Client.connect(task_queue=task_queue)
        run = await client.start(agent, text, run_id=run_id, session_id=session_id)
        try:
            return await (_follow_as_json(run) if json else follow(run))
        except asyncio.CancelledError:
            print(f"interrupted; {run.id} goes on without you", file=sys.stderr)
            raise

    return asyncio.run(main())


async def follow(run: Run) -> int:
    """Draw a run until it ends, or until it waits for a person and nobody is here to answer."""
    code = OK
    unasked: set[str] = set()
    with RunView() as view:
        async for event in run.events():
            view.show(event)
            code = _CODES.get(event.type, code)
            if event.external:
                view.say(f"send results with: {command_of(run.id, event.external)}", "dim")
            wait = event.question or event.confirmation
            if wait is None or (isinstance(wait, AwaitConfirmation) and wait.tool in unasked):
                continue
            if not sys.stdin.isatty():
                for one in (await run.status()).awaits or [wait]:
                    view.say(f"waiting; answer with: {command_of(run.id, one)}")
                return WAITING
            view.pause()
            answered = await (
                _answer(run, wait) if isinstance(wait, AwaitClarification) else _decide(run, wait, unasked)
            )
            if not answered:
                return WAITING
            view.resume()
    return code


async def _answer(run: Run, question: AwaitClarification) -> bool:
    """Whether the person answered, until what they say fits, or somebody else did."""
    while (said := await ask_person(question)) is not None:
        try:
            await run.answer(question.id, said)
        except InvalidInput as error:
            print(f"  {plain(str(error), 1000)}")
        except AwaitClosed:
            print("  somebody else answered first")
            return True
        else:
            return True
    return False


async def _decide(run: Run, call: AwaitConfirmation, unasked: set[str]) -> bool:
    """Whether the person, or somebody else, decided; tools that nobody is asked about any more are added."""
    decision = await ask_approval()
    if decision is None:
        return False
    letter, reason = decision
    try:
        if letter == "n":
            await run.deny(call.id, reason)
        else:
            await run.approve(call.id, reason=reason, for_run=letter == "a")
    except AwaitClosed:
        print("  somebody else decided first")
        return True
    if letter == "a":
        unasked.add(call.tool)
    return True


async def _follow_as_json(run: Run) -> int:
    code = OK
    async for event in run.events():
        print(event.model_dump_json(exclude_defaults=True), flush=True)
        code = _CODES.get(event.type, code)
        if event.type in ("await_clarification", "await_confirmation"):
            return WAITING
    return code
