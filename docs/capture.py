"""`python docs/capture.py`: write the screens of docs/screens/, as a real terminal shows the real commands.

The script starts a server, a worker of the reference deployment and runs. Each command runs in a
pseudo-terminal of its own, and the script writes the screen at the command's end to a file, with fixed
text for what differs between two captures (ids, times, ports). `--check` compares and writes nothing.
"""

import argparse
import asyncio
import contextlib
import difflib
import os
import pty
import re
import signal
import struct
import sys
import tempfile
import termios
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from fcntl import ioctl
from pathlib import Path

import pyte

from sojourn import Client
from sojourn.cli.checks.application import MODEL_VARIABLES
from sojourn.process import Program
from sojourn.server import Server

__all__ = ["Terminal", "capture", "demo", "screens"]

ROOT = Path(__file__).resolve().parent.parent
SCREENS = ROOT / "docs" / "screens"
COLUMNS, LINES = 140, 45
HISTORY = 500

_UNSTEADY = (
    (r"call_[0-9a-f]{12}", "call_0123456789ab"),
    (r"\bassistant-[0-9a-f]{12}", "assistant-0123456789ab"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "2026-01-31 12:00:00"),
    (r"\b\d\d:\d\d:\d\d\.\d{3}", "12:00:00.000"),
    (r"\b\d+(\.\d+)? ms\b|\b\d+(\.\d+)? s\b|\b\d+ min \d+ s\b", "9 ms"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:7233"),
    (r"\b(worker process) \d+", r"\1 1234"),
    (r"\b\d+@[\w.-]+", "1234@host"),
    (r"/\S+(?=/bin/temporal\b)", "/usr/local"),
    (
        r"\b([A-Za-z][\w-]*:? )(?!127\.)\d+(?:\.\d+){2,3}\b",  # a version, not the address
        r"\g<1>1.2.3",
    ),
    (r", temporal-python 1\.2\.3\)", ")"),  # the server learns a worker's SDK some seconds later
    (r": \d open, none", ": 1 open, none"),  # visibility lags
)
"""Patterns of what differs between two captures, each with its replacement."""


class Terminal:
    """A command in a pseudo-terminal, and its screen."""

    def __init__(self, process: asyncio.subprocess.Process, end: int) -> None:
        self.process = process
        self._end = end
        self._screen = pyte.HistoryScreen(COLUMNS, LINES, history=HISTORY, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
        self._changed = asyncio.Event()
        self._over = asyncio.Event()
        os.set_blocking(end, False)
        asyncio.get_running_loop().add_reader(end, self._read)

    @classmethod
    async def run(cls, *command: str, **env: str) -> "Terminal":
        """Start a command in a new pseudo-terminal, with `env` added to this process's environment."""
        end, inside = pty.openpty()
        ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        process = await asyncio.create_subprocess_exec(
            *command, stdin=inside, stdout=inside, stderr=inside, cwd=ROOT, start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(LINES), **env},
        )  # fmt: skip
        os.close(inside)
        return cls(process, end)

    def _read(self) -> None:
        try:
            data = os.read(self._end, 65536)
        except BlockingIOError:
            return
        except OSError:  # EIO: the other end is closed
            data = b""
        if data:
            self._stream.feed(data)
            self._changed.set()
        else:
            asyncio.get_running_loop().remove_reader(self._end)
            self._over.set()
            self._changed.set()

    @property
    def text(self) -> str:
        """The screen and the lines scrolled off it, without trailing spaces."""
        above = ["".join(row[column].data for column in range(COLUMNS)) for row in self._screen.history.top]
        return "\n".join(line.rstrip() for line in [*above, *self._screen.display]).rstrip() + "\n"

    async def shows(self, pattern: str) -> None:
        """Wait until the last 2,000 characters match a pattern."""
        while not re.search(pattern, self.text.rstrip()[-2_000:]):
            if self._over.is_set():
                raise RuntimeError(f"no {pattern!r} before the end:\n{self.text}")
            self._changed.clear()
            await self._changed.wait()

    def type(self, keys: str) -> None:
        """Send keys to the command."""
        os.write(self._end, keys.encode())

    async def end(self) -> str:
        """Wait for the command's end and return its last screen."""
        await self.process.wait()
        await self._over.wait()
        os.close(self._end)
        return self.text


def steady(text: str) -> str:
    """A screen with fixed text for what differs between two captures."""
    for pattern, word in _UNSTEADY:
        text = re.sub(pattern, word, text)
    return text


def loose(text: str) -> list[str]:
    """The lines of a screen with single spaces: the width of a column depends on its values."""
    return [" ".join(line.replace("─", "").split()) for line in text.splitlines()]


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
        }
        for name in MODEL_VARIABLES:  # `doctor` lists those that are set
            os.environ.pop(name, None)
        with (folder / "worker.log").open("ab", buffering=0) as log:
            os.environ.update(env)
            worker = Program(sojourn("worker", "worker:app"), log=log)
            try:
                client = await Client.connect(server.address)
                while not await client.has_worker():
                    await asyncio.sleep(0.1)
                yield env
            finally:
                await worker.stop(timedelta(seconds=10))


async def finished(*command: str, **env: str) -> str:
    """The last screen of a command that asks nothing."""
    return await (await Terminal.run(*command, **env)).end()


async def answered(env: dict[str, str]) -> str:
    """The last screen of a `sojourn run` whose questions are answered at the prompt."""
    terminal = await Terminal.run(
        *sojourn("run", "ops.assistant", "why is site s-7 dark", "--run-id", "dark"), **env
    )
    await terminal.shows(r"\n>$")
    terminal.type("Mara Lindt, mara.lindt@example.org\n")
    await terminal.shows(r"\[y/n/a\]$")
    terminal.type("y\n")
    return await terminal.end()


async def waiting(env: dict[str, str]) -> str:
    """The screen of `sojourn show` for a run that waits."""
    asked = await Terminal.run(
        *sojourn("run", "ops.assistant", "why is site s-7 dark", "--run-id", "waits"), **env
    )
    await asked.shows(r"\n>$|\[y/n/a\]$")
    asked.process.send_signal(signal.SIGINT)
    await asked.end()
    return await finished(*sojourn("show", "waits"), **env)


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
    with tempfile.TemporaryDirectory() as folder:
        async with deployment(Path(folder)) as env:
            shown = {"show-waiting": await waiting(env), "run": await answered(env)}
            commands = {
                "show": ["show", "dark"],
                "list": ["list"],
                "catalog": ["catalog", "worker:app"],
                "doctor": ["doctor", "worker:app"],
            }
            for name, words in commands.items():
                shown[name] = await finished(*sojourn(*words), **env)
            return shown


def capture(name: str, text: str, *, check: bool) -> str:
    """Write a screen to its file; with `check`, return the difference from the file instead, empty if there is none."""
    path, text = SCREENS / f"{name}.txt", steady(text)
    if not check:
        path.write_text(text)
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
