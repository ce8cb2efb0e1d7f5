"""`make demo`: one durable run, seen live, with its worker killed in the middle.

The demo starts a real Temporal server on disk, a worker process, and a run of the reference
deployment through the client SDK. In the run a call is refused with a hint and repaired, the worker
is killed while a tool runs and another worker executes the call again, an MCP server answers a call,
a second agent works as a child run, and a person answers a question and approves a call that replaces
something. The demo exits with 0 only if all of that happened, and leaves no process behind.

The planner is rules, whatever model the environment names; with `--model` it is that model (see
docs/models.md). A model may take another path; the end of the demo lists what did not happen.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from sojourn import AwaitClarification, AwaitConfirmation, Client, Run, ToolResult
from sojourn.answers import Decision, wait_view
from sojourn.cli.follow import show_end
from sojourn.cli.screen.prompt import ask_approval, read_line
from sojourn.cli.screen.view import RunView
from sojourn.events import Event
from sojourn.private import private_folder
from sojourn.process import Program
from sojourn.server import Server
from toolsets import executions
from toolsets.work_orders import work_orders

QUESTION = "why is site s-7 dark"
SLOW_TOOL = "ops.devices.scan_site"
NOBODY_ANSWER = "Mara Lindt, mara.lindt@example.org"
PATIENCE = 90.0
"""Seconds that a person has to answer, before the demo answers."""

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".sojourn" / "demo"


def is_mcp(tool: str) -> bool:
    """Whether the tool is one of the MCP server."""
    return tool.startswith(f"{work_orders.id}.")


def who(result: ToolResult) -> str:
    """What executed a call: `worker`, `MCP server`, `child run`, or `nobody` for a denied call."""
    if result.error and result.error.code == "denied":
        return "nobody"
    return "child run" if result.run_link else "MCP server" if is_mcp(result.name) else "worker"


@dataclass(slots=True)
class Seen:
    """What the demo promises to show, and which of it has happened."""

    calls: dict[str, tuple[str, str, int]] = field(default_factory=dict[str, tuple[str, str, int]])
    """By `tool_call_id`: the tool, what executed the call, and its attempts by Temporal's history."""
    ended: dict[str, int] = field(default_factory=dict[str, int])
    """By `tool_call_id`: the number of `tool_end` events."""
    hint: str = ""
    """The tool of the last call that was refused with a hint."""
    repaired: bool = False
    mcp: bool = False
    child: str = ""
    answered: bool = False
    approval: str = ""
    """The id of the wait in which a person decides on a call."""
    decided: bool = False
    killed: int = 0
    carried_on: bool = False
    answer: str = ""

    def note(self, event: Event) -> None:
        """Record what one event shows."""
        if event.type == "tool_end":
            result = event.result
            self.ended[result.tool_call_id] = self.ended.get(result.tool_call_id, 0) + 1
            attempts = result.telemetry.attempts if result.telemetry else 1
            self.calls[result.tool_call_id] = (result.name, who(result), 1 if result.run_link else attempts)
            if result.retry_hint:
                self.hint = result.retry_hint.tool
            elif result.ok and result.name == self.hint:
                self.repaired = True
            self.carried_on |= result.name == SLOW_TOOL and result.ok and attempts > 1
            self.mcp |= result.ok and is_mcp(result.name)
        elif event.type == "agent_run_started":
            self.child = event.run_link.run_id
        elif event.type == "await_confirmation":
            self.approval = event.confirmation.id
        elif event.type == "await_answered":
            self.answered |= event.await_id != self.approval
            self.decided |= event.await_id == self.approval and event.approved is not None
        elif event.type == "run_completed" and event.output:
            self.answer = event.output.text

    def missing(self) -> list[str]:
        """What the demo promises and did not happen."""
        promised = {
            "a call that came back with a hint and was repaired": self.repaired,
            "a tool of an MCP server that answered": self.mcp,
            "a second agent as a child run": bool(self.child),
            "a question that was answered": self.answered,
            "a call that a person decided about": self.decided,
            "a worker killed while a tool ran": bool(self.killed),
            "the killed tool's call carried out by another worker": self.carried_on,
            "each call answered once": bool(self.ended) and set(self.ended.values()) == {1},
            "an answer": bool(self.answer),
        }
        return [name for name, happened in promised.items() if not happened]


class Workers:
    """The current worker process, and its successor after a kill."""

    def __init__(self, log: Path) -> None:
        self._log = log.open("ab", buffering=0)
        self._program: Program | None = None

    def start(self) -> int:
        """Start a worker process and return its pid."""
        command = [sys.executable, "-m", "sojourn", "worker", "worker:app"]
        self._program = Program(command, log=self._log)
        return self._program.pid

    def kill(self) -> int:
        """End the worker process with SIGKILL, as a crash or an eviction does, and return its pid."""
        assert self._program
        self._program.kill()
        return self._program.pid

    async def stop(self) -> None:
        """Stop the worker process, within 10 seconds."""
        if self._program and self._program.is_running:
            await self._program.stop(timedelta(seconds=10))
        self._log.close()


@asynccontextmanager
async def everything(console: Console) -> AsyncGenerator[tuple[Server, Client, Workers]]:
    """Server, worker process and client; server and worker are stopped at the exit."""
    os.chdir(ROOT)
    private_folder(FOLDER)
    # The run changes the data; each demo starts with the same, made by a seeded script.
    for old in FOLDER.glob("ops.db*"):
        old.unlink()
    os.environ["SOJOURN_OPS_DB"] = str(FOLDER / "ops.db")
    if "--model" not in sys.argv:
        os.environ["SOJOURN_MODEL"] = "off"
    executions.history()
    async with Server(db_filename=FOLDER / "temporal.db", attach=False) as server:
        os.environ["TEMPORAL_ADDRESS"] = server.address
        workers = Workers(FOLDER / "worker.log")
        try:
            console.print(f"server {server.address} on {FOLDER.relative_to(ROOT) / 'temporal.db'}")
            console.print(f"worker process {workers.start()}, log {FOLDER.relative_to(ROOT) / 'worker.log'}")
            yield server, await Client.connect(server.address), workers
        finally:
            await workers.stop()


async def kill_while_scanning(run: Run, workers: Workers, seen: Seen, view: RunView) -> None:
    """Wait until the slow tool has recorded its start, kill its worker and start another."""
    while not any(row["tool"] == SLOW_TOOL for row in executions.history(run.id)):
        await asyncio.sleep(0.1)
    await asyncio.sleep(1.0)
    seen.killed = workers.kill()
    view.say(f"✂ SIGKILL of worker process {seen.killed} while {SLOW_TOOL} runs", "bold red")
    view.say(f"▶ worker process {workers.start()} started; Temporal misses the heartbeat within 15 s", "bold")


def end_line_of_prompt(answered: object) -> None:
    """End the line of a prompt that nobody answered; an answer's own Enter has ended it."""
    if not answered:
        print(flush=True)


async def answer(run: Run, question: AwaitClarification, view: RunView) -> None:
    """Ask the person at the terminal; without a terminal, or after `PATIENCE` seconds, answer for the person."""
    text, by = "", "demo"
    if sys.stdin.isatty():
        view.pause()
        print(
            f"(an empty line, or {PATIENCE:.0f} s of silence, answers: {NOBODY_ANSWER})\n> ",
            end="",
            flush=True,
        )
        line = await read_line(PATIENCE)
        end_line_of_prompt(line)
        text, by = line.strip(), "you"
        view.resume()
    await run.answer(question.id, text or NOBODY_ANSWER, by=by if text else "demo")


async def decide(run: Run, call: AwaitConfirmation, view: RunView) -> None:
    """Ask the person at the terminal for a decision; without a terminal, or after `PATIENCE` seconds, approve the call."""
    decision = None
    if sys.stdin.isatty():
        view.pause()
        print(f"({PATIENCE:.0f} s of silence approves it)")
        decision = await ask_approval(wait_view(call, run.id), PATIENCE)
        end_line_of_prompt(decision)
        view.resume()
    by = "you" if decision else "demo"
    decision = decision or Decision(approved=True)
    if decision.approved:
        for_run = decision.scope == "tool"
        await run.approve(call, by=by, reason=decision.reason, for_run=for_run)
    else:
        await run.deny(call, decision.reason, by=by)


async def follow(run: Run, workers: Workers, console: Console) -> Seen:
    """Show the run live; kill its worker, answer its question and decide on its call."""
    seen = Seen()
    with RunView(run.id, console) as view:
        killing: asyncio.Task[None] | None = None
        async for event in run.events(children=True):
            view.show(event)
            show_end(view, event, run)
            if event.run_id != run.id:
                continue
            seen.note(event)
            if event.type == "tool_start" and event.tool_name == SLOW_TOOL and killing is None:
                killing = asyncio.create_task(kill_while_scanning(run, workers, seen, view))
            elif event.type == "tool_start" and is_mcp(event.tool_name):
                view.say(f"⇄ {work_orders.id} is an MCP server, a process of the worker's")
            elif event.type == "await_clarification":
                await answer(run, event.question, view)
            elif event.type == "await_confirmation":
                await decide(run, event.confirmation, view)
        if killing:
            await killing
    return seen


def show_executions(run: Run, seen: Seen, console: Console) -> bool:
    """Print how often each call was executed; True if each recorded call finished once, the slow tool's among them.

    The attempts come from Temporal's history. Tools that take long or have effects also record their
    executions themselves, for the columns `ran` and `done`.
    """
    table = Table(title="what was executed how often", box=SIMPLE, pad_edge=False, collapse_padding=True)
    for name in ("tool", "by", "tool_call_id", "attempts", "ran", "done"):
        # A narrow terminal cuts the id, and nothing else.
        table.add_column(name, no_wrap=name != "tool_call_id", overflow="ellipsis")
    once = True
    for call_id, (tool, by, attempts) in seen.calls.items():
        own = [row for row in executions.history(run.id) if row["tool_call_id"] == call_id]
        finished = sum(1 for row in own if row["finished_at"])
        once = once and finished == (1 if own else 0)
        recorded = (str(len(own)), str(finished)) if own else ("", "")
        table.add_row(tool, by, call_id, str(attempts), *recorded)
    console.print(table)
    return once and any(tool == SLOW_TOOL for tool, *_ in seen.calls.values())


async def main() -> int:
    """Run the demo; 0 if everything that it promises happened, else 1."""
    console = Console(highlight=False)
    async with everything(console) as (server, client, workers):
        run = await client.start("ops.assistant", QUESTION, session_id="demo", wait_for_worker=True)
        seen = await follow(run, workers, console)
        once = show_executions(run, seen, console)
        url = f"{server.ui_url}/namespaces/{server.namespace}/workflows/{run.id}"
        console.print(f"the run in Temporal's UI: {url}", soft_wrap=True)
        missing = seen.missing() + ([] if once else ["each finished call executed once"])
        for name in missing:
            console.print(f"not seen: {name}", style="bold red")
        if sys.stdin.isatty() and console.is_terminal and not missing:
            print("Enter ends the demo and its server. ", end="", flush=True)
            end_line_of_prompt(await read_line(PATIENCE))
        return 1 if missing else 0


if __name__ == "__main__":
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        task = loop.create_task(main())
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
        try:
            code = loop.run_until_complete(task)
        except asyncio.CancelledError:
            code = 130
    sys.stdout.flush()
    os._exit(code)
