"""Replace a worker process when a file changes or the process is killed.

The old process drains before it ends. The new process has to load the app before the old one stops
taking work. While the app does not load, the old process continues to serve.
`watchfiles.run_process` and uvicorn's reload stop the old process first, so with an app that does
not load, no process would serve (`tests/cli/commands/test_dev.py`). A worker process runs this
module:

    python -m sojourn.cli.reload MODULE:APP DESCRIPTOR

It writes the task queue and the id of the app's first agent to the descriptor once the app is
loaded.
"""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from sojourn.cli import child_process
from sojourn.cli.failure import OK
from sojourn.cli.options import load_app, queue_for
from sojourn.process import Program

__all__ = ["Reloader", "Tell", "quiet_worker"]

WATCHED = (".toml", ".yaml", ".yml")
"""Suffixes of files that are watched in addition to `.py`; not those of data that an app could write, such as `.json`."""

TOGETHER = 200
"""Milliseconds without a change after which the changes before count as one.

50 would be too few for an editor that saves all files, or for a checkout.
"""

STABLE = 3.0
"""Seconds of service after which a killed worker is replaced."""

_MAX_TOLD = 4_096
"""Bytes to read of a task queue and an agent's id, which have at most 1,000 and 121.

So one read gets the whole write.
"""

Tell = Callable[[str, str, dict[str, Any]], None]
"""Takes the name of an event, its line for people, and its fields for `--json`."""


class Reloader:
    """A supervisor that serves an app, and reloads it after each change.

    It serves until SIGINT or SIGTERM. A new process replaces the worker whenever a file below the current
    folder changes.

    Args:
        target: `MODULE:APP`.
        tell: Called with each event.
        on_first: Called with the id of the app's first agent, once a first version of it is served.
    """

    def __init__(
        self,
        target: str,
        tell: Tell,
        on_first: Callable[[str], None] = lambda _agent_id: None,
    ) -> None:
        self._target = target
        self._tell = tell
        self._on_first = on_first
        self._is_told = False
        self._queue = ""
        self._current: Program | None = None
        self._since = 0.0
        """When the current worker began to serve, by the monotonic clock."""
        self._programs: set[Program] = set()
        self._loading: set[Program] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()
        self._killed = asyncio.Event()
        """Set when a worker that has served was killed, so that another one starts without a change."""

    async def run(self) -> int:
        """Serve until a signal, let the workers drain, and return the exit code.

        A second signal kills the workers.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)
        try:
            await self._serve()
        except asyncio.CancelledError:
            self._kill(self._programs)  # the server has ended: a drain would only fail
            raise
        finally:
            if self._current is not None:
                self._current.terminate()
            await asyncio.gather(*self._ending)
        return OK

    def _on_signal(self) -> None:
        self._kill(self._programs if self._stop.is_set() else self._loading)
        self._stop.set()

    @staticmethod
    def _kill(programs: Iterable[Program]) -> None:
        for program in programs:
            program.kill()

    async def _serve(self) -> None:
        from watchfiles import PythonFilter, awatch  # pyright: ignore[reportUnknownVariableType]

        kept = PythonFilter(extra_extensions=WATCHED, ignore_paths=[Path.cwd() / "tests"])
        watching = awatch(Path.cwd(), watch_filter=kept, step=TOGETHER, stop_event=self._stop)
        # Watching starts first, to see changes while the app loads.
        upcoming = asyncio.ensure_future(anext(watching, None))
        await self._start("serving", [])
        while True:
            killed = asyncio.ensure_future(self._killed.wait())
            await asyncio.wait({upcoming, killed}, return_when=asyncio.FIRST_COMPLETED)
            killed.cancel()
            is_killed = self._killed.is_set()
            self._killed.clear()
            if upcoming.done():
                if (changes := upcoming.result()) is None:
                    return
                upcoming = asyncio.ensure_future(anext(watching, None))
                await self._start("reloaded", _names(changes))
            elif is_killed:
                await self._start("restarted", [])

    async def _start(self, event: str, changed: list[str]) -> None:
        """Start a worker, and stop the previous one once its app is loaded.

        If the app does not load, the previous worker continues to serve.
        """
        program, (queue, agent_id) = await self._loaded()
        if self._stop.is_set():
            if program is not None:
                program.terminate()
            return  # a signal came while the app loaded, which is no fault of the app
        because = f" ({', '.join(changed[:3])}{' ...' if len(changed) > 3 else ''})" if changed else ""
        if program is None:
            left = "the version before continues to serve" if self._current else "waiting for a change"
            line = f"not {event}{because}: {self._target} does not load; {left}"
            self._tell("not_loaded", line, {"changed": changed, "serving": self._current is not None})
            return
        before, self._current, self._since = self._current, program, time.monotonic()
        if before is not None:
            before.terminate()
        moved = self._queue and self._queue != queue
        at = f" on task queue {queue}; open runs on {self._queue} wait for a worker there" if moved else ""
        self._queue = queue
        more = {"changed": changed, "pid": program.pid, "task_queue": queue}
        self._tell(event, f"{event} {self._target}{because}{at}", more)
        if not self._is_told:
            self._is_told = True
            self._on_first(agent_id)

    async def _loaded(self) -> tuple[Program | None, tuple[str, str]]:
        """Start a worker and wait until its app is loaded.

        Returns:
            The worker, its task queue and the id of the app's first agent; no worker if the app does not load, after the worker has
            printed the reason.
        """
        reading, writing = os.pipe()
        command = [sys.executable, "-m", "sojourn.cli.reload", self._target, str(writing)]
        program = Program(command, keep=[writing], may_outlive_us=True)
        os.close(writing)
        self._programs.add(program)
        self._loading.add(program)
        ending = asyncio.create_task(self._ended(program))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        try:
            told = (await asyncio.to_thread(os.read, reading, _MAX_TOLD)).decode()
        finally:
            os.close(reading)
            self._loading.discard(program)
        if not told:
            await asyncio.wait({ending})
            return None, ("", "")
        queue, _, agent_id = told.rpartition(" ")
        return program, (queue, agent_id)

    async def _ended(self, program: Program) -> None:
        status = await program.wait()
        self._programs.discard(program)
        if program is self._current:
            self._current = None
            if not self._stop.is_set():
                # One that is killed at once, such as for its memory, would be killed again.
                is_replaced = status < 0 and time.monotonic() - self._since > STABLE
                left = "another one starts" if is_replaced else "waiting for a change"
                line = f"the worker ended with status {status}; {left}"
                self._tell("worker_ended", line, {"status": status})
                if is_replaced:
                    self._killed.set()


def quiet_worker() -> None:
    """Do not log the start and end of a worker, which `dev` prints in its own lines.

    Warnings are logged as usual.
    """
    logging.getLogger("sojourn.worker").setLevel(logging.WARNING)


def _names(changes: Iterable[tuple[Any, str]]) -> list[str]:
    return sorted({os.path.relpath(path) for _, path in changes})


def _work(target: str, descriptor: int) -> None:
    """Load the app, report that on the descriptor, and serve."""
    from sojourn.cli.model_warning import warn_of_models
    from sojourn.worker import serve

    app = load_app(target)
    warn_of_models(app)
    queue = queue_for(app, target)
    os.write(descriptor, f"{queue} {next(iter(app.list_agents()), 'AGENT')}".encode())
    os.close(descriptor)
    child_process.end_with_parent()
    quiet_worker()
    serve(app, task_queue=queue)


if __name__ == "__main__":
    child_process.run(lambda: _work(sys.argv[1], int(sys.argv[2])))
