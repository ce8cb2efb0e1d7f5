"""Open waits of a run and its child runs, and the commands that answer them."""

from collections.abc import Callable, Sequence
from typing import Any

from sojourn.answers import WaitView, open_waits
from sojourn.cli.client import worker_line
from sojourn.cli.failure import USAGE, CommandError
from sojourn.cli.options import connection_options
from sojourn.cli.screen.text import plain, shell_word
from sojourn.cli.screen.waits import texts_of
from sojourn.client.client import Client
from sojourn.contracts.run import RunStatus

__all__ = [
    "answer_lines",
    "command_of",
    "find_wait",
    "lines_of",
    "list_waits",
    "nothing_open",
    "require_worker",
    "to_json",
]

PHASES = {
    "planning": "its planner is working",
    "executing_tools": "its tools are running",
    "finalizing": "its planner is writing its last answer",
}


def answer_lines(wait: WaitView) -> list[str]:
    """Return the command lines that answer a wait, the usual one first."""
    return [f"sojourn {line}{connection_options()}" for line in texts_of(wait).commands(wait)]


def command_of(view: WaitView, name: str = "") -> str:
    """Return the command line with which `name` answers a wait, or the usual one."""
    lines = answer_lines(view)
    return next((line for line in lines if line.startswith(f"sojourn {name} ")), lines[0])


def lines_of(view: WaitView) -> list[str]:
    first, *rest = texts_of(view).about(view)
    return [": ".join(part for part in (plain(view.await_id), view.noun, first) if part), *rest]


def to_json(view: WaitView, name: str = "") -> dict[str, Any]:
    """Return the entry of `open` in the error object that `--json` prints."""
    about = "\n".join(texts_of(view).about(view)).lstrip("\n")
    return {**view.model_dump(mode="json"), "about": about, "command": command_of(view, name)}


async def find_wait(
    client: Client,
    run_id: str,
    fits: Callable[[WaitView], bool],
    await_id: str | None,
    *,
    command: str,
    noun: str,
    is_shown: bool = False,
) -> WaitView:
    """Return the open wait with this id, or the only open one.

    `noun` names the kind of wait that fits. With `is_shown` the command shows the wait before the user decides, so
    that waits of other kinds may be open too.
    """
    status = await client.get_run(run_id).status()
    found = open_waits(status)
    named = [each for each in found if await_id is None or each.await_id == await_id]
    fitting = [each for each in named if fits(each)]
    among = fitting if is_shown or await_id is not None else found
    if len(fitting) == len(among) == 1:
        require_worker(status)
        return fitting[0]
    if fitting:
        raise CommandError(
            list_waits(f"{run_id} waits for several answers; choose one by its id:", among, command),
            exit_code=USAGE,
            run_id=run_id,
            open=[to_json(each, command) for each in among],
        )
    code = "unknown_wait"
    if not found:
        text, code = nothing_open(status), code if status.is_open else "run_ended"
    elif await_id is not None and named:
        text = f"{plain(await_id)} of {run_id} is {named[0].noun}; answer it with: {command_of(named[0], command)}"
    else:
        missing = f"called {plain(await_id)!r}" if await_id is not None else f"like {noun}"
        text = list_waits(f"{run_id} waits for nothing {missing}; it waits for:", found, command)
    raise CommandError(text, code=code, run_id=run_id, open=[to_json(each, command) for each in found])


def require_worker(status: RunStatus) -> None:
    """Check that a worker polls the task queue of a run that is to get an answer."""
    hints = [hint for hint in status.hints if hint.startswith("no worker polls")]
    if hints:
        raise CommandError(
            f"{hints[0]}, so nothing was sent to {status.run_id}; start a worker with "
            f"`{worker_line(hints[0].rsplit(' ', 1)[-1])}`, and send it again",
            run_id=status.run_id,
        )


def nothing_open(status: RunStatus) -> str:
    """Describe the state of a run without open waits, with its hints, in one sentence."""
    if status.status == "paused":
        clause = (
            f"is paused; continue with `sojourn resume {shell_word(status.run_id)}{connection_options()}`"
        )
    elif status.status in ("running", "waiting"):
        clause = f"waits for nothing now: {PHASES.get(status.phase, 'it is working')}"
    else:
        clause = f"has ended ({status.status}), and waits for nothing"
    return "; ".join([f"{status.run_id} {clause}", *status.hints])


def list_waits(title: str, waits: Sequence[WaitView], command: str) -> str:
    return "\n".join(
        [
            title,
            *(f"  {line}" for wait in waits for line in (*lines_of(wait), f"  {command_of(wait, command)}")),
        ]
    )
