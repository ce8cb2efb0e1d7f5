"""Program: a process of its own that writes to files."""

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
    """A program as a process and session of its own; it ends, at the latest, with the process that started it."""

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
        """Start it.

        Args:
            arguments: What would follow `python`: `-m MODULE`, `-c CODE` or the path of a script, and its own.
            cwd: Where it runs.
            env: Its environment, whole.
            out: The file to which its standard output is appended.
            err: That of its standard error; both may be one.
            input: What it reads on standard input.
            imports: Modules that are imported before it too, and before every later program.
        """
        with tempfile.TemporaryFile() as reading, out.open("ab") as writing, err.open("ab") as failing:
            reading.write(input.encode())
            reading.seek(0)
            self._answers = fork(
                arguments,
                streams=(reading.fileno(), writing.fileno(), failing.fileno()),
                cwd=cwd,
                env={**env, "PYTHONUNBUFFERED": "1"},  # what it prints is in its file at once
                imports=imports,
            )
        self._status: int | None = None
        self.pid = number_in(os.read(self._answers, 8))
        """Its process id."""

    def poll(self) -> int | None:
        """Its status, once it has ended; negative is the signal that ended it."""
        return self._ended(0)

    def wait(self, timeout: float = 60) -> int:
        """Wait until it ends, and give its status."""
        status = self._ended(timeout)
        assert status is not None, "the program did not end"
        return status

    def signal(self, number: int) -> None:
        """Signal it; nothing when it has ended, which it may do at any moment."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end; nothing when it has ended."""
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once; nothing when it has ended."""
        self.signal(signal.SIGKILL)
        self.wait()

    def _ended(self, timeout: float) -> int | None:
        if self._status is None and select.select([self._answers], [], [], timeout)[0]:
            self._status = number_in(os.read(self._answers, 8))
            os.close(self._answers)
        return self._status
