"""`sojourn run`: start a run, follow it to its answer, ask the person its questions."""

import asyncio
import sys

from sojourn.cli.exit_codes import CANCELED, FAILED, OK, WAITING
from sojourn.cli.prompt import ask_person
from sojourn.cli.view import RunView
from sojourn.client import Client
from sojourn.contracts.awaits import AwaitClarification
from sojourn.errors import AwaitClosed
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
    """Draw a run until it ends, or until it waits and nobody is here to answer."""
    code = OK
    with RunView() as view:
        async for event in run.events():
            view.show(event)
            code = _CODES.get(event.type, code)
            if event.type == "await_clarification" and event.question:
                if not sys.stdin.isatty():
                    view.say(
                        f"waiting; answer with: temporal workflow signal --workflow-id {run.id} "
                        f'--name provide_clarification --input \'{{"answer": "..."}}\''
                    )
                    return WAITING
                if not await _answer(run, event.question, view):
                    return WAITING
    return code


async def _answer(run: Run, question: AwaitClarification, view: RunView) -> bool:
    view.pause()
    said = await ask_person(question)
    if said is None:
        return False
    view.resume()
    try:
        await run.answer(question.id, said)
    except AwaitClosed:
        view.say("somebody else answered first", "dim")
    return True


async def _follow_as_json(run: Run) -> int:
    code = OK
    async for event in run.events():
        print(event.model_dump_json(exclude_defaults=True), flush=True)
        code = _CODES.get(event.type, code)
        if event.type == "await_clarification":
            return WAITING
    return code
