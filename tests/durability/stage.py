"""Stage: what one scenario uses: a folder, a task queue, a client, and the processes it starts."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.common import RawValue

from sojourn import Client, Run
from sojourn.events import Event
from sojourn.network import http_client
from sojourn.values.wire import encode
from tests.chain import SHORTEN, history_of

from .sojourn_process import SojournProcess
from .story import Story, comparable
from .until import PATIENCE, until
from .wire import Wire


@dataclass
class Stage:
    """The folder, task queue, client, workers and processes of the HTTP service of one scenario."""

    folder: Path
    client: Client
    address: str
    workers: list[SojournProcess] = field(default_factory=list)
    services: list[SojournProcess] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)

    async def worker(
        self,
        target: str = "durable_app:app",
        *,
        address: str | None = None,
        queue: str | None = None,
        ready: bool = True,
        imports: tuple[str, ...] = (),
        **environment: str,
    ) -> SojournProcess:
        """Start a worker of this stage and, with `ready`, wait until it serves; `environment` adds variables."""
        name = f"worker-{len(self.workers) + 1}"
        worker = SojournProcess(
            *("worker", target),
            log=self.folder / f"{name}.log",
            imports=(*SHORTEN, *imports),
            **self._environment_of(name, address, queue),
            **environment,
        )
        self.workers.append(worker)
        if ready:
            await worker.says("worker_ready")
        return worker

    async def service(self, target: str, port: int, *options: str) -> SojournProcess:
        """Start a process of the HTTP service at a port, with further options, and wait until it serves."""
        name = f"service-{len(self.services) + 1}"
        service = SojournProcess(
            *("serve", target, "--port", str(port), *options),
            log=self.folder / f"{name}.log",
            imports=("sojourn.asgi", "uvicorn"),
            **self._environment_of(name),
        )
        self.services.append(service)
        async with http_client(base_url=f"http://127.0.0.1:{port}") as http:

            async def answers() -> bool:
                assert service.is_running, f"{name} ended before it served:\n{service.log()}"
                with suppress(httpx2.TransportError):
                    return (await http.get("/health")).status_code == 200
                return False

            await until(f"{name} serves", answers)
        return service

    def _environment_of(
        self, name: str, address: str | None = None, queue: str | None = None
    ) -> dict[str, str]:
        return {
            "TEMPORAL_ADDRESS": address or self.address,
            "SOJOURN_TASK_QUEUE": queue or self.client.task_queue,
            "DURABLE_STAGE": str(self.folder),
            "DURABLE_WORKER": name,
            "DURABLE_REMOTE_QUEUE": self.remote_queue,
        }

    @property
    def remote_queue(self) -> str:
        """The task queue of the app's remote toolset."""
        return f"{self.client.task_queue}-remote"

    async def wire(self) -> Wire:
        """Open a relay to the server."""
        wire = Wire(self.address)
        self.wires.append(wire)
        await wire.open()
        return wire

    def hold(self, point: str) -> None:
        """Make executions wait at a point."""
        (self.folder / f"{point}.hold").touch()

    def release(self, point: str) -> None:
        """Let executions continue at a point."""
        (self.folder / f"{point}.hold").unlink()

    def records(self) -> list[dict[str, Any]]:
        """The records of the executions so far."""
        path = self.folder / "records.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    async def reached(self, point: str, *, event: str = "start", attempt: int = 1) -> dict[str, Any]:
        """Wait until an attempt has started, or ended, at a point."""
        wanted = {"event": event, "point": point, "attempt": attempt}
        return await until(
            f"attempt {attempt} {event}s at {point}",
            lambda: next((line for line in self.records() if wanted.items() <= line.items()), None),
        )

    async def history(self, run: Run) -> list[HistoryEvent]:
        """The run's history so far."""
        return await history_of(self.client.temporal, run.id)

    async def happened(self, run: Run, name: str, count: int = 1) -> None:
        """Wait until the run's history holds `count` events of a type."""
        wanted = EventType.Value(f"EVENT_TYPE_{name}")

        async def there() -> bool:
            return sum(event.event_type == wanted for event in await self.history(run)) >= count

        await until(f"{run.id}: {name}", there)

    @staticmethod
    async def until(what: str, claim: Callable[[], Any]) -> Any:
        """Wait until the claim returns a true value, and return that value."""
        return await until(what, claim)

    async def asks(self, run: Run) -> None:
        """Wait until a run waits for the answer to its question."""
        await self.happened(run, "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES")

    async def in_flight(self, run: Run) -> Any:
        """The server's description of the one pending activity."""
        described = await self.client.temporal.get_workflow_handle(run.id).describe()
        (activity,) = described.raw_description.pending_activities
        return activity

    async def noticed(self, run: Run) -> datetime:
        """Wait until the server has ended the first attempt of the pending activity, and return when it did."""

        async def first_attempt_ended() -> Any:
            activity = await self.in_flight(run)
            return activity.attempt > 1 and activity.last_attempt_complete_time

        found = await until(f"{run.id}: the first attempt has ended", first_attempt_ended)
        return found.ToDatetime(UTC)

    async def start(self, agent: str = "clerk") -> Run:
        """Start a run."""
        return await self.client.start(f"durable.{agent}", "Write the notes")

    async def follow(self, run: Run) -> list[Event]:
        """Follow a run to its end and return its recorded events, without those that only a live follower gets."""
        return [event async for event in run.events() if event.event_id]

    async def _transcript(self, run: Run) -> bytes:
        """The transcript as the run's query returns it, or as a reader does where its beginning is in external storage."""
        handle = self.client.temporal.get_workflow_handle(run.id)
        queried = (await handle.query("transcript", result_type=RawValue)).payload.data
        return encode(await run.transcript()) if queried.startswith(b"{") else queried

    async def story(self, run: Run) -> Story:
        """Wait for the end of a run, and collect its output, transcript, events, records and history."""
        async with asyncio.timeout(PATIENCE):
            output = await run.result()
        return Story(
            output=output,
            transcript=comparable(await self._transcript(run), run.id),
            events=[event async for event in run.events(follow=False)],
            records=[line for line in self.records() if line["run_id"].startswith(run.id)],
            history=await self.history(run),
        )
