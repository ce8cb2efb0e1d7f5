"""Replay recorded runs on today's app, and report what a deploy would do to them.

The package decides what is a problem of a deploy: workflow code that decides otherwise, agents, tools and
task queues that are gone, calls and waits that fit no longer, and plans that fail, pass by an effect or
repeat one. It may import `authoring`, `worker`, `events`, `flows` and the packages below them. A replay runs no tool,
and asks no model. Begin with `Replay`, then `checking.py`; `sojourn replay` and `sojourn.testing` print the
reports.
"""

from sojourn.replay.finding import Finding, FindingKind, RunReport
from sojourn.replay.replay import Replay
from sojourn.replay.sources import Source, files_in, runs_on_server, source_of_file, source_of_run

__all__ = [
    "Finding",
    "FindingKind",
    "Replay",
    "RunReport",
    "Source",
    "files_in",
    "runs_on_server",
    "source_of_file",
    "source_of_run",
]
