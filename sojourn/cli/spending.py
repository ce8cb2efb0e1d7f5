"""Spending over runs: tokens and money, from the end of each history where the run has answered, else from all of it.

A run's totals have those of its child runs, so only runs without a parent are counted.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from temporalio.client import WorkflowHistoryEventFilterType
from temporalio.service import RPCError, RPCStatusCode

from sojourn.client.client import Client
from sojourn.connection.rpc_errors import translated
from sojourn.contracts.run import RunOutput, RunStatus
from sojourn.errors import RunNotFound, RunUnreadable
from sojourn.events.history import HistoryReader
from sojourn.events.one_run import totals_in_history

__all__ = ["Spending", "spending_of"]

AT_ONCE = 20
"""Most runs that are read at the same time."""


@dataclass(slots=True)
class Spending:
    """What some runs, with their child runs, have used."""

    runs: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """US dollars; None while no run's cost is known."""
    unpriced: int = 0
    """Runs that used tokens and whose cost is unknown."""
    unread: list[str] = field(default_factory=list[str])
    """Ids of runs that could not be read; they are not in `runs`."""

    def add(self, more: "Spending") -> None:
        """Add the sums of other runs."""
        self.runs += more.runs
        self.input_tokens += more.input_tokens
        self.output_tokens += more.output_tokens
        self.unpriced += more.unpriced
        self.unread += more.unread
        if more.cost is not None:
            self.cost = (self.cost or 0.0) + more.cost

    def to_json(self) -> dict[str, Any]:
        """Return the sums as fields."""
        return {
            "runs": self.runs,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost": None if self.cost is None else round(self.cost, 9),
            "unpriced": self.unpriced,
        }


async def spending_of(client: Client, runs: Sequence[RunStatus]) -> list[Spending]:
    """Return the spending of each run, in their order; a run that cannot be read is in `unread`.

    Raises:
        ServerUnavailable: The server does not answer.
    """
    gate = asyncio.Semaphore(AT_ONCE)

    async def read(run: RunStatus) -> Spending:
        async with gate:
            return await _read(client, run)

    return await asyncio.gather(*(read(run) for run in runs))


async def _read(client: Client, run: RunStatus) -> Spending:
    try:
        output = await _output(client, run.run_id) if run.status == "completed" else None
        used = output.total_usage if output else await totals_in_history(client.temporal, run.run_id)
    except (RunNotFound, RunUnreadable):
        return Spending(unread=[run.run_id])
    tokens = used.input_tokens + used.output_tokens
    return Spending(
        1, used.input_tokens, used.output_tokens, used.cost, int(bool(tokens and used.cost is None))
    )


async def _output(client: Client, run_id: str) -> RunOutput | None:
    """Return the output in the last event of a history; None where it is no output, or cannot be decoded."""
    reader, output = HistoryReader(client.temporal.data_converter), None
    handle = client.temporal.get_workflow_handle(run_id)
    try:
        async for event in handle.fetch_history_events(
            event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT
        ):
            record = await reader.record(event)
            output = record.value if record and isinstance(record.value, RunOutput) else None
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            raise RunNotFound(str(error), run_id=run_id) from error
        raise translated(error, run_id) from error
    return output
