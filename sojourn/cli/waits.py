"""Open waits of a run and its child runs: find the one that a command answers, and print the commands that do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sojourn.cli.client import worker_line
from sojourn.cli.failure import USAGE, CommandError
from sojourn.cli.options import connection_options
from sojourn.cli.screen.text import plain, shell_word
from sojourn.cli.screen.wait_views import VIEWS, view_of
from sojourn.client.client import Client
from sojourn.contracts.awaits import Await, AwaitConfirmation
from sojourn.contracts.run import RunStatus

__all__ = ["OpenWait", "answer_lines", "find_wait", "listed", "nothing_open", "open_waits", "require_worker"]

PHASES = {
    "planning": "its planner is working",
    "executing_tools": "its tools are running",
    "finalizing": "its planner is writing its last answer",
}


@dataclass(frozen=True, slots=True)
class OpenWait:
    """An open wait, and the run that takes its answer."""

    run_id: str
    wait: Await

    @property
    def kind(self) -> str:
        """The kind of the wait, such as `an approval`."""
        return view_of(self.wait).title

    @property
    def commands(self) -> list[str]:
        """The command lines that answer the wait, the usual one first."""
        return answer_lines(self.run_id, self.wait)

    @property
    def command(self) -> str:
        """The usual command line that answers the wait."""
        return self.commands[0]

    def command_of(self, name: str) -> str:
        """Return the command line of this command that answers the wait; the usual one if the command answers none of its kind."""
        return next((line for line in self.commands if line.startswith(f"sojourn {name} ")), self.command)

    def lines(self) -> list[str]:
        """Return the id and the kind, and what the wait is about, in lines."""
        first, *rest = view_of(self.wait).about(self.wait)
        return [": ".join(part for part in (plain(self.wait.id), self.kind, first) if part), *rest]

    def to_json(self, name: str = "") -> dict[str, Any]:
        """Return the entry of `open` in the error object that `--json` prints, with the command line of the command `name`."""
        entry = {
            "run_id": self.run_id,
            "await_id": self.wait.id,
            "kind": view_of(self.wait).kind,
            "about": "\n".join(view_of(self.wait).about(self.wait)),
            "command": self.command_of(name),
        }
        if isinstance(self.wait, AwaitConfirmation):
            entry["payload_digest"] = self.wait.payload_digest
        return entry


def answer_lines(run_id: str, wait: Await) -> list[str]:
    """Return the command lines that answer a wait, the usual one first, with placeholders in capitals."""
    lines = view_of(wait).commands(run_id, wait)
    return [f"sojourn {line}{connection_options()}" for line in lines]


def open_waits(status: RunStatus) -> list[OpenWait]:
    """Return the open waits of a run and its child runs, the run's own first."""
    own = [OpenWait(status.run_id, wait) for wait in status.awaits]
    below = [OpenWait(run_id, wait) for run_id, waits in status.child_awaits.items() for wait in waits]
    return own + below


async def find_wait(
    client: Client, run_id: str, kind: type[Await], await_id: str | None, *, command: str
) -> OpenWait:
    """Return the open wait of this kind with this id, or without an id the only one of this kind.

    Args:
        client: The client.
        run_id: The run, or a run above it.
        kind: The kind of wait that the command answers.
        await_id: The id of the wait, if one was given.
        command: The name of the command, whose lines the errors show.

    Raises:
        CommandError: There is none (exit code 1), or there are several (2), with a list of the open waits; or no worker
            polls the run's task queue (1).
        RunNotFound: There is no such run.
    """
    status = await client.get_run(run_id).status()
    found = open_waits(status)
    named = [each for each in found if await_id is None or each.wait.id == await_id]
    fitting = [each for each in named if isinstance(each.wait, kind)]
    if len(fitting) == 1:
        require_worker(status)
        return fitting[0]
    if fitting:
        raise CommandError(
            listed(f"{run_id} waits for several answers; choose one by its id:", fitting, command),
            exit_code=USAGE,
            run_id=run_id,
            open=[each.to_json(command) for each in fitting],
        )
    if not found:
        text = nothing_open(status)
    elif await_id is not None and named:
        text = f"{plain(await_id)} of {run_id} is {named[0].kind}; answer it with: {named[0].command_of(command)}"
    else:
        missing = f"called {plain(await_id)!r}" if await_id is not None else f"like {VIEWS[kind].title}"
        text = listed(f"{run_id} waits for nothing {missing}; it waits for:", found, command)
    raise CommandError(text, run_id=run_id, open=[each.to_json(command) for each in found])


def require_worker(status: RunStatus) -> None:
    """Check that a worker can take what a command sends; the run's hints say if there is none.

    Raises:
        CommandError: No worker polls the run's task queue.
    """
    hints = [hint for hint in status.hints if hint.startswith("no worker polls")]
    if hints:
        raise CommandError(
            f"{hints[0]}, so nothing was sent to {status.run_id}; start a worker with "
            f"`{worker_line(hints[0].rsplit(' ', 1)[-1])}`, and send it again",
            run_id=status.run_id,
        )


def nothing_open(status: RunStatus) -> str:
    """Return what a run without open waits is doing, with its hints, as one sentence."""
    if status.status == "paused":
        clause = (
            f"is paused; continue with `sojourn resume {shell_word(status.run_id)}{connection_options()}`"
        )
    elif status.status in ("running", "waiting"):
        clause = f"waits for nothing now: {PHASES.get(status.phase, 'it is working')}"
    else:
        clause = f"has ended ({status.status}), and waits for nothing"
    return "; ".join([f"{status.run_id} {clause}", *status.hints])


def listed(title: str, waits: Sequence[OpenWait], command: str) -> str:
    """Return a title, and below it each wait with the line of this command that answers it."""
    return "\n".join(
        [title, *(f"  {line}" for wait in waits for line in (*wait.lines(), f"  {wait.command_of(command)}"))]
    )
