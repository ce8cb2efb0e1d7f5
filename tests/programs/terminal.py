"""Terminal: a command in a pseudo-terminal, with the screen that a person would see.

It answers what programs ask a terminal, such as where its cursor is: prompt_toolkit draws its last line only where it knows that.
"""

import asyncio
import contextlib
import os
import pty
import re
import signal
import struct
import sys
import termios
from collections.abc import Mapping
from fcntl import ioctl
from pathlib import Path
from typing import Self

import pyte

from tests.programs.command import Command

__all__ = ["COLUMNS", "Terminal"]

COLUMNS, LINES = 140, 45
HISTORY = 500
PATIENCE = 90
"""Seconds to wait for what the screen should show."""
ROOT = Path(__file__).resolve().parents[2]


class Terminal:
    """A command in a pseudo-terminal, and its screen."""

    def __init__(
        self, process: asyncio.subprocess.Process | Command, end: int, columns: int = COLUMNS
    ) -> None:
        self.process = process
        self._end = end
        self._columns = columns
        self._screen = pyte.HistoryScreen(columns, LINES, history=HISTORY, ratio=0.5)
        self._screen.write_process_input = self._reply
        self._stream = pyte.ByteStream(self._screen)
        self._changed = asyncio.Event()
        self._over = asyncio.Event()
        os.set_blocking(end, False)
        asyncio.get_running_loop().add_reader(end, self._read)

    @classmethod
    async def run(
        cls,
        *command: str,
        columns: int = COLUMNS,
        cwd: Path = ROOT,
        env: Mapping[str, str] = os.environ,
    ) -> Self:
        """Start a command in a new pseudo-terminal, which Ctrl-C interrupts.

        Args:
            command: The command line; one of this Python is forked from a process that has imported Sojourn.
            columns: How wide the terminal is.
            cwd: The working directory.
            env: The whole environment.
        """
        end, inside = pty.openpty()
        ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, columns, 0, 0))
        env = {**env, "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(LINES)}
        if command[0] == sys.executable:
            process = await Command.in_terminal(*command[1:], terminal=inside, cwd=cwd, env=env)
        else:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=inside, stdout=inside, stderr=inside, cwd=cwd, start_new_session=True,
                preexec_fn=_lead, env=env,
            )  # fmt: skip
        os.close(inside)
        return cls(process, end, columns)

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

    def _reply(self, data: str) -> None:
        """Answer a question of the command, unless it has ended meanwhile."""
        with contextlib.suppress(OSError):
            os.write(self._end, data.encode())

    @property
    def text(self) -> str:
        """The screen and the lines scrolled off it, without trailing spaces."""
        above = [
            "".join(row[column].data for column in range(self._columns)) for row in self._screen.history.top
        ]
        return "\n".join(line.rstrip() for line in [*above, *self._screen.display]).rstrip() + "\n"

    async def shows(self, pattern: str) -> None:
        """Wait until the last 2,000 characters match a pattern.

        Raises:
            RuntimeError: The command ended before.
            TimeoutError: They do not match for a minute and a half.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                while not re.search(pattern, self.text.rstrip()[-2_000:]):
                    await self.changes()
        except TimeoutError:
            raise TimeoutError(f"{pattern!r} is not on the screen:\n{self.text}") from None

    async def changes(self) -> None:
        """Wait until the command writes.

        Raises:
            RuntimeError: The command has ended.
        """
        if self._over.is_set():
            raise RuntimeError(f"the command has ended:\n{self.text}")
        self._changed.clear()
        await self._changed.wait()

    def type(self, keys: str) -> None:
        """Send keys to the command."""
        os.write(self._end, keys.encode())

    def clear(self) -> None:
        """Empty the screen, and forget the lines scrolled off it."""
        self._screen.reset()

    async def end(self) -> str:
        """Wait for the command's end and return its last screen.

        Raises:
            TimeoutError: It has not ended for a minute and a half.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                await self.process.wait()
                await self._over.wait()
        except TimeoutError:
            raise TimeoutError(f"the command has not ended:\n{self.text}") from None
        os.close(self._end)
        return self.text


def _lead() -> None:
    """Make the terminal the one of this session, and heed Ctrl-C even if the parent ignores it."""
    ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
