"""The command line that starts a development server."""

import json
from dataclasses import dataclass
from pathlib import Path

from sojourn.server.dynamic_config import DYNAMIC_CONFIG
from sojourn.server.ports import HOST

__all__ = ["StartDev"]

_SEARCH_ATTRIBUTES = ("SojournAgent=Keyword", "SojournSession=Keyword", "SojournAwaiting=Keyword")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartDev:
    """How a server is started, and started again."""

    binary: Path
    """The `temporal` command."""
    port: int
    """Of the frontend. The ports of its other services the server chooses itself."""
    ui_port: int | None
    """Of the web UI; None is no UI."""
    db_filename: Path | None
    """The SQLite file; None is in memory."""
    namespace: str
    """Created unless it exists."""
    tuned: bool
    """Whether `DYNAMIC_CONFIG` applies."""

    @property
    def address(self) -> str:
        """`host:port` of the frontend."""
        return f"{HOST}:{self.port}"

    @property
    def ui_url(self) -> str | None:
        """The web UI."""
        return f"http://{HOST}:{self.ui_port}" if self.ui_port is not None else None

    @property
    def command(self) -> list[str]:
        """The binary and its arguments."""
        ui = ["--ui-port", str(self.ui_port)] if self.ui_port is not None else ["--headless"]
        file = ["--db-filename", str(self.db_filename)] if self.db_filename is not None else []
        config = DYNAMIC_CONFIG.items() if self.tuned else ()
        return [
            *(str(self.binary), "server", "start-dev", "--ip", HOST, "--port", str(self.port)),
            *ui,
            *file,
            *("--namespace", self.namespace),
            *(f"--search-attribute={attribute}" for attribute in _SEARCH_ATTRIBUTES),
            *(f"--dynamic-config-value={key}={json.dumps(value)}" for key, value in config),
        ]
