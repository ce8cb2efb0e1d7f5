"""Run the HTTP service of `sojourn dev` in a process that is replaced on a change.

The parent process owns the socket, so that no connection is refused during the replacement. A
service process runs this module:

    python -m sojourn.cli.service_process MODULE:APP DESCRIPTOR TEMPORAL_UI
"""

import asyncio
import socket
import sys
import time
from datetime import timedelta

from sojourn.cli import child_process
from sojourn.cli.options import load_app
from sojourn.http.listening import address_of
from sojourn.process import Program

__all__ = ["ServiceProcess"]

STABLE = 3.0
"""Seconds of service after which a killed service is replaced."""

GRACE = timedelta(seconds=8)
"""Longest time in which a service may end its requests."""


class ServiceProcess:
    """The service of an app on a socket.

    Args:
        target: `MODULE:APP`.
        listener: The socket, which listens.
        temporal_ui: The address of Temporal's UI, or None without one.
    """

    def __init__(self, target: str, listener: socket.socket, temporal_ui: str | None = None) -> None:
        self._target = target
        self._temporal_ui = temporal_ui or ""
        self._listener = listener
        self._current: Program | None = None
        self._watching: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """The URL of the service."""
        return address_of(self._listener)

    def replace(self) -> None:
        """Start a process that serves the present version of the app.

        The previous process ends its streams, whose clients reconnect to the new one.
        """
        descriptor = self._listener.fileno()
        command = [
            sys.executable,
            "-m",
            "sojourn.cli.service_process",
            self._target,
            str(descriptor),
            self._temporal_ui,
        ]
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
        """End the service, and wait for that."""
        current, self._current = self._current, None
        if current is not None:
            await current.stop(GRACE)
        await asyncio.gather(*self._watching)

    async def _watch(self, program: Program, since: float) -> None:
        """Start another process if the present one is killed.

        One that is killed right after its start is not replaced, as the next would be killed too.
        """
        await program.wait()
        if program is self._current:
            self._current = None
            if time.monotonic() - since > STABLE:
                self.replace()


def _serve(target: str, descriptor: int, temporal_ui: str) -> None:
    """Serve the app on the socket of the descriptor.

    Pages link to Temporal's UI if its address is not empty.
    """
    from sojourn.asgi import create_app
    from sojourn.http.server import serve
    from sojourn.logs import configure_logs

    app = load_app(target)
    configure_logs()
    child_process.end_with_parent()
    with socket.socket(fileno=descriptor) as listener:
        asyncio.run(serve(create_app(app, temporal_ui=temporal_ui), listener))


if __name__ == "__main__":
    child_process.run(lambda: _serve(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
