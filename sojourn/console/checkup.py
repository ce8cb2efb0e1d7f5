"""Run the checks of `sojourn doctor` for a running service.

Each check runs by itself, in bounded time. Concurrent visitors share its outcome.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from temporalio.service import RPCError

from sojourn.authoring.runnable import RemoteToolset
from sojourn.checks import Check
from sojourn.checks.application import check_app, check_model, check_storage, queues_of
from sojourn.checks.machine import check_cli, check_extras, check_settings, check_versions
from sojourn.checks.service import check_clock, check_namespace, check_search_attributes, check_server
from sojourn.checks.workers import (
    ServedQueue,
    check_agents,
    check_elsewhere,
    check_once,
    check_queue,
    find_served_queues,
)
from sojourn.connection.announcements import read_workers
from sojourn.connection.rpc_errors import translate_error
from sojourn.errors import SojournError
from sojourn.http.service import Service
from sojourn.reader import Cache

__all__ = ["Checkup"]

FRESH = 8.0
"""Seconds for which a result is cached."""

SLOWLY = 120.0
"""The same for checks that seldom change or are costly, such as a write to the storage."""

PATIENCE = 5.0
"""Longest time of a check, in seconds."""

MAX_CHECKS = 1_000
"""Most checks whose outcome is cached."""


@dataclass(frozen=True, slots=True)
class CheckResults:
    at: datetime
    groups: dict[str, list[Check]]
    """The checks by title of their group."""


class Checkup:
    """Runs the checks of the Health page, and caches their results."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._found: Cache[str, Any] = Cache(MAX_CHECKS, FRESH)

    async def look(self) -> CheckResults:
        return await self._found.get("all", self._look)

    async def queues(self) -> list[ServedQueue]:
        """Return the task queues and their workers, cached for some seconds.

        Raises:
            ServerUnavailable: The server does not answer.
        """
        return await self._found.get("queues", self._queues)

    async def _queues(self) -> list[ServedQueue]:
        client = self._service.client
        known = [*queues_of(self._service.app), *filter(None, [client.task_queue])]
        try:
            async with asyncio.timeout(PATIENCE):
                return await find_served_queues(client.temporal, known)
        except RPCError as error:
            raise translate_error(error, None) from error

    async def _look(self) -> CheckResults:
        app, client = self._service.app, self._service.client
        temporal, config = client.temporal, client.temporal.service_client.config
        options = {
            "target_host": config.target_host,
            "namespace": temporal.namespace,
            "tls": bool(config.tls),
            "api_key": config.api_key,
        }
        name = app.name or "the app"
        groups = await asyncio.gather(
            self._all(
                [
                    ("server", FRESH, lambda: check_server(temporal)),
                    ("namespace", FRESH, lambda: check_namespace(temporal)),
                    ("search attributes", SLOWLY, lambda: check_search_attributes(temporal)),
                    ("clock", SLOWLY, lambda: check_clock(temporal)),
                ]
            ),
            self._checks_of_workers(),
            self._all(
                [
                    ("app", SLOWLY, lambda: asyncio.to_thread(check_app, app, name)),
                    ("model", SLOWLY, lambda: asyncio.to_thread(check_model, app, is_named=True)),
                    ("MCP servers", FRESH, self._check_remote),
                    ("storage", SLOWLY, lambda: check_storage(app)),
                ]
            ),
            self._all(
                [
                    ("versions", SLOWLY, lambda: asyncio.to_thread(check_versions)),
                    ("extras", SLOWLY, lambda: asyncio.to_thread(check_extras)),
                    ("temporal command", SLOWLY, check_cli),
                    (
                        "settings",
                        SLOWLY,
                        lambda: asyncio.to_thread(check_settings, options, client.task_queue),
                    ),
                ]
            ),
        )
        titles = ("The Temporal server", "Workers", "The app", "This process")
        return CheckResults(datetime.now(UTC), dict(zip(titles, groups, strict=True)))

    async def _checks_of_workers(self) -> list[Check]:
        client, app = self._service.client, self._service.app
        try:
            async with asyncio.timeout(PATIENCE):
                workers = await read_workers(client.temporal)
        except (RPCError, TimeoutError):
            return [Check("workers", ok=None, found="not checked: the server does not answer")]
        tools = queues_of(app)
        queues = sorted({*(each.task_queue for each in workers), *filter(None, [client.task_queue])})
        served, calls = (
            partial(check_queue, client.temporal, activities_only=each) for each in (False, True)
        )
        found = await self._all(
            [
                *((f"workers on {queue}", FRESH, partial(served, queue)) for queue in queues),
                *((f"workers for calls on {queue}", FRESH, partial(calls, queue)) for queue in tools),
                ("runs on other task queues", FRESH, lambda: check_elsewhere(client, [*queues, *tools], [])),
            ]
        )
        if not queues:
            found = [
                Check("workers", ok=False, found="none serves an agent", mend="sojourn worker MODULE:APP"),
                *found,
            ]
        shared = [check_agents(workers, queue) for queue in queues]
        twice = check_once(workers)
        return [*found, *(each for each in shared if each.ok is False), *([twice] if twice else [])]

    async def _check_remote(self) -> Check:
        app = self._service.app
        uses = [toolset for each in app.list_agents() if (agent := app.agent(each)) for toolset in agent.uses]
        remote = sorted({toolset.id for toolset in uses if isinstance(toolset, RemoteToolset)})
        if not remote:
            return Check("MCP servers", ok=None, found="no agent uses one")
        found = f"{', '.join(remote)}: not checked here, since workers connect to them"
        return Check("MCP servers", ok=None, found=found, mend="sojourn doctor MODULE:APP")

    async def _all(self, wanted: "list[_Wanted]") -> list[Check]:
        return list(await asyncio.gather(*(self._one(*each) for each in wanted)))

    async def _one(self, name: str, fresh: float, check: Callable[[], Awaitable[Check]]) -> Check:
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._found.get(name, check, seconds=fresh)
        except TimeoutError:
            return Check(
                name,
                ok=False,
                found=f"no answer within {PATIENCE:.0f} s",
                mend="look at the server's log and load",
            )
        except (RPCError, SojournError) as error:
            known = translate_error(error, None) if isinstance(error, RPCError) else error
            found, _, mend = str(known).partition("; ")
            return Check(name, ok=False, found=found, mend=mend)


_Wanted = tuple[str, float, Callable[[], Awaitable[Check]]]
"""A check: its name, the seconds for which its result is cached, and its function."""
