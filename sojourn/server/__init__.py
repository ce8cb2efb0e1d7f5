"""A Temporal server for development, tests and measurements.

`Server` runs the development server of the `temporal` command as a child process: a real Temporal,
in one process, on a SQLite file; in production, set `TEMPORAL_ADDRESS` to a Temporal service
instead. The package decides which `temporal` command runs, on which ports and with which settings.
Of Sojourn it imports only `sojourn.errors`, `sojourn.private` and `sojourn.process`; begin with
`dev_server.py`.

    async with Server(db_filename=".sojourn/temporal.db") as server:
        print(server.address, server.ui_url)
"""

from sojourn.server.dev_server import DYNAMIC_CONFIG, USUAL_PORT, USUAL_UI_PORT, Server
from sojourn.server.ports import is_serving
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
