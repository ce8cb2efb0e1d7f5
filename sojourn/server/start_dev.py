"""The command line and environment that start a development server."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from sojourn.server.ports import HOST

__all__ = ["DYNAMIC_CONFIG", "StartDev"]

DYNAMIC_CONFIG: Final[Mapping[str, int | bool | str]] = MappingProxyType(
    {
        # How often the reader of a shard's transfer queue may look for new tasks.
        "history.transferProcessorMaxPollRPS": 2000,
        "history.transferProcessorMaxPollHostRPS": 4000,
        # One partition: a task may wait 2 s in a partition without a poller.
        "matching.numTaskqueueReadPartitions": 1,
        "matching.numTaskqueueWritePartitions": 1,
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
"""Go's collector waits until the heap is five times what is in use, within 1 GiB: a quarter less CPU for the server."""

_SEARCH_ATTRIBUTES = (
    "SojournAgent=Keyword",
    "SojournSession=Keyword",
    "SojournAwaiting=Keyword",
    "SojournForkOf=Keyword",
    "SojournTenant=Keyword",
    "SojournVisibleTo=KeywordList",
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
        """`host:port` of the frontend."""
        return f"{HOST}:{self.port}"

    @property
    def ui_url(self) -> str | None:
        """URL of the web UI, or None if there is no UI."""
        return f"http://{HOST}:{self.ui_port}" if self.ui_port is not None else None

    @property
    def command(self) -> list[str]:
        """The binary and its arguments."""
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
        """This process's environment, with fewer garbage collections for a tuned server.

        Go's settings that the environment has already are not replaced.
        """
        return {**(_GARBAGE_COLLECTION if self.tuned else {}), **os.environ}
