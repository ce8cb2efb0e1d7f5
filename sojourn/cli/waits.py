"""What a run and its child runs wait for, which of it a command means, and the command lines that answer it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sojourn.cli.failure import USAGE, CommandError
from sojourn.cli.options import given_again
from sojourn.cli.screen.lines import call_lines
from sojourn.cli.screen.text import plain, shell_word
from sojourn.client.client import Client
from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation, AwaitExternalTools
from sojourn.contracts.run import RunStatus
from sojourn.core.awaits.clarification import wanted
from sojourn.core.awaits.disclosure import disclose

__all__ = ["OpenWait", "answer_lines", "find_wait", "nothing_open", "open_waits", "require_worker"]

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
    def commands(self) -> list[str]:
        """The command lines that answer it, the usual one first."""
        return answer_lines(self.run_id, self.wait)

    @property
    def command(self) -> str:
        """The usual command line that answers it."""
        return self.commands[0]

    def lines(self) -> list[str]:
        """Id and kind, and what it is about, field by field."""
        first, *rest = _about(self.wait)
        return [f"{plain(self.wait.id)}: {self.kind}: {first}", *rest]

    def told(self) -> dict[str, Any]:
        """The same, for machines."""
        told = {
            "run_id": self.run_id,
            "await_id": self.wait.id,
            "kind": "results" if isinstance(self.wait, AwaitExternalTools) else self.kind.rsplit(" ", 1)[-1],
            "about": "\n".join(_about(self.wait)),
            "command": self.command,
        }
        if isinstance(self.wait, AwaitConfirmation):
            told["payload_digest"] = self.wait.payload_digest
        return told


def answer_lines(run_id: str, wait: Await) -> list[str]:
    """The command lines that answer a wait, the usual one first; what is in capitals is to be replaced."""
    run = shell_word(run_id)
    to = f"{run} {shell_word(wait.id)}"
    if isinstance(wait, AwaitClarification):
        fields = " ".join(f"--field {shell_word(f'{name}=VALUE')}" for name in wait.missing_fields)
        said = fields or "'YOUR ANSWER'"
        lines = [f"answer {to} {said}", f"answer {to} --decline --why WHY"]
    elif isinstance(wait, AwaitConfirmation):
        lines = [f"approve {to}", f"deny {to} --why WHY"]
    else:
        results = [f"provide {run} --result {shell_word(item.tool_call_id)}=JSON" for item in wait.items]
        lines = [f"provide {run} FILE", *results]
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
            _listed(f"{run_id} waits for several answers; say which, by its id:", fitting),
            exit_code=USAGE,
            run_id=run_id,
            open=[each.told() for each in fitting],
        )
    if not found:
        text = nothing_open(status)
    elif await_id is not None and named:
        text = f"{plain(await_id)} of {run_id} is {named[0].kind}; answer it with: {named[0].command}"
    else:
        missing = f"called {plain(await_id)!r}" if await_id is not None else f"like {KINDS[kind]}"
        text = _listed(f"{run_id} waits for nothing {missing}; open is:", found)
    raise CommandError(text, run_id=run_id, open=[each.told() for each in found])


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
            run_id=status.run_id,
        )


def nothing_open(status: RunStatus) -> str:
    """What a run does that waits for nothing, and hints."""
    if status.status == "paused":
        clause = "is paused; go on with `sojourn resume`"
    elif status.status in ("running", "waiting"):
        clause = f"waits for nothing now: {PHASES.get(status.phase, 'it is at work')}"
    else:
        clause = f"has ended ({status.status}), and waits for nothing"
    return "; ".join([f"{status.run_id} {clause}", *status.hints])


def _listed(title: str, waits: Sequence[OpenWait]) -> str:
    return "\n".join(
        [title, *(f"  {line}" for wait in waits for line in (*wait.lines(), f"  {wait.command}"))]
    )


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
