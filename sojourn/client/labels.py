"""Labels in a listing: read from each run's input, since Temporal's visibility store does not have them.

They never change, so they are read once, however many ask for them, and remembered for a while.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from weakref import WeakKeyDictionary

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from sojourn.connection.rpc_errors import translated
from sojourn.contracts.run import RunInput, RunStatus
from sojourn.core.run.continuation import Continuation
from sojourn.events.history import HistoryReader

__all__ = ["labels_of_run", "with_labels"]

AT_ONCE = 20
"""Most runs whose input is read at the same time."""

MAX_KNOWN = 20_000
"""Most runs whose labels are remembered."""

MAX_CHARS = 1_000
"""Longest labels that are, in characters: those of twenty thousand runs have 20 MB at most."""

_Start = tuple[str, str]
"""A run, and when it started: a run id may be used again."""


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
    known_labels = _KNOWN.setdefault(client, _KnownLabels())
    async for group in _groups(runs):
        known = await asyncio.gather(*(known_labels.of(client, run) for run in group))
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


class _KnownLabels:
    """The labels of the runs that were listed last."""

    def __init__(self) -> None:
        self._known: OrderedDict[_Start, dict[str, str]] = OrderedDict()
        self._reading: dict[_Start, asyncio.Task[dict[str, str]]] = {}

    async def of(self, client: Client, run: RunStatus) -> dict[str, str]:
        """The labels of a run; raises as `labels_of_run`."""
        start = (run.run_id, run.started_at.isoformat() if run.started_at else "")
        if start in self._known:
            self._known.move_to_end(start)
            return self._known[start]
        task = self._reading.get(start)
        if task is None or task.get_loop() is not asyncio.get_running_loop():
            task = self._reading[start] = asyncio.create_task(self._read(client, start))
            task.add_done_callback(
                lambda done: done.cancelled() or done.exception()
            )  # if nobody waits any more
        return await asyncio.shield(task)

    async def _read(self, client: Client, start: _Start) -> dict[str, str]:
        try:
            found = await labels_of_run(client, start[0])
            size = sum(len(name) + len(value) for name, value in found.items())
            if start[1] and size <= MAX_CHARS:
                self._known[start] = found
                while len(self._known) > MAX_KNOWN:
                    self._known.popitem(last=False)
            return found
        finally:
            del self._reading[start]


_KNOWN: WeakKeyDictionary[Client, _KnownLabels] = WeakKeyDictionary()


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
