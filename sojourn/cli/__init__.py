"""The `sojourn` command: serve an app, start runs, watch them, answer what they ask, and steer them.

The package decides what is typed and drawn, and with which exit code a command ends; of runs it knows what the client
and the events tell any program. Begin with `command_line`, which lists the commands of `commands`, one idea a file.
"""

from sojourn.cli.command_line import app, main

__all__ = ["app", "main"]
