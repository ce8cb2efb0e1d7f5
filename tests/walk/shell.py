"""Shell: a shell that a reader has open in a terminal."""

import asyncio
import contextlib
import re
from collections.abc import Mapping
from pathlib import Path

import psutil

from tests.programs.terminal import Terminal
from tests.walk.screen import IN_PROGRESS, pattern_of, steady

__all__ = ["Shell"]

COLUMNS = 100
PATIENCE = 60
"""Seconds until a command has ended, or a screen has appeared."""

AGAIN = 10
"""Seconds until Ctrl-C is pressed again."""

_PROMPT = re.compile(r"\[(\d+)\] \$$")
"""The prompt, with the exit status of the last command."""


class Shell:
    """A shell, and what has been typed since its screen was empty."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._read = 0

    @classmethod
    async def open(cls, folder: Path, env: Mapping[str, str]) -> "Shell":
        """Open a terminal with a shell in a folder."""
        command = ("bash", "--noprofile", "--norc", "--noediting", "-i")
        terminal = await Terminal.run(*command, columns=COLUMNS, cwd=folder, env={**env, "PS1": r"[$?] $ "})
        shell = cls(terminal)
        await shell._ended()
        return shell

    @property
    def folder(self) -> Path:
        """The folder in which the shell is."""
        return Path(psutil.Process(self._terminal.process.pid).cwd())

    @property
    def is_busy(self) -> bool:
        """Whether a command has not ended."""
        return not _PROMPT.search(self._terminal.text.rstrip())

    async def execute(self, command: str) -> str:
        """Execute a command, and return what it has printed.

        Raises:
            AssertionError: It failed.
        """
        self.begin(command)
        status = await self._ended()
        printed = self._terminal.text.rstrip().split("\n", 1)[-1]
        assert status == 0, f"`{command}` ended with {status}:\n{printed}"
        return _PROMPT.sub("", printed)

    def begin(self, command: str) -> None:
        """Begin a command on an empty screen."""
        assert len(command) < COLUMNS - 10, f"too long for a terminal: {command}"
        self._terminal.clear()
        self._read = 0
        self._terminal.type(f"{command}\n")

    def answer(self, text: str) -> None:
        """Type a line as the input of the command that goes on."""
        self._read = 0
        self._terminal.type(f"{text}\n")

    async def interrupt(self) -> None:
        """Press Ctrl-C, and wait until the command has ended; press it again where the command had not begun yet."""
        for _ in range(PATIENCE // AGAIN):
            self._terminal.type("\x03")
            with contextlib.suppress(AssertionError):
                await self._ended(within=AGAIN)
                return
        await self._ended()

    async def shows(self, shown: str) -> None:
        """Wait until the screen shows this, below what was read before.

        Raises:
            AssertionError: It does not.
        """
        pattern = re.compile(f"^{pattern_of(shown)}", re.MULTILINE)
        try:
            async with asyncio.timeout(PATIENCE):
                while (found := pattern.search(self._text, self._read)) is None:
                    await self._terminal.changes()
        except TimeoutError:
            raise AssertionError(f"the screen does not show\n{shown}\nbut\n{self._terminal.text}") from None
        # A line in progress is drawn anew when it has ended.
        self._read = found.start() + len(found[0].partition(IN_PROGRESS)[0])

    @property
    def _text(self) -> str:
        return steady(self._terminal.text)

    async def _ended(self, within: float = PATIENCE) -> int:
        try:
            async with asyncio.timeout(within):
                await self._terminal.shows(_PROMPT.pattern)
        except TimeoutError:
            raise AssertionError(f"the command has not ended:\n{self._terminal.text}") from None
        found = _PROMPT.search(self._terminal.text.rstrip())
        assert found
        return int(found[1])

    async def close(self) -> None:
        """Interrupt what goes on, and end every process that the shell has started."""
        started = psutil.Process(self._terminal.process.pid).children(recursive=True)
        try:
            if self.is_busy:
                await self.interrupt()
        finally:
            for process in started:
                if process.is_running():
                    process.kill()
            self._terminal.process.kill()
            await self._terminal.end()
