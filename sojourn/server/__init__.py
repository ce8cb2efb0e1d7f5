"""A Temporal server of one's own: for development, tests and measurements.

`Server` runs the development server of the `temporal` command as a child
process: a real Temporal, in one process, on a SQLite file. It is not for
production; there, point `TEMPORAL_ADDRESS` at a Temporal service.

    async with Server(db_filename=".sojourn/temporal.db") as server:
        print(server.address, server.ui_url)
"""

from sojourn.server.dev_server import USUAL_PORT, USUAL_UI_PORT, Server
from sojourn.server.health import is_serving
from sojourn.server.start_dev import DYNAMIC_CONFIG
from sojourn.server.temporal_cli import CliSource, Progress, TemporalCli, find_cli

__all__ = [
    "DYNAMIC_CONFIG",
    "USUAL_PORT",
    "USUAL_UI_PORT",
    "CliSource",
    "Progress",
    "Server",
    "TemporalCli",
    "find_cli",
    "is_serving",
]
