"""`make demo`: one durable run, seen live, with its worker killed in the middle.

A real Temporal server on disk, a worker process, and a run of the reference deployment through
the client SDK: a call is refused with a hint and repaired, the worker is killed while a tool runs
and another one carries on, an MCP server answers a call, a second agent works as a child run, and a
person is asked, and approves a call that replaces something. Exits with 0 only when all of that was
seen, and leaves no process behind.

Rules decide, whatever is set; with `--model`, what the environment says (see docs/models.md). A model goes
its own way: what it did not show of all that is told at the end.
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

from sojourn import AwaitClarification, AwaitConfirmation, Client, Event, Run, ToolResult
from sojourn.cli.follow import show_end
from sojourn.cli.screen.prompt import ask_approval, read_line
from sojourn.cli.screen.view import RunView
from sojourn.process import Program
from sojourn.server import Server
from toolsets import executions
from toolsets.work_orders import work_orders

QUESTION = "why is site s-7 dark"
SLOW_TOOL = "ops.devices.scan_site"
NOBODY_ANSWER = "Mara Lindt, mara.lindt@example.org"
PATIENCE = 90.0
"""Seconds that a person has to answer before the demo does it."""

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".sojourn" / "demo"


def is_mcp(tool: str) -> bool:
    """Whether this is a tool of the MCP server."""
    return tool.startswith(f"{work_orders.id}.")


def who(result: ToolResult) -> str:
    """Who carried a call out."""
    if result.error and result.error.code == "denied":
        return "nobody"
    return "child run" if result.run_link else "MCP server" if is_mcp(result.name) else "worker"


@dataclass(slots=True)
class Seen:
    """What the demo promises to show, ticked off as it happens."""

    calls: dict[str, tuple[str, str, int]] = field(default_factory=dict[str, tuple[str, str, int]])
    """By call: its tool, who carried it out, and executions by Temporal's history."""
    ended: dict[str, int] = field(default_factory=dict[str, int])
    hint: str = ""
    repaired: bool = False
    mcp: bool = False
    child: str = ""
    answered: bool = False
    approval: str = ""
    """The wait on which a person decides about a call."""
    decided: bool = False
    killed: int = 0
    carried_on: bool = False
    answer: str = ""

    def note(self, event: Event) -> None:
        """Tick off one event."""
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
        """What was promised and did not happen."""
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
    """The worker process of the moment."""

    def __init__(self, log: Path) -> None:
        self._log = log.open("ab", buffering=0)
        self._program: Program | None = None

    def start(self) -> int:
        """Start one; returns its pid."""
        command = [sys.executable, "-m", "sojourn", "worker", "worker:app"]
        self._program = Program(command, log=self._log)
        return self._program.pid

    def kill(self) -> int:
        """SIGKILL it, as a crash or an eviction would; returns its pid."""
        assert self._program
        self._program.kill()
        return self._program.pid

    async def stop(self) -> None:
        """End it in good order."""
        if self._program and self._program.is_running:
            await self._program.stop(timedelta(seconds=10))
        self._log.close()


@asynccontextmanager
async def everything(console: Console) -> AsyncGenerator[tuple[Server, Client, Workers]]:
    """Server, worker process and client; all ended on the way out."""
    os.chdir(ROOT)
    FOLDER.mkdir(parents=True, exist_ok=True)
    # The demo changes its data, so that each has its own, made anew by the seeded script.
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
    """Once the slow tool has started, by its own record, kill its worker and start another."""
    while not any(row["tool"] == SLOW_TOOL for row in executions.history(run.id)):
        await asyncio.sleep(0.1)
    await asyncio.sleep(1.0)
    seen.killed = workers.kill()
    view.say(f"✂ SIGKILL of worker process {seen.killed} while {SLOW_TOOL} runs", "bold red")
    view.say(f"▶ worker process {workers.start()} started; Temporal misses the heartbeat within 15 s", "bold")


async def answer(run: Run, question: AwaitClarification, view: RunView) -> None:
    """Ask the person at the terminal; when nobody is there, or nobody answers, answer by itself."""
    said, by = "", "demo"
    if sys.stdin.isatty():
        view.pause()
        print(
            f"(an empty line, or {PATIENCE:.0f} s of silence, answers: {NOBODY_ANSWER})\n> ",
            end="",
            flush=True,
        )
        said, by = (await read_line(PATIENCE)).strip(), "you"
        view.resume()
    await run.answer(question.id, said or NOBODY_ANSWER, by=by if said else "demo")


async def decide(run: Run, call: AwaitConfirmation, view: RunView) -> None:
    """Have the person at the terminal approve the call, or not; when nobody is there, approve it by itself."""
    decision = None
    if sys.stdin.isatty():
        view.pause()
        print(f"({PATIENCE:.0f} s of silence approves it)")
        decision = await ask_approval(call, PATIENCE)
        view.resume()
    letter, reason = decision or ("y", "")
    by = "you" if decision else "demo"
    if letter == "n":
        await run.deny(call, reason, by=by)
    else:
        await run.approve(call, by=by, reason=reason, for_run=letter == "a")


async def follow(run: Run, workers: Workers, console: Console) -> Seen:
    """Show the run live and interfere with it as promised."""
    seen = Seen()
    with RunView(console) as view:
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
    """What was executed how often; whether each call that finished did so exactly once.

    Temporal's history tells the attempts of every call; tools that take long or have effects keep
    a record of their own, which tells what really ran.
    """
    table = Table(title="what was executed how often", box=SIMPLE, pad_edge=False, collapse_padding=True)
    for name in ("tool", "by", "tool_call_id", "attempts", "ran", "done"):
        # The id gives way where the terminal is narrow.
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
    """Show it all; 0 when it was all seen."""
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
            await read_line(PATIENCE)
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
