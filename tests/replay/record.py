"""Record the stored histories anew: `.venv/bin/python tests/replay/record.py`.

Each scenario runs on a real server, and its history goes to `histories/`, the events folded from
it to `events/`, child runs included. Histories are real but for two things that no replay reads
and that belong to a machine: stack traces are left out, and the client and worker have a plain name.

A history once released stays: what later changes in the workflow must still replay it. Only before
the first release may all be recorded anew; after it, name the scenarios: `record.py plain_calls ...`.
`forked_call__unjudged.json` stays as it is: only an earlier version makes such forks, which begin with a step that nobody judges.
"""

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import temporalio.client

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from folding import event_lines, load  # noqa: E402
from scenarios import SCENARIOS, Scenario, make_app, settled  # noqa: E402

import activities.dispatch  # noqa: E402
import activities.heartbeat  # noqa: E402
import sojourn.core.run.retry  # noqa: E402
import workflows.history_budget  # noqa: E402
from sojourn import (  # noqa: E402
    Agent,
    App,
    Client,
    Message,
    Notice,
    PlanResult,
    Principal,
    Run,
    TenantQuota,
    Tenants,
    Worker,
    data_converter,
)
from sojourn.client.start import start_workflow  # noqa: E402
from sojourn.contracts import RunInput  # noqa: E402
from sojourn.contracts.quota import Ask, Exchange, PlaceRef  # noqa: E402
from sojourn.contracts.tenant_ids import ledger_id  # noqa: E402
from sojourn.events.one_run import first_execution  # noqa: E402
from sojourn.server import Server, dev_server  # noqa: E402
from sojourn.serving.quota_broker import ledger_queue  # noqa: E402
from sojourn.storage import FolderStorage  # noqa: E402
from sojourn.testing.scripted import ScriptedPlanner  # noqa: E402
from sojourn.values.wire import encode_readable  # noqa: E402
from tests.separate_workers import SeparateWorkers  # noqa: E402

QUEUE = "replay"

APART = {
    "decided_early",
    "decided_in_time",
    "events_archived",
    "goes_on",
    "moved",
    "noticed_conversation",
    "queued",
    "transcript_stored",
}
"""Scenarios that need a server of their own."""


async def main(names: list[str]) -> None:
    """Record the named scenarios, or all."""
    hurry()
    folder = tempfile.mkdtemp()
    async with Server(db_filename=f"{folder}/temporal.db", port=0, ui=False, attach=False) as server:
        temporal = await temporalio.client.Client.connect(
            server.address, data_converter=data_converter, identity="recorder"
        )
        client = Client(temporal, task_queue=QUEUE)
        async with Worker(make_app(), client):
            for name in names or SCENARIOS:
                if name in APART:
                    continue
                with short_executions() if name.startswith("continued") else contextlib.nullcontext():
                    await record(client, name, SCENARIOS[name])
            if not names:
                await record_nothing(client)
    for name in {"transcript_stored", "goes_on"} & set(names or SCENARIOS):
        await record_first_execution(name)
    for name in {"decided_early", "decided_in_time"} & set(names or SCENARIOS):
        await record_decided(name)
    if "noticed_conversation" in (names or SCENARIOS):
        await record_noticed()
    if "queued" in (names or SCENARIOS):
        await record_queued()
    if "events_archived" in (names or SCENARIOS):
        await record_events_archived()
    while "moved" in (names or SCENARIOS) and not await record_moved():
        pass  # the tasks happened to reach the right worker only


@contextlib.contextmanager
def short_executions() -> Iterator[None]:
    """Let runs go on in new executions after 60 events; what is stored is the last execution, which is shorter."""
    usual = workflows.history_budget.CONTINUE_EVENTS
    workflows.history_budget.CONTINUE_EVENTS = 60
    with tempfile.TemporaryDirectory() as nowhere:  # a stored history may need no storage
        os.environ["XDG_RUNTIME_DIR"] = nowhere
        yield
        del os.environ["XDG_RUNTIME_DIR"]
    workflows.history_budget.CONTINUE_EVENTS = usual


def hurry() -> None:
    """Shorten delays that a recording would only wait for; no replay reads them."""
    activities.dispatch.SCHEDULE_TO_START = timedelta(seconds=1)
    sojourn.core.run.retry.PLANNER_ATTEMPTS = 2
    activities.heartbeat.FIRST_BEAT = activities.heartbeat.INTERVAL = 0.2
    logging.getLogger("temporalio").setLevel(logging.ERROR)


async def record(client: Client, name: str, scenario: Scenario) -> None:
    """Play one scenario and store its runs."""
    run = await started(client, name, scenario)
    if scenario.deed:
        await scenario.deed(run)
    await settled(run)
    await store(client, run.id)
    if name == "branched_conversation":
        await store(client, run.id, await first_execution(client.temporal, run.id), name="left_conversation")
    async for event in run.events():
        if event.type == "agent_run_started":
            await settled(client.get_run(event.run_link.run_id))
            await store(client, event.run_link.run_id)
    if scenario.fork:
        fork = await scenario.fork(run)
        await settled(fork)
        await store(client, fork.id)


async def started(client: Client, name: str, scenario: Scenario) -> Run:
    agent_id = f"replay.{name}"
    if not (scenario.bare or scenario.conversation):
        return await client.start(
            agent_id,
            f"play {name}",
            run_id=name,
            session_id="s",
            policy=scenario.override,
            principal=scenario.principal,
        )
    opening = RunInput(
        agent_id=agent_id,
        messages=[] if scenario.conversation else [Message.user(f"play {name}")],
        conversation=scenario.conversation,
        principal=scenario.principal,
        visibility=scenario.visibility,
    )
    if scenario.first:
        update = ("send", {"text": scenario.first, "message_id": scenario.first})
        await start_workflow(client.temporal, name, opening, QUEUE, argument=opening, update=update)
    else:
        await client.temporal.start_workflow(
            "AgentRun", opening, id=name, task_queue=QUEUE, task_timeout=scenario.task_timeout
        )
    return client.get_run(name)


async def record_nothing(client: Client) -> None:
    """Record a run that is started without input."""
    await client.temporal.start_workflow("AgentRun", id="no_input", task_queue=QUEUE)
    await settled(client.get_run("no_input"))
    await store(client, "no_input")


async def record_moved() -> bool:
    """Record a run whose calls reach a worker of another app on its task queue first; returns whether they did."""
    activities.heartbeat.release_run = leave_for_tools
    planner = ScriptedPlanner([PlanResult.final("other")])
    other = App(name="other", agents=[Agent("other.agent", planner=planner)])
    async with Server(port=0, ui=False, attach=False) as server:
        one, two = [await Client.connect(server.address, task_queue=QUEUE) for _ in range(2)]
        async with Worker(make_app(), one), Worker(other, two):
            run = await started(one, "moved", SCENARIOS["moved"])
            await settled(run)
            history = await one.temporal.get_workflow_handle(run.id).fetch_history()
            is_moved = any(
                event.HasField("activity_task_failed_event_attributes") for event in history.events
            )
            if is_moved:
                await store(one, run.id)
            return is_moved


async def record_first_execution(name: str) -> None:
    """Record a run that goes on when the server suggests it, and leaves its messages to external storage.

    What is kept is its first execution; the next begins with a claim, which a fork of a stored history cannot follow.
    """
    async with with_storage(archive=False) as client:
        run = await started(client, name, SCENARIOS[name])
        await settled(run)
        await store(client, run.id, await first_execution(client.temporal, run.id))


async def record_events_archived() -> None:
    """Record a run whose second execution, which is kept, archives the events of the first."""
    async with with_storage(archive=True) as client:
        run = await started(client, "events_archived", SCENARIOS["events_archived"])
        await settled(run)
        await store(client, run.id)


async def record_decided(name: str) -> None:
    """Record a run whose decision comes in the workflow task that opens its wait, or with the end of its time."""
    async with Server(port=0, ui=False, attach=False) as server:
        temporal = await temporalio.client.Client.connect(
            server.address, data_converter=data_converter, identity="recorder"
        )
        client = Client(temporal, task_queue=QUEUE)
        workers = SeparateWorkers(client, make_app())
        await workers.start("workflows")
        run = await started(client, name, SCENARIOS[name])
        await (decide_early if name == "decided_early" else decide_in_time)(workers, run)
        await settled(run)
        await workers.stop_all()
        await store(client, run.id)


async def decide_early(workers: SeparateWorkers, run: Run) -> None:
    """Send a decision that an author's function judges, before the run has read the plan."""
    await reaches(run, "activity_task_scheduled")
    await workers.stop("workflows")
    await workers.start("activities")
    await reaches(run, "activity_task_completed")
    digest = hashlib.sha256(encode_readable({"gate": "n"})).hexdigest()
    watch = Principal(subject="wil", tenant="acme", roles=["watch"])
    sent = {"id": "confirm-c1", "approved": True, "payload_digest": digest, "principal": watch.model_dump()}
    await run.client.temporal.get_workflow_handle(run.id).signal("provide_confirmation", sent)
    await workers.start("workflows")


async def decide_in_time(workers: SeparateWorkers, run: Run) -> None:
    """Let the verdict on an edit and the end of the wait's time reach the run together."""
    await workers.start("activities")
    while not (waits := (await run.status()).awaits):
        await asyncio.sleep(0.02)
    await workers.stop("activities")
    sent = {"id": waits[0].id, "approved": True, "payload_digest": waits[0].payload_digest, "by": "ana"}
    handle = run.client.temporal.get_workflow_handle(run.id)
    await handle.signal("provide_confirmation", {**sent, "arguments": {"disk": "b"}})
    await reaches(run, "activity_task_scheduled", 2)
    await workers.stop("workflows")
    await workers.start("activities")
    await reaches(run, "timer_fired")
    await workers.start("workflows")


async def reaches(run: Run, kind: str, count: int = 1) -> None:
    """Wait until the history has as many events of a kind."""
    handle = run.client.temporal.get_workflow_handle(run.id)
    while True:
        events = (await handle.fetch_history()).events
        if sum(event.HasField(f"{kind}_event_attributes") for event in events) >= count:
            return
        await asyncio.sleep(0.02)


async def record_noticed() -> None:
    """Record a conversation that tells all kinds of notices, and the delivery of one, which succeeds the second time."""
    missed = []

    async def take(notice: Notice) -> None:
        if notice.kind == "wait" and not missed:
            missed.append(notice)
            raise ConnectionError("nobody listens")

    app = make_app()
    app.notices = dict.fromkeys(("wait", "turn", "end"), take)
    async with Server(port=0, ui=False, attach=False) as server:
        client = await Client.connect(server.address, task_queue=QUEUE)
        async with Worker(app, client):
            run = await started(client, "noticed_conversation", SCENARIOS["noticed_conversation"])
            await SCENARIOS["noticed_conversation"].deed(run)
            await settled(run)
            await store(client, run.id)
            delivery = next(notice.id for notice in missed)
            await client.temporal.get_workflow_handle(delivery).result()
            await store(client, delivery, name="notice_delivery")


async def record_queued() -> None:
    """Record a run that waits for a place in its tenant's quota, asks in vain, and gets it; and the tenant's ledger."""
    app = make_app()
    app._tenants = Tenants(default=TenantQuota(runs=1))
    async with Server(port=0, ui=False, attach=False) as server:
        client = await Client.connect(server.address, task_queue=QUEUE)
        async with Worker(app, client):
            ledger, handle = ledger_id("sojourn", "acme"), client.temporal.get_workflow_handle("queued")
            await client.temporal.start_workflow(
                "TenantLedger", id=ledger, task_queue=ledger_queue("sojourn")
            )
            other = Exchange(worker="recorder", quota=TenantQuota(runs=1).recorded())
            held = other.model_copy(update={"asks": [Ask(run_id="other", place=1, starts=True)]})
            await client.temporal.get_workflow_handle(ledger).execute_update("exchange", held)
            run = await started(client, "queued", SCENARIOS["queued"])
            for plans in (1, 2):
                await reaches(run, "activity_task_completed", plans)
                await reaches(run, "timer_started", plans)
                if plans == 2:
                    freed = other.model_copy(update={"released": [PlaceRef(run_id="other", place=1)]})
                    await client.temporal.get_workflow_handle(ledger).execute_update("exchange", freed)
                await handle.signal("admit", 1)
            await settled(run)
            await store(client, run.id)
            await client.temporal.get_workflow_handle(ledger).terminate("recorded")
            await store(client, ledger, name="tenant_ledger")


@contextlib.asynccontextmanager
async def with_storage(*, archive: bool) -> AsyncIterator[Client]:
    """Serve the scenarios with a storage, where runs go on once the server suggests it."""
    dev_server._FOR_TESTS["limit.historyCount.suggestContinueAsNew"] = 60
    app = make_app()
    app.storage, app.archive = FolderStorage(tempfile.mkdtemp()), archive
    async with Server(port=0, ui=False, attach=False) as server:
        client = await Client.connect(server.address, task_queue=QUEUE)
        async with Worker(app, client):
            yield client


async def leave_for_tools(
    client: Any, info: Any, leave: Callable[[Any, Any], Awaitable[None]] = activities.heartbeat.release_run
) -> None:
    """Leave the run's workflow at the wrong worker after a plan, so that its calls are started there."""
    if info.activity_type != "PlanActivity":
        await leave(client, info)


async def store(client: Client, run_id: str, execution: str | None = None, name: str = "") -> None:
    """Write the history of a run's last execution, or of another, and its events."""
    history = await client.temporal.get_workflow_handle(run_id, run_id=execution).fetch_history()
    file = f"{name or run_id.replace('/', '__')}.json"
    write(HERE / "histories" / file, without_traces(json.loads(history.to_json())))
    write(HERE / "events" / file, await event_lines(load(HERE / "histories" / file)))
    print(f"{file}: {len(history.events)} history events")


def without_traces(value: Any) -> Any:
    """The history without the stack traces, which name files of the machine."""
    if isinstance(value, dict):
        return {key: without_traces(inner) for key, inner in value.items() if key != "stackTrace"}
    return [without_traces(inner) for inner in value] if isinstance(value, list) else value


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
