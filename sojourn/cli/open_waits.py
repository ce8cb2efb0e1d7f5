"""What a run and its child runs wait for, and which of it a command means."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sojourn.cli.answer_line import answer_line
from sojourn.cli.call_shown import call_lines
from sojourn.cli.encrypted import given_again
from sojourn.cli.exit_codes import FAILED, USAGE, CommandError
from sojourn.cli.plain import plain
from sojourn.client.client import Client
from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation, AwaitExternalTools
from sojourn.contracts.run import RunStatus
from sojourn.core.awaits.clarification import wanted
from sojourn.core.awaits.disclosure import disclose

__all__ = ["OpenWait", "find_wait", "open_waits", "require_worker"]

KINDS: dict[type[Await], str] = {
    AwaitClarification: "a question",
    AwaitConfirmation: "an approval",
    AwaitExternalTools: "results from outside",
}

PHASES = {
    "planning": "its planner is at work",
    "executing_tools": "its tools are at work",
    "finalizing": "its planner writes the last answer",
}


@dataclass(frozen=True, slots=True)
class OpenWait:
    """One thing that is waited for, and the run to which the answer goes."""

    run_id: str
    wait: Await

    @property
    def kind(self) -> str:
        """What it is, for people."""
        return KINDS[type(self.wait)]

    @property
    def command(self) -> str:
        """The command line that answers it; what is in capitals is to be replaced."""
        return answer_line(self.run_id, self.wait)

    def lines(self) -> list[str]:
        """Id and kind, and what it is about, field by field."""
        first, *rest = _about(self.wait)
        return [f"{plain(self.wait.id)}: {self.kind}: {first}", *rest]

    def told(self) -> dict[str, Any]:
        """The same, for machines."""
        return {
            "run_id": self.run_id,
            "await_id": self.wait.id,
            "kind": self.kind.rsplit(" ", 1)[-1] if self.kind != "results from outside" else "results",
            "about": "\n".join(_about(self.wait)),
            "command": self.command,
            **(
                {"payload_digest": self.wait.payload_digest}
                if isinstance(self.wait, AwaitConfirmation)
                else {}
            ),
        }


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
    named = [one for one in found if await_id is None or one.wait.id == await_id]
    fitting = [one for one in named if isinstance(one.wait, kind)]
    if len(fitting) == 1:
        require_worker(status)
        return fitting[0]
    if fitting:
        raise CommandError(
            _listed(f"{run_id} waits for several answers; say which, by its id:", fitting),
            exit_code=USAGE,
            run_id=run_id,
            open=[one.told() for one in fitting],
        )
    raise CommandError(
        _nothing(status, kind, await_id, named, found), run_id=run_id, open=[one.told() for one in found]
    )


def require_worker(status: RunStatus) -> None:
    """Refuse at once what no worker is there to take.

    Raises:
        CommandError: nobody polls the run's task queue.
    """
    gone = [hint for hint in status.hints if hint.startswith("no worker polls")]
    if gone:
        raise CommandError(
            f"{gone[0]}, so nobody takes this for {status.run_id}; start one with `sojourn worker MODULE:APP "
            f"--task-queue {gone[0].rsplit(' ', 1)[-1]}{given_again()}`, and send it again",
            exit_code=FAILED,
            run_id=status.run_id,
        )


def standing(status: RunStatus) -> str:
    """What a run does, in a clause."""
    if status.status == "paused":
        return "is paused; go on with `sojourn resume`"
    if status.status in ("running", "waiting"):
        return f"waits for nothing now: {PHASES.get(status.phase, 'it is at work')}"
    return f"has ended ({status.status}), and waits for nothing"


def _nothing(
    status: RunStatus,
    kind: type[Await],
    await_id: str | None,
    named: Sequence[OpenWait],
    found: Sequence[OpenWait],
) -> str:
    run_id = status.run_id
    if not found:
        return f"{run_id} {standing(status)}{''.join(f'; {hint}' for hint in status.hints)}"
    if await_id is not None and named:
        return f"{plain(await_id)} of {run_id} is {named[0].kind}; answer it with: {named[0].command}"
    missing = f"nothing called {plain(await_id)!r}" if await_id is not None else f"nothing like {KINDS[kind]}"
    return _listed(f"{run_id} waits for {missing}; open is:", found)


def _listed(title: str, waits: Sequence[OpenWait]) -> str:
    return "\n".join([title, *(f"  {line}" for one in waits for line in (*one.lines(), f"  {one.command}"))])


def _about(wait: Await) -> list[str]:
    if isinstance(wait, AwaitClarification):
        fields = f" (wanted: {', '.join(wanted(wait))})" if wait.missing_fields else ""
        return [plain(wait.question, 300) + fields]
    if isinstance(wait, AwaitConfirmation):
        lines, _ = call_lines(wait)
        return lines
    calls = [f"  {plain(item.tool_call_id)}: {plain(item.tool)}" for item in wait.items]
    arguments = [[f"    {line}" for line in disclose(item.payload).lines] for item in wait.items]
    return ["", *(line for call, lines in zip(calls, arguments, strict=True) for line in (call, *lines))]
