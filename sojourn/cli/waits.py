"""What a run and its child runs wait for, which of it a command means, and the command lines that answer it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sojourn.cli.failure import USAGE, CommandError
from sojourn.cli.options import given_again
from sojourn.cli.screen.text import plain
from sojourn.cli.screen.wait_views import VIEWS, view_of
from sojourn.client.client import Client
from sojourn.contracts.awaits import Await, AwaitConfirmation
from sojourn.contracts.run import RunStatus

__all__ = ["OpenWait", "answer_lines", "find_wait", "nothing_open", "open_waits", "require_worker"]

PHASES = {
    "planning": "its planner is working",
    "executing_tools": "its tools are running",
    "finalizing": "its planner is writing its last answer",
}


@dataclass(frozen=True, slots=True)
class OpenWait:
    """One thing that is waited for, and the run to which the answer goes."""

    run_id: str
    wait: Await

    @property
    def kind(self) -> str:
        """What it is, for people."""
        return view_of(self.wait).title

    @property
    def commands(self) -> list[str]:
        """The command lines that answer it, the usual one first."""
        return answer_lines(self.run_id, self.wait)

    @property
    def command(self) -> str:
        """The usual command line that answers it."""
        return self.commands[0]

    def lines(self) -> list[str]:
        """Id and kind, and what it is about, field by field."""
        first, *rest = view_of(self.wait).about(self.wait)
        return [f"{plain(self.wait.id)}: {self.kind}: {first}", *rest]

    def told(self) -> dict[str, Any]:
        """The same, for machines."""
        told = {
            "run_id": self.run_id,
            "await_id": self.wait.id,
            "kind": view_of(self.wait).kind,
            "about": "\n".join(view_of(self.wait).about(self.wait)),
            "command": self.command,
        }
        if isinstance(self.wait, AwaitConfirmation):
            told["payload_digest"] = self.wait.payload_digest
        return told


def answer_lines(run_id: str, wait: Await) -> list[str]:
    """The command lines that answer a wait, the usual one first; what is in capitals is to be replaced."""
    lines = view_of(wait).commands(run_id, wait)
    return [f"sojourn {line}{given_again()}" for line in lines]


def open_waits(status: RunStatus) -> list[OpenWait]:
    """Everything that is open, the run's own first."""
    own = [OpenWait(status.run_id, wait) for wait in status.awaits]
    below = [OpenWait(run_id, wait) for run_id, waits in status.child_awaits.items() for wait in waits]
    return own + below


async def find_wait(client: Client, run_id: str, kind: type[Await], await_id: str | None) -> OpenWait:
    """The open wait that is meant: the one of this id, or the only one of its kind.

    Raises:
        CommandError: there is none (exit code 1), or there are several (2); both say what is open.
        RunNotFound: there is no such run.
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
            _listed(f"{run_id} waits for several answers; choose one by its id:", fitting),
            exit_code=USAGE,
            run_id=run_id,
            open=[each.told() for each in fitting],
        )
    if not found:
        text = nothing_open(status)
    elif await_id is not None and named:
        text = f"{plain(await_id)} of {run_id} is {named[0].kind}; answer it with: {named[0].command}"
    else:
        missing = f"called {plain(await_id)!r}" if await_id is not None else f"like {VIEWS[kind].title}"
        text = _listed(f"{run_id} waits for nothing {missing}; it waits for:", found)
    raise CommandError(text, run_id=run_id, open=[each.told() for each in found])


def require_worker(status: RunStatus) -> None:
    """Refuse at once what no worker is there to take.

    Raises:
        CommandError: nobody polls the run's task queue.
    """
    gone = [hint for hint in status.hints if hint.startswith("no worker polls")]
    if gone:
        raise CommandError(
            f"{gone[0]}, so nothing was sent to {status.run_id}; start a worker with `sojourn worker MODULE:APP "
            f"--task-queue {gone[0].rsplit(' ', 1)[-1]}{given_again()}`, and send it again",
            run_id=status.run_id,
        )


def nothing_open(status: RunStatus) -> str:
    """What a run does that waits for nothing, and hints."""
    if status.status == "paused":
        clause = "is paused; continue with `sojourn resume`"
    elif status.status in ("running", "waiting"):
        clause = f"waits for nothing now: {PHASES.get(status.phase, 'it is working')}"
    else:
        clause = f"has ended ({status.status}), and waits for nothing"
    return "; ".join([f"{status.run_id} {clause}", *status.hints])


def _listed(title: str, waits: Sequence[OpenWait]) -> str:
    return "\n".join(
        [title, *(f"  {line}" for wait in waits for line in (*wait.lines(), f"  {wait.command}"))]
    )
