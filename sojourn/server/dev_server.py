"""Run a Temporal development server as a child process."""

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

from sojourn.errors import DefinitionError, ServerUnavailable
from sojourn.process import Program
from sojourn.server.files import ServerFiles, StorageLink, holder_of
from sojourn.server.ports import HOST, LAST_PORT, find_ui, is_free, is_serving, pick, port_in_use, ui_port_of
from sojourn.server.temporal_cli import Progress, TemporalCli, find_cli

__all__ = ["DYNAMIC_CONFIG", "USUAL_PORT", "USUAL_UI_PORT", "Server", "StartDev"]


DYNAMIC_CONFIG: Final[Mapping[str, int | bool | str]] = MappingProxyType(
    {
        # How often the reader of a shard's transfer queue may look for new tasks.
        "history.transferProcessorMaxPollRPS": 2000,
        "history.transferProcessorMaxPollHostRPS": 4000,
        # One partition: a task may wait 2 s in a partition without a poller.
        "matching.numTaskqueueReadPartitions": 1,
        "matching.numTaskqueueWritePartitions": 1,
        # Tenants take turns, by the fairness keys of their runs.
        "matching.enableFairness": True,
        # Longest delay of a timer, or of the next attempt of an activity, after its time.
        "history.timerProcessorMaxTimeShift": "10ms",
        # Bytes of updates in flight: one response repeats them with all that starts, and a message has at most 4 MB.
        "history.maxInFlightUpdatePayloads": 2_000_000,
        # An activity on its workflow's own queue starts without a dispatch.
        "system.enableActivityEagerExecution": True,
    }
)
"""The server settings that make a development server dispatch tasks at once, and keep large updates from ending a run.

By default a queue reader may read 20 times a second, so that every task waits about 44 ms for its dispatch. With
these settings a task waits 2 to 3 ms, and a run with 20 tool calls takes a fifth of the time. By default a timer or a
retry is also up to a second late.
"""

_FOR_TESTS = {
    "frontend.WorkflowTimeSkippingEnabled": True,
    "history.workflowIdReuseMinimalInterval": "0s",
    "history.transferProcessorUpdateAckInterval": "1s",
}
"""Settings for tests, not for production.

A test may move a run's clock forward. Any other run keeps real time. Executions may follow each other in less than a
second. The progress of the transfer queue, for which a deletion waits, is saved each second, not twice a minute.
"""

_GARBAGE_COLLECTION = {"GOGC": "400", "GOMEMLIMIT": "1GiB"}
"""Go's collector waits until the heap is five times the live data, within 1 GiB: a quarter less CPU for the server."""

_SEARCH_ATTRIBUTES = (
    "SojournAgent=Keyword",
    "SojournSession=Keyword",
    "SojournAwaiting=Keyword",
    "SojournForkOf=Keyword",
    "SojournTenant=Keyword",
    "SojournVisibleTo=KeywordList",
    "SojournGaveUp=Keyword",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartDev:
    """The settings of a server's start and restarts."""

    binary: Path
    """The `temporal` command."""
    port: int
    """Port of the frontend; the server chooses the ports of its other services."""
    ui_port: int | None
    """Port of the web UI; None for no UI."""
    db_filename: Path | None
    """The SQLite file; None for a database in memory."""
    namespace: str
    """The namespace, which is created if it does not exist."""
    tuned: bool
    """Whether `DYNAMIC_CONFIG` and fewer garbage collections apply."""

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def ui_url(self) -> str | None:
        return f"http://{HOST}:{self.ui_port}" if self.ui_port is not None else None

    @property
    def command(self) -> list[str]:
        ui = ["--ui-port", str(self.ui_port)] if self.ui_port is not None else ["--headless"]
        file = ["--db-filename", str(self.db_filename)] if self.db_filename is not None else []
        config = {**DYNAMIC_CONFIG, **_FOR_TESTS} if self.tuned else {}
        return [
            *(str(self.binary), "server", "start-dev", "--ip", HOST, "--port", str(self.port)),
            *ui,
            *file,
            *("--namespace", self.namespace),
            *(f"--search-attribute={attribute}" for attribute in _SEARCH_ATTRIBUTES),
            *(f"--dynamic-config-value={key}={json.dumps(value)}" for key, value in config.items()),
        ]

    @property
    def environment(self) -> dict[str, str]:
        """This process's environment, with settings of Go unless it has them."""
        return {**(_GARBAGE_COLLECTION if self.tuned else {}), **os.environ}


USUAL_PORT = 7233
"""Default port of a Temporal frontend."""
USUAL_UI_PORT = 8233
"""Default port of a development server's web UI: 1000 above its frontend."""

_GRACE = timedelta(seconds=5)
_POLL = 0.02
_TRIES = 5
_LOG_LINES = 20


class Server:
    """A Temporal development server.

    This object starts it or, with `attach`, finds it running. Use it as `async with Server(...) as
    server:`, or call `start` and `stop`. It is bound to no event loop. On Linux the kernel kills it
    with the thread that started it, so start it from a thread that lives long enough.
    """

    def __init__(
        self,
        *,
        db_filename: str | os.PathLike[str] | None = None,
        log_filename: str | os.PathLike[str] | None = None,
        port: int | None = None,
        ui_port: int | None = None,
        ui: bool = True,
        namespace: str = "default",
        attach: bool = True,
        tuned: bool = True,
        cli: TemporalCli | None = None,
        start_timeout: timedelta = timedelta(seconds=30),
        on_progress: Progress | None = None,
    ) -> None:
        """Configure a server, which `start` then starts.

        Args:
            db_filename: The SQLite file of all data; in memory when None.
            log_filename: The file of the server's log, emptied at each start; a temporary file when None.
            port: Port of the frontend. None: 7233 if it is free, else any free port; 0: any free port.
            ui_port: Port of the web UI. None: 1000 above the frontend's if that is free, else any free port; 0: any free port.
            ui: Whether the server has a web UI.
            namespace: A namespace that exists once the server has started.
            attach: Whether to use a healthy server at `port` (7233 when None) that has the namespace, instead of
                starting one; the other settings then have no effect. Never with port 0.
            tuned: Whether `DYNAMIC_CONFIG` and fewer garbage collections apply; False only for measurements.
            cli: The `temporal` command; searched by `find_cli` when None.
            start_timeout: Time limit until the server serves.
            on_progress: Called with a line of text before a long step, such as a download of the `temporal` command.
        """
        for name, number in (("port", port), ("ui_port", ui_port)):
            if number is not None and not 0 <= number <= LAST_PORT:
                raise DefinitionError(f"{name} {number}: a port is 0 to {LAST_PORT}; 0 takes any free one")
        self.namespace = namespace
        self._db_filename = Path(db_filename).absolute() if db_filename is not None else None
        self._log_filename = Path(log_filename).absolute() if log_filename is not None else None
        self._asked_port = port
        self._asked_ui_port = ui_port
        self._ui = ui
        self._attach = attach and port != 0
        self._tuned = tuned
        self._cli = cli
        self._start_timeout = start_timeout
        self._on_progress = on_progress
        self._attached_to: str | None = None
        self._attached_ui: str | None = None
        self._was_attached = False
        self._launched: StartDev | None = None
        self._child: Program | None = None
        self._files: ServerFiles | None = None
        self._storage = StorageLink(self._db_filename)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def attached(self) -> bool:
        """Whether this object uses a server that it did not start, and will not stop."""
        return self._attached_to is not None

    @property
    def uses_database(self) -> bool:
        """Whether the server's data is in `db_filename`.

        An attached server may have been started with another file.
        """
        if self._db_filename is None or not self.attached:
            return self._db_filename is not None
        return holder_of(self._db_filename) == self.address

    @property
    def address(self) -> str:
        """`host:port` of the frontend, also after the server was stopped.

        Raises:
            RuntimeError: The server was never started, or `stop` detached from one that was not started here.
        """
        if self._attached_to is not None:
            return self._attached_to
        if self._launched is None:
            happened = "was detached from" if self._was_attached else "was never started"
            raise RuntimeError(f"the server {happened}: use `async with Server(...)` or `start()`")
        return self._launched.address

    @property
    def ui_url(self) -> str | None:
        """URL of the web UI, or None.

        None without a UI, and for an attached server whose UI is not 1000 ports above its frontend.
        """
        if self._attached_to is not None:
            return self._attached_ui
        return self._launched.ui_url if self._launched is not None else None

    @property
    def cli(self) -> TemporalCli | None:
        """The `temporal` command of the server, or None.

        None before the start, and for an attached server.
        """
        return self._cli if self._launched is not None else None

    @property
    def pid(self) -> int | None:
        """Process id of the server, or None.

        None when it does not run, and for an attached server.
        """
        return self._child.pid if self._child is not None and self._child.is_running else None

    def log_tail(self, lines: int = _LOG_LINES) -> str:
        """Return the last lines that the server logged since it was last started.

        Empty for an attached server.
        """
        return "\n".join(self._child.log().splitlines()[-lines:]) if self._child is not None else ""

    async def start(self) -> Self:
        """Start the server, or attach to one, and return once it serves.

        Raises:
            ServerNotFound: There is no `temporal` command.
            ServerUnavailable: The server did not start, and the message ends with its last log lines; or its files
                cannot be used.
            RuntimeError: The server is started already.
        """
        if self.attached or self._child is not None:
            raise RuntimeError(f"the server at {self.address} is started already")
        usual = self._asked_port or USUAL_PORT
        # Nothing serves on a free port, so the SDK need not be imported to ask.
        if self._attach and not is_free(usual):
            address = f"{HOST}:{usual}"
            if await is_serving(address, namespace=self.namespace):
                self._attached_to, self._launched, self._was_attached = address, None, True
                self._attached_ui = await find_ui(address, self._asked_ui_port or ui_port_of(usual))
                return self
        cli = self._cli = self._cli or await find_cli(on_progress=self._on_progress)
        try:
            self._files = ServerFiles(db_filename=self._db_filename, log_filename=self._log_filename)
            await self._launch_on_free_ports(cli)
        except BaseException:
            await self.stop(grace=timedelta(0))
            raise
        return self

    async def stop(self, *, grace: timedelta = _GRACE) -> None:
        """Stop the server, with SIGKILL after `grace`.

        From an attached server this object only detaches.
        """
        self._attached_to = None
        try:
            if self._child is not None:
                await self._child.stop(grace)
        finally:
            if self._files is not None:
                self._storage.remove()
                self._files.close()
            self._child = self._files = None

    def kill(self) -> None:
        """Kill the server with SIGKILL, as in a crash.

        `restart` starts it again.

        Raises:
            RuntimeError: This object started no server, or has stopped it.
        """
        self._own_child().kill()

    async def restart(self) -> None:
        """Start the server again, with the same file and ports.

        Stop it first if it runs.

        Raises:
            ServerUnavailable: The server did not start.
            RuntimeError: This object started no server, or has stopped it.
        """
        await self._own_child().stop(_GRACE)
        assert self._launched is not None
        await self._launch(self._launched)

    async def wait(self) -> int:
        """Wait until the server's process ends, and return its exit status.

        A negative status is the signal that ended it.

        Raises:
            RuntimeError: This object started no server, or has stopped it.
        """
        return await self._own_child().wait()

    def _own_child(self) -> Program:
        if self._child is None:
            raise RuntimeError(
                "this object has no server of its own: call start() first; a server that it only attached to is not one"
            )
        return self._child

    async def _launch_on_free_ports(self, cli: TemporalCli) -> None:
        """Launch the server, on other ports if another process took a chosen one first."""
        for tries_left in reversed(range(_TRIES)):
            port = pick(self._asked_port, USUAL_PORT)
            start = StartDev(
                binary=cli.path,
                port=port,
                ui_port=pick(self._asked_ui_port, ui_port_of(port)) if self._ui else None,
                db_filename=self._db_filename,
                namespace=self.namespace,
                tuned=self._tuned,
            )
            try:
                await self._launch(start)
            except ServerUnavailable:
                taken = port_in_use(self.log_tail())
                if taken is not None and taken in (self._asked_port, self._asked_ui_port):
                    name = "port" if taken == self._asked_port else "ui_port"
                    raise ServerUnavailable(
                        f"the Temporal server did not start: {name} {taken} is in use (address already in use); "
                        "choose another one, or stop the program that listens there"
                    ) from None
                if taken is None or not tries_left:
                    raise
            else:
                return

    async def _launch(self, start: StartDev) -> None:
        assert self._files is not None
        self._files.sign(start.address)
        self._launched = start
        child = self._child = Program(
            start.command, environment=start.environment, log=self._files.log, keep=self._files.inherited
        )
        try:
            async with asyncio.timeout(self._start_timeout.total_seconds()):
                while not await self._serves(start, child):
                    if not child.is_running:
                        raise self._not_started("it ended")
                    await asyncio.sleep(_POLL)
            self._storage.make(start.address)
        except BaseException as fault:
            child.kill()
            if isinstance(fault, TimeoutError):
                raise self._not_started(f"it did not serve within {self._start_timeout}") from None
            raise

    async def _serves(self, start: StartDev, child: Program) -> bool:
        # Another server may answer at the port; then the log of this one says that the port was in use.
        log = child.log()
        return (
            bool(log)
            and port_in_use(log) is None
            and await is_serving(start.address, namespace=self.namespace)
        )

    def _not_started(self, how: str) -> ServerUnavailable:
        tail = self.log_tail() or "(nothing)"
        return ServerUnavailable(f"the Temporal server did not start: {how}; its log:\n{tail}")
