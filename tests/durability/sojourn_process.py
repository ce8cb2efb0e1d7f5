"""SojournProcess: a worker, or a process of the HTTP service, that can be killed."""

import os
import signal
from pathlib import Path

from tests.programs import Program

from .until import until

HERE = Path(__file__).parent

STARTED: list["SojournProcess"] = []
"""The processes of the module under test, for the report of a failure."""


class SojournProcess:
    """`sojourn` with a command that serves, as a process of its own, which leads its session, with its log in a file."""

    def __init__(self, *words: str, log: Path, imports: tuple[str, ...] = (), **environment: str) -> None:
        self.name = log.stem
        self._log = log
        env = {**os.environ, "SOJOURN_LOG_FORMAT": "json", **environment}
        self._process = Program("-m", "sojourn", *words, cwd=HERE, env=env, out=log, err=log, imports=imports)
        STARTED.append(self)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def log(self) -> str:
        """The log so far."""
        return self._log.read_text(errors="replace")

    async def says(self, word: str) -> None:
        """Wait until the log holds a word; the process may not end before."""

        def is_logged() -> bool:
            found = word in self.log()
            assert found or self.is_running, f"{self.name} ended before it logged {word!r}:\n{self.log()}"
            return found

        await until(f"{self.name} logs {word!r}", is_logged)

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal; do nothing if it has ended."""
        self._process.signal(number)

    def kill(self) -> None:
        """End the process with SIGKILL, also if it is stopped; do nothing if it has ended."""
        self._process.kill()

    async def ends(self) -> int:
        """Wait until the process ends by itself, and return its exit code."""
        await until(f"{self.name} ends", lambda: not self.is_running)
        return self._process.wait()
