"""`python docs/capture.py`: write the screens of docs/screens/, as a real terminal shows the real commands.

The script starts a server, a worker of the reference deployment and runs. Each command runs in a
pseudo-terminal of its own, and the script writes the screen at the command's end to a file, with fixed
text for what differs between two captures (ids, times, ports). `--check` compares and writes nothing.
"""

import argparse
import asyncio
import contextlib
import difflib
import io
import os
import re
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from sojourn import Client, RunFailed
from sojourn.checks.application import MODEL_VARIABLES
from sojourn.server import Server
from tests.programs import Program
from tests.programs.terminal import COLUMNS, Terminal

__all__ = ["capture", "demo", "screens"]

ROOT = Path(__file__).resolve().parent.parent
SCREENS = ROOT / "docs" / "screens"
WIDTHS = (60, 80, 120)
"""Columns of the terminals in which the commands of `WIDE` are captured too."""
WIDE = {"show": ["show", "dark"], "list": ["list"], "catalog": ["catalog", "worker:app"]}
COMMANDS = {**WIDE, "doctor": ["doctor", "worker:app"]}

PICTURE = "show-80"
"""The screen that is a picture too, in the README."""

AWAY = '''"""A desk whose provider is away."""

from sojourn import Agent, App


async def plan(turn):
    """Ask a provider that is away."""
    raise ConnectionError("the provider does not answer")


app = App(agents=[Agent("desk.clerk", planner=plan)])
'''

LATE = '''"""A desk that does not answer its first question."""

from sojourn import Agent, App, PlanResult

turns = []


async def plan(turn):
    """Answer, from the second turn on."""
    turns.append(turn)
    if len(turns) == 1:
        raise TypeError("the list of the stock is not open")
    return PlanResult.final("Yes, two lamps.")


app = App(agents=[Agent("desk.clerk", planner=plan)])
'''

TALK = ("thanks", "which sites are dark", "list the work orders of s-4")
"""What is said in a conversation before its last turn."""

_UNSTEADY = (
    (r"call_[0-9a-f]{12}", "call_0123456789ab"),
    (r"\bassistant-[0-9a-f]{12}", "assistant-0123456789ab"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "2026-01-31 12:00:00"),
    (r"\b\d\d:\d\d:\d\d\.\d{3}", "12:00:00.000"),
    (r"\b\d\d-\d\d \d\d:\d\d  ", "01-31 12:00  "),
    (r"\b\d+(\.\d+)? ms\b|\b\d+(\.\d+)? s\b|\b\d+ min( \d+ s)?\b", "9 ms"),
    (r"  waited 9 ms", ""),  # a busy machine begins a turn late
    (r"127\.0\.0\.1:\d+", "127.0.0.1:7233"),
    (r"\b(worker process) \d+", r"\1 1234"),
    (r"\b\d+@[\w.-]+", "1234@host"),
    (r"/\S+(?=/bin/temporal\b)", "/usr/local"),
    (
        r"\b([A-Za-z][\w-]*:? )(?!127\.)\d+(?:\.\d+){2,3}\b",  # a version, not the address
        r"\g<1>1.2.3",
    ),
    ("[\u2801-\u28ff]", "⠋"),
    (r"· cookies: (?:[^\n]*\n)+? +→ [^\n]*\n", ""),  # an older Python
    (r", temporal-python 1\.2\.3\)", ")"),  # the server learns a worker's SDK some seconds later
    (r": \d open, none", ": 1 open, none"),  # visibility lags
)
"""Patterns of what differs between two captures, each with its replacement."""


def steady(text: str) -> str:
    """A screen with fixed text for what differs between two captures."""
    for pattern, word in _UNSTEADY:
        text = re.sub(pattern, word, text)
    return text


def loose(text: str) -> list[str]:
    """The words of a screen: where a line or a call's arguments are cut depends on durations, and a column's width on its values."""
    text = re.sub(r"\([^\n]*…\) \(9 ms", "(…) (9 ms", text)
    return re.sub(r" = [^\n]*… \(9 ms", " = … (9 ms", text).replace("─", "").split()


def sojourn(*words: str) -> list[str]:
    """The command line of `sojourn` in this environment."""
    return [sys.executable, "-m", "sojourn", *words]


@asynccontextmanager
async def deployment(folder: Path) -> AsyncGenerator[dict[str, str]]:
    """A server and a worker of the reference deployment; yields the environment variables that lead to them."""
    async with Server(db_filename=folder / "temporal.db", attach=False, port=0, ui=False) as server:
        env = {
            "TEMPORAL_ADDRESS": server.address,
            "SOJOURN_OPS_DB": str(folder / "ops.db"),
            "LOGNAME": "ana",
            "PYTHONPATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH")))),
        }
        for name in MODEL_VARIABLES:  # `doctor` lists those that are set
            os.environ.pop(name, None)
        async with working(env, folder, "worker:app"):
            client = await Client.connect(server.address)
            while not await client.has_worker("worker:app"):
                await asyncio.sleep(0.1)
            yield env


@asynccontextmanager
async def working(env: dict[str, str], folder: Path, app: str, *options: str) -> AsyncGenerator[None]:
    """A worker of an app, as a process."""
    log = folder / f"{app.partition(':')[0]}.log"
    words = ("-m", "sojourn", "worker", app, *options)
    worker = Program(*words, cwd=ROOT, env={**os.environ, **env}, out=log, err=log)
    try:
        yield
    finally:
        worker.terminate()
        await asyncio.to_thread(worker.wait)


async def finished(*command: str, env: dict[str, str], columns: int = COLUMNS) -> str:
    """The last screen of a command that asks nothing."""
    return await (await Terminal.run(*command, columns=columns, env={**os.environ, **env})).end()


async def taken_up(env: dict[str, str], folder: Path) -> str:
    """The screen of a `sojourn retry`, of a run that failed by a planner's mistake."""
    async with serving(env, folder, "late", "late_desk", LATE) as client:
        failed = await client.start("desk.clerk", "Is there a lamp?", run_id="stock")
        with contextlib.suppress(RunFailed):
            await failed.result()
        words = ["retry", "stock", "--run-id", "stock-again", "--task-queue", "late"]
        return await finished(*sojourn(*words), env=env)


@asynccontextmanager
async def serving(
    env: dict[str, str], folder: Path, queue: str, module: str, source: str
) -> AsyncGenerator[Client]:
    """A worker of a module on a task queue of its own; yields a client of the queue."""
    (folder / f"{module}.py").write_text(source)
    async with working(env, folder, f"{module}:app", "--task-queue", queue):
        client = await Client.connect(env["TEMPORAL_ADDRESS"], task_queue=queue)
        while not await client.has_worker(queue):
            await asyncio.sleep(0.1)
        yield client


async def away(env: dict[str, str], folder: Path, columns: int) -> str:
    """The screen of a `sojourn run` whose provider is away, before the fourth attempt."""
    queue = f"away-{columns}"
    async with serving(env, folder, queue, "desk", AWAY) as client:
        words = ["run", "desk.clerk", "Is there stock?", "--run-id", queue, "--task-queue", queue]
        following = await Terminal.run(*sojourn(*words), columns=columns, env={**os.environ, **env})
        await following.shows(r"attempt 4 after[^;]*; next\s+try\s+in")
        shown = following.text
        following.process.send_signal(signal.SIGINT)
        await following.end()
        await client.get_run(queue).cancel()
        return shown


def picture(text: str, title: str) -> str:
    """A screen as SVG."""
    console = Console(record=True, width=WIDTHS[1], file=io.StringIO(), highlight=False)
    console.print(Text(text.rstrip()), soft_wrap=True)
    return console.export_svg(title=title, unique_id="sojourn")


async def answered(env: dict[str, str]) -> str:
    """The last screen of a `sojourn run` whose questions are answered at the prompt."""
    terminal = await Terminal.run(
        *sojourn("run", "ops.assistant", "why is site s-7 dark", "--run-id", "dark"),
        env={**os.environ, **env},
    )
    await terminal.shows(r"\n>$")
    terminal.type("Mara Lindt, mara.lindt@example.org\n")
    await terminal.shows(r"\[y/n/a\]$")
    terminal.type("y\n")
    return await terminal.end()


async def waiting(env: dict[str, str]) -> str:
    """The screen of `sojourn show` for a run that waits."""
    asked = await Terminal.run(
        *sojourn("run", "ops.assistant", "why is site s-7 dark", "--run-id", "waits"),
        env={**os.environ, **env},
    )
    await asked.shows(r"\n>$|\[y/n/a\]$")
    asked.process.send_signal(signal.SIGINT)
    await asked.end()
    return await finished(*sojourn("show", "waits"), env=env)


async def talk(env: dict[str, str]) -> str:
    """The screen of `sojourn show` for a conversation whose turn asks, while a message waits."""
    client = await Client.connect(env["TEMPORAL_ADDRESS"])
    session = client.session("ops.assistant", "desk-1")
    for text in TALK:
        await (await session.send(text, by="ana")).result()
    await session.send("why is site s-7 dark", by="ana")
    await session.run.until_waiting()
    await session.send("and s-3?", by="ben")
    return await finished(*sojourn("show", session.run.id, "--last", "2"), columns=WIDTHS[1], env=env)


async def demo() -> str:
    """The demo's last screen, with its questions answered at the prompt."""
    terminal = await Terminal.run(sys.executable, "docs/demo.py")
    await terminal.shows(r"answers: .*\n>$")
    terminal.type("\n")
    await terminal.shows(r"\[y/n/a\]$")
    terminal.type("y\n")
    await terminal.shows("Enter ends the demo")
    terminal.type("\n")
    return await terminal.end()


async def screens() -> dict[str, str]:
    """The last screens of all commands, by name; the demo is not among them."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        parts = await asyncio.gather(_screens_of_runs(Path(one)), _screens_of_talk(Path(other)))
    return {name: screen for part in parts for name, screen in part.items()}


async def _screens_of_runs(folder: Path) -> dict[str, str]:
    async with deployment(folder) as env:
        shown = {"show-waiting": await waiting(env), "run": await answered(env)}
        words = {name: (command, COLUMNS) for name, command in COMMANDS.items()}
        for columns in WIDTHS:
            words |= {f"{name}-{columns}": (command, columns) for name, command in WIDE.items()}
        shown |= await _at_once(  # before the runs below, which `list` would show in any order
            {
                name: finished(*sojourn(*command), columns=columns, env=env)
                for name, (command, columns) in words.items()
            }
        )
        fork = ["fork", "dark", "--message", "Please say that again.", "--run-id", "again"]
        return shown | await _at_once(
            {
                "fork": finished(*sojourn(*fork), env=env),
                "retry": taken_up(env, folder),
                **{f"run-away-{columns}": away(env, folder, columns) for columns in WIDTHS},
            }
        )


async def _screens_of_talk(folder: Path) -> dict[str, str]:
    """Record the chat on a server of its own: other runs register the contact for which this one asks."""
    async with deployment(folder) as env:
        return {"show-talk": await talk(env)}


async def _at_once(screens: dict[str, Coroutine[None, None, str]]) -> dict[str, str]:
    return dict(zip(screens, await asyncio.gather(*screens.values()), strict=True))


def capture(name: str, text: str, *, check: bool) -> str:
    """Write a screen to its file; with `check`, return the difference from the file instead, empty if there is none."""
    path, text = SCREENS / f"{name}.txt", steady(text)
    if not check:
        path.write_text(text)
        if name == PICTURE:
            path.with_suffix(".svg").write_text(picture(text, "sojourn show"))
        return ""
    before = path.read_text() if path.exists() else ""
    return "\n".join(difflib.unified_diff(loose(before), loose(text), name, "now", lineterm=""))


async def main(options: argparse.Namespace) -> int:
    """Capture all screens; 1 if one differs from its file, else 0."""
    shown = await screens()
    if not options.no_demo:
        shown["demo"] = await demo()
    differences = [capture(name, text, check=options.check) for name, text in shown.items()]
    print("\n".join(filter(None, differences)) or "as written")
    return 1 if any(differences) else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python docs/capture.py")
    parser.add_argument("--check", action="store_true", help="compare with the files, write nothing")
    parser.add_argument(
        "--no-demo", action="store_true", help="leave out the demo's screen, which takes half a minute"
    )
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(asyncio.run(main(parser.parse_args())))
