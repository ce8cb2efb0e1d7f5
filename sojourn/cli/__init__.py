"""The `sojourn` command, which serves apps and starts, watches and steers runs.

The package decides which commands and options there are, what a command prints, and its exit code. It reads runs through
the client, the events and Temporal's API. Begin with `command_line`, which lists the commands of `commands`.
"""

from sojourn.cli.command_line import app, main

__all__ = ["app", "main"]
