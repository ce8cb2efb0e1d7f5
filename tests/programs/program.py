"""Program: a Python program as a process that writes to files."""

import contextlib
import os
import select
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.programs.server import fork, number_in

__all__ = ["Program"]


class Program:
    """A Python program in a session of its own; on Linux it is killed, at the latest, with the process that started it."""

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        env: Mapping[str, str],
        out: Path,
        err: Path,
        input: str = "",
        imports: tuple[str, ...] = (),
    ) -> None:
        """Start the program.

        Args:
            arguments: The arguments of `python`: `-m MODULE`, `-c CODE` or the path of a script, and the program's own.
            cwd: The working directory.
            env: The whole environment.
            out: The file to which standard output is appended.
            err: The file to which standard error is appended; it may be `out`.
            input: The text on standard input.
            imports: Further modules to import before this program and every later one.
        """
        with tempfile.TemporaryFile() as reading, out.open("ab") as writing, err.open("ab") as failing:
            reading.write(input.encode())
            reading.seek(0)
            self._answers = fork(
                arguments,
                streams=(reading.fileno(), writing.fileno(), failing.fileno()),
                cwd=cwd,
                env={**env, "PYTHONUNBUFFERED": "1"},  # output is in the files at once
                imports=imports,
            )
        self._status: int | None = None
        self.pid = number_in(os.read(self._answers, 8))
        """The process id."""

    def poll(self) -> int | None:
        """Return the exit status, negative for the signal that ended the program; None while it runs."""
        return self._ended(0)

    def wait(self, timeout: float = 60) -> int:
        """Wait until the program ends, at most `timeout` seconds, and return its exit status."""
        status = self._ended(timeout)
        assert status is not None, "the program did not end"
        return status

    def signal(self, number: int) -> None:
        """Send the program a signal; do nothing if it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it may have ended since
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM to the program; do nothing if it has ended."""
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the program, and wait until it has ended; do nothing if it has."""
        self.signal(signal.SIGKILL)
        self.wait()

    def _ended(self, timeout: float) -> int | None:
        if self._status is None and select.select([self._answers], [], [], timeout)[0]:
            self._status = number_in(os.read(self._answers, 8))
            os.close(self._answers)
        return self._status
