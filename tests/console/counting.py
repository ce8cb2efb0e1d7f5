"""Counting: what a process of the service asks of Temporal, and which parts of pages it makes."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sojourn import Client
from sojourn.console import page

__all__ = ["Asked", "made"]


class Asked:
    """Counts the requests of a client; `poll` is one that waits for new events of a history, `history` one that does not.

    Args:
        client: The client.
    """

    def __init__(self, client: Client) -> None:
        self.count: Counter[str] = Counter()
        self.most_polls = 0
        """Most polls that were open at the same time."""
        self.held: set[str] = set()
        """Runs whose histories come only once this is empty."""
        self.holds_lists = False
        """Whether no list of runs comes."""
        self._polls = 0
        service = client.temporal.service_client
        self._call, service._rpc_call = service._rpc_call, self._ask

    async def _ask(self, **asked: Any) -> Any:
        request, name = asked["req"], asked["rpc"]
        while self.holds_lists and name == "list_workflow_executions":
            await asyncio.sleep(0.05)
        if name != "get_workflow_execution_history":
            self.count[name] += 1
            return await self._call(**asked)
        while request.execution.workflow_id in self.held:
            await asyncio.sleep(0.05)
        self.count["poll" if request.wait_new_event else "history"] += 1
        self._polls += request.wait_new_event
        self.most_polls = max(self.most_polls, self._polls)
        try:
            return await self._call(**asked)
        finally:
            self._polls -= request.wait_new_event


@contextmanager
def made() -> Iterator[Counter[tuple[str, str, int]]]:
    """Count the parts of runs' pages that are made during the body: by template, entry and version."""
    count: Counter[tuple[str, str, int]] = Counter()
    render = page.render

    def rendering(name: str, **values: Any) -> str:
        entry, watched = values.get("entry"), values.get("watched")
        if name == "entry.html":
            count[name, entry.key, entry.version] += 1
        elif watched is not None:
            count[name, "", watched.version] += 1
        return render(name, **values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "render", rendering)
        yield count
