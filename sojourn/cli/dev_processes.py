"""Replace the worker and the HTTP service of `sojourn dev` when a file changes.

The old worker drains before it ends. The new one has to load the app before the old one stops taking
work. While the app does not load, the old worker continues to serve. `watchfiles.run_process` and
uvicorn's reload stop the old process first, so with an app that does not load, no process would serve
(`tests/cli/commands/test_dev.py`). The parent owns the socket of the service, so that no connection is
refused during a replacement. Each process runs this module:

    python -m sojourn.cli.dev_processes worker MODULE:APP DESCRIPTOR
    python -m sojourn.cli.dev_processes service MODULE:APP DESCRIPTOR TEMPORAL_UI

A worker writes its task queue and the id of the app's first agent to the descriptor once the app is
loaded. A service listens on it.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

from sojourn.cli.failure import OK, failure_of
from sojourn.cli.options import load_app, load_worker_app, queue_for
from sojourn.process import Program

__all__ = ["Reloader", "ServiceProcess", "Tell", "quiet_worker"]

WATCHED = (".toml", ".yaml", ".yml")
"""Suffixes of files that are watched in addition to `.py`; not those of data that an app could write, such as `.json`."""

TOGETHER = 200
"""Milliseconds without a change after which the changes before count as one.

50 would be too few for an editor that saves all files, or for a checkout.
"""

STABLE = 3.0
"""Seconds of service after which a killed process is replaced."""

GRACE = timedelta(seconds=8)
"""Longest time in which a service may end its requests."""

_MAX_TOLD = 4_096
"""Bytes to read of a task queue and an agent's id, which have at most 1,000 and 121.

So one read gets the whole write.
"""

_COMMAND = (sys.executable, "-m", "sojourn.cli.dev_processes")

Tell = Callable[[str, str, dict[str, Any]], None]
"""Takes the name of an event, its line for people, and its fields for `--json`."""


class Reloader:
    """Serves an app until a signal, and replaces its worker when a file changes."""

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
        """Serve until a signal, then let the workers drain. A second signal kills them."""
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
        """Start a worker, and stop the previous one once the new one has loaded its app."""
        program, (queue, agent_id) = await self._load()
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

    async def _load(self) -> tuple[Program | None, tuple[str, str]]:
        """Return a worker, or None if the app does not load, its queue and first agent."""
        reading, writing = os.pipe()
        command = [*_COMMAND, "worker", self._target, str(writing)]
        program = Program(command, keep=[writing], may_outlive_us=True)
        os.close(writing)
        self._programs.add(program)
        self._loading.add(program)
        ending = asyncio.create_task(self._report_end(program))
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

    async def _report_end(self, program: Program) -> None:
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
    """Leave the start and end of a worker, which `dev` prints itself, out of its log."""
    logging.getLogger("sojourn.worker").setLevel(logging.WARNING)


def _names(changes: Iterable[tuple[Any, str]]) -> list[str]:
    return sorted({os.path.relpath(path) for _, path in changes})


class ServiceProcess:
    """The service of an app on a socket."""

    def __init__(self, target: str, listener: socket.socket, temporal_ui: str | None = None) -> None:
        self._target = target
        self._temporal_ui = temporal_ui or ""
        self._listener = listener
        self._current: Program | None = None
        self._watching: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        from sojourn.http.listening import address_of

        return address_of(self._listener)

    def replace(self) -> None:
        """Serve the present version. Clients of the old one's streams reconnect."""
        descriptor = self._listener.fileno()
        command = [*_COMMAND, "service", self._target, str(descriptor), self._temporal_ui]
        before, self._current = (
            self._current,
            Program(command, keep=[descriptor], may_outlive_us=True),
        )
        watching = asyncio.create_task(self._watch(self._current, time.monotonic()))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)
        if before is not None:
            before.terminate()

    async def stop(self) -> None:
        current, self._current = self._current, None
        if current is not None:
            await current.stop(GRACE)
        await asyncio.gather(*self._watching)

    async def _watch(self, program: Program, since: float) -> None:
        """Replace a killed process, unless the next would probably be killed too."""
        await program.wait()
        if program is self._current:
            self._current = None
            if time.monotonic() - since > STABLE:
                self.replace()


def _run_worker(target: str, descriptor: int) -> None:
    from sojourn.worker import serve

    app = load_worker_app(target)
    queue = queue_for(app, target)
    os.write(descriptor, f"{queue} {next(iter(app.list_agents()), 'AGENT')}".encode())
    os.close(descriptor)
    _end_with_parent()
    quiet_worker()
    serve(app, task_queue=queue)


def _run_service(target: str, descriptor: int, temporal_ui: str) -> None:
    from sojourn.asgi import create_app
    from sojourn.http.server import serve
    from sojourn.logs import configure_logs

    app = load_app(target)
    configure_logs()
    _end_with_parent()
    with socket.socket(fileno=descriptor) as listener:
        asyncio.run(serve(create_app(app, temporal_ui=temporal_ui), listener))


def _end_with_parent() -> None:
    """Stop once the parent, which holds the other end of standard input, has ended."""

    def watch() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def _main(kind: str, target: str, descriptor: str, *more: str) -> None:
    code = OK
    try:
        if kind == "worker":
            _run_worker(target, int(descriptor))
        else:
            _run_service(target, int(descriptor), *more)
    except BaseException as error:  # noqa: BLE001
        failure = failure_of(error)
        failure.tell(as_json=False)
        code = failure.exit_code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _main(*sys.argv[1:])
