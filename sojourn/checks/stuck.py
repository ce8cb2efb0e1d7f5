"""Stuck runs, each with its remedy."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sojourn.checks.shell_options import connection_options, server_options
from sojourn.client import stuck
from sojourn.client.client import Client
from sojourn.values.visible import shell_word

__all__ = ["Stuck", "mend_of", "stuck_runs"]

_NEXT = {
    "task": "fix the error in the worker's log, and deploy the fix; or end the run: temporal workflow terminate --workflow-id {run}",
    "planner": "mend what the planner needs, and the run continues by itself; or end the run: sojourn cancel {run}",
    "blocked": "make the tool await, or make it a plain function: it then runs in a thread",
    "unserved": "sojourn worker MODULE:APP --task-queue {queue}",
}

Stuck = dict[str, Any]
"""`attempt`, `since` (aware datetime or None), `reason` (a text, empty if the history gives none) and `next`."""


async def stuck_runs(client: Client, run_ids: Sequence[str]) -> dict[str, Stuck]:
    """Return those of these open runs that are stuck, by run id."""
    found = await stuck.stuck_runs(client, run_ids)
    return {run_id: _with_next(run_id, each) for run_id, each in found.items()}


def mend_of(run_id: str, found: stuck.Stuck) -> str:
    """Return a command, or an instruction that may end in a colon and a command."""
    options = {"task": server_options, "blocked": str}.get(found.kind, connection_options)()
    return _NEXT[found.kind].format(run=shell_word(run_id), queue=shell_word(found.queue)) + options


def _with_next(run_id: str, found: stuck.Stuck) -> Stuck:
    fields = asdict(found)
    del fields["kind"], fields["queue"]
    return {**fields, "next": mend_of(run_id, found)}
