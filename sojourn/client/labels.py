"""Labels in a listing: read from each run's input, since Temporal's visibility store does not have them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from sojourn.connection.rpc_errors import translated
from sojourn.contracts.run import RunInput, RunStatus
from sojourn.core.run.continuation import Continuation
from sojourn.events.history import HistoryReader

__all__ = ["labels_of_run", "with_labels"]

AT_ONCE = 20
"""Most runs whose input is read at the same time."""


async def with_labels(
    client: Client, runs: AsyncIterator[RunStatus], labels: Mapping[str, str], limit: int | None = None
) -> AsyncGenerator[RunStatus]:
    """The runs that were started with all of these labels, in their order; a run that was deleted meanwhile has none.

    Args:
        client: The client that reads the inputs.
        runs: The runs to choose from.
        labels: The labels that a run needs.
        limit: Most runs to return.

    Raises:
        ServerUnavailable: The server does not answer.
    """
    found = 0
    async for group in _groups(runs):
        known = await asyncio.gather(*(labels_of_run(client, run.run_id) for run in group))
        for run, its in zip(group, known, strict=True):
            if labels.items() <= its.items():
                found += 1
                yield run
                if found == limit:
                    return


async def _groups(runs: AsyncIterator[RunStatus]) -> AsyncGenerator[list[RunStatus]]:
    group: list[RunStatus] = []
    async for run in runs:
        group.append(run)
        if len(group) == AT_ONCE:
            yield group
            group = []
    if group:
        yield group


async def labels_of_run(client: Client, run_id: str) -> dict[str, str]:
    """The labels in a run's input; none where it cannot be read."""
    reader = HistoryReader(client.data_converter)
    try:
        async for event in client.get_workflow_handle(run_id).fetch_history_events(page_size=1):
            record = await reader.record(event)
            match record and record.value:
                case RunInput(labels=labels):
                    return labels
                case Continuation(state=state):
                    return state.opening.labels
                case _:
                    return {}
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise translated(error, run_id) from error
    return {}
