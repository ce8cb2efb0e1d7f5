"""The wedge campaign: send garbage of every kind to runs at every stage, then check that each run answers and ends.

`.venv/bin/python -m tests.durability.wedge --messages 2000` runs a full campaign on a server of its own.
"""

import argparse
import asyncio
import contextlib
import json
import random
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowQueryFailedError, WorkflowUpdateFailedError
from temporalio.common import RawValue
from temporalio.service import RPCError

from sojourn import (
    Agent,
    AgentTool,
    App,
    ApprovalPolicy,
    AwaitClarification,
    Client,
    PlanResult,
    Run,
    RunPolicy,
    Toolset,
    Worker,
)
from sojourn.errors import RunError
from tests.encrypted.keys import FernetCodec
from tests.failed_tasks import failed_tasks

STAGES = (
    "planning",
    "executing",
    "local",
    "asking",
    "confirming",
    "external",
    "paused",
    "child",
    "sleeping",
    "ended",
)
NAMES = (
    "provide_clarification",
    "provide_confirmation",
    "provide_tool_results",
    "pause",
    "resume",
    "stop_asking",
    "set_aside",
    "explode",
    "__temporal_x",
    "",
)
QUERIES = ("status", "transcript", "__stack_trace", "explode")
ENCODINGS = (
    b"json/plain",
    b"json/protobuf",
    b"binary/plain",
    b"binary/null",
    b"binary/protobuf",
    b"binary/encrypted",
    b"json/external-storage-reference",
    b"sojourn/unread",
    b"made/up",
    b"",
)
BODIES = (
    b"",
    b"{",
    b"{}",
    b"null",
    b'"x"',
    b"[1e999]",
    b'"\\ud800"',
    b"\xff\x00",
    b"9" * 5_000,
    b'{"a":' * 300 + b"1" + b"}" * 300,
    b"x" * 200_000,
    b'{"id": {"x": []}, "answer": 1, "approved": "yes", "results": 7, "by": []}',
    b'{"driver_name":"s3","driver_claim":{"claim_data":{}}}',
    b'{"id":"other","approved":true,"answer":"a","results":[{"tool_call_id":"x","result":1}]}',
)
MARKS = (
    {},
    {"__temporal_external_storage_reference": b"true"},
    {"messageType": b"temporal.api.sdk.v1.ExternalStorageReference"},
    {"sojourn-clear-text": b"true"},
)

Gate = asyncio.Event


def garbage(chance: random.Random) -> RawValue:
    """A random payload."""
    encoding = chance.choice(ENCODINGS)
    metadata = {**({"encoding": encoding} if encoding else {}), **chance.choice(MARKS)}
    return RawValue(Payload(metadata=metadata, data=chance.choice(BODIES)))


def app_for(gates: dict[str, Gate], executed: Counter[str]) -> App:
    """An app whose runs stay at the stage that their first message names, until the run's gate opens."""
    tools, outside = Toolset("wedge.tools"), Toolset("wedge.outside", external=True)

    async def held(run: str) -> str:
        executed[run] += 1
        await gates[run].wait()
        return "done"

    @tools.tool
    async def work(run: str) -> str:
        """Work until the gate opens."""
        return await held(run)

    @tools.tool(local=True, read_only=True)
    async def near(run: str) -> str:
        """Work until the gate opens, in a local activity."""
        return await held(run)

    @tools.tool(confirmation="May {run} go on?")
    async def risky(run: str) -> str:
        """Work at once, after an approval."""
        executed[run] += 1
        return "done"

    fetch = outside.declare("fetch", args=dict[str, str], result=str)

    async def below(turn: Any) -> PlanResult:
        answered = any(message.role == "user" for message in turn.messages[1:])
        question = AwaitClarification(id="q", question="below?")
        return PlanResult.final("done") if answered else PlanResult.ask(question)

    child = Agent("wedge.child", planner=below, policy=RunPolicy(interrupts_allowed=True))
    asked = child.export("wedge.below", tools=[AgentTool("ask", args=dict[str, str])])

    async def plan(turn: Any) -> PlanResult:
        stage, run = turn.messages[0].text.split()
        if len(turn.messages) > 1:
            return PlanResult.final(f"{stage} done")
        if stage in ("planning", "paused"):
            await gates[run].wait()
        calls: dict[str, Callable[[], PlanResult]] = {
            "executing": lambda: PlanResult.calls(work.call(run=run)),
            "local": lambda: PlanResult.calls(near.call(run=run)),
            "asking": lambda: PlanResult.ask(AwaitClarification(id="q", question="which?")),
            "confirming": lambda: PlanResult.calls(risky.call(run=run)),
            "external": lambda: PlanResult.calls(fetch.call({"run": run})),
            "child": lambda: PlanResult.calls(asked.tools["ask"].call({"run": run})),
            "sleeping": lambda: PlanResult.wait(timedelta(seconds=3)),
        }
        return calls[stage]() if stage in calls else PlanResult.final(f"{stage} done")

    policy = RunPolicy(interrupts_allowed=True, approval=ApprovalPolicy())
    return App(
        agents=[Agent("wedge.agent", planner=plan, uses=[tools, outside, asked], policy=policy), child]
    )


async def send(handle: Any, chance: random.Random, tally: Counter[str]) -> None:
    """Send a signal, update or query with random payloads, and count how it ended."""
    args = [garbage(chance) for _ in range(chance.choice((1, 1, 1, 0, 2)))]
    # An update or query of a run with a local call at work waits for its workflow task, 8 s.
    weights = (1, 0, 0) if handle.id.startswith("local") else (6, 3, 1)
    kind = chance.choices(("signal", "update", "query"), weights=weights)[0]
    tally[kind] += 1
    wait = timedelta(seconds=20)
    try:
        if kind == "signal":
            await handle.signal(chance.choice(NAMES), args=args, rpc_timeout=wait)
        elif kind == "update":
            await asyncio.wait_for(
                handle.execute_update(chance.choice(NAMES[:7]), args=args, rpc_timeout=wait), 30
            )
        else:
            await handle.query(chance.choice(QUERIES), args=args, rpc_timeout=wait)
    except KeyError:
        tally["answered in cipher"] += 1  # this client has no key
    except (RPCError, WorkflowUpdateFailedError, WorkflowQueryFailedError, TimeoutError) as error:
        tally[f"refused: {type(error).__name__}"] += 1
    except RuntimeError as error:
        tally[f"refused: {str(error)[:40]}"] += 1


async def go_on(run: Run, stage: str, gate: Gate) -> None:
    """Open the run's gate, resume the run and answer what it waits for."""
    gate.set()
    while (await run.status()).paused is not None:  # garbage may have paused it
        with contextlib.suppress(RunError):
            await run.resume()
    if stage in ("asking", "confirming", "external", "child"):
        status = await run.status()
        while not (status.awaits or status.child_awaits):
            await asyncio.sleep(0.1)
            status = await run.status()
        for wait in status.awaits:
            if stage == "asking":
                await run.answer(wait.id, "this")
            elif stage == "confirming":
                await run.approve(wait.id)
            else:
                call_id = wait.items[0].tool_call_id
                await run.provide_tool_results(wait.id, [{"tool_call_id": call_id, "result": "x"}])
        for below, waits in status.child_awaits.items():
            await run.client.get_run(below).answer(waits[0].id, "this")


async def failed_tasks_of(run: Run) -> list[str]:
    """The causes of a run's failed workflow tasks."""
    handle = run.client.temporal.get_workflow_handle(run.id)
    return failed_tasks([event async for event in handle.fetch_history_events()])


async def campaign(address: str, *, messages: int, seed: int, encrypted: bool) -> dict[str, Any]:
    """Send `messages` messages and a twentieth as many raw starts; return the outcome of all of them."""
    chance, tally = random.Random(seed), Counter[str]()
    gates, executed = {}, Counter[str]()
    codec = FernetCodec() if encrypted else None
    client = await Client.connect(address, task_queue=f"wedge-{uuid.uuid4().hex[:8]}", codec=codec)
    plain = await TemporalClient.connect(address)
    async with Worker(app_for(gates, executed), client):
        runs: dict[str, Run] = {}
        for stage in STAGES:
            name = f"{stage}-{uuid.uuid4().hex[:8]}"
            gates[name] = Gate()
            runs[name] = await client.start("wedge.agent", f"{stage} {name}", run_id=name)
            if stage == "paused":
                await runs[name].pause("campaign")
            if stage == "ended":
                await runs[name].result()
        handles = [plain.get_workflow_handle(name) for name in runs]
        status = await next(run for name, run in runs.items() if name.startswith("child")).status()
        handles += [plain.get_workflow_handle(call.run_link.run_id) for call in status.calls if call.run_link]
        for _ in range(messages // 50):
            await asyncio.gather(*(send(chance.choice(handles), chance, tally) for _ in range(50)))
        starts = await raw_starts(plain, client, chance, messages // 20)

        async def end(name: str, run: Run) -> tuple[str, str]:
            stage = name.split("-", maxsplit=1)[0]
            if stage != "ended":
                await go_on(run, stage, gates[name])
            return stage, (await asyncio.wait_for(run.result(), 90)).text

        texts = dict(await asyncio.gather(*(end(name, run) for name, run in runs.items())))
        failed = {name: causes for name, run in runs.items() if (causes := await failed_tasks_of(run))}
        return {
            "sent": dict(tally),
            "ended": texts,
            "failed_workflow_tasks": failed,
            "executed_more_than_once": [name for name, count in executed.items() if count > 1],
            "raw_starts": starts,
        }


async def raw_starts(
    plain: TemporalClient, client: Client, chance: random.Random, count: int
) -> dict[str, int]:
    """Start `count` runs by the Temporal client with garbage as arguments and memo, and count how they end."""
    ends = Counter[str]()
    for _ in range(count):
        run_id = f"raw-{uuid.uuid4().hex[:12]}"
        with contextlib.suppress(RPCError, RuntimeError):
            handle = await plain.start_workflow(
                "AgentRun",
                args=[garbage(chance) for _ in range(chance.choice((1, 1, 0, 2)))],
                id=run_id,
                task_queue=client.task_queue,
                memo={"m": garbage(chance)},
            )
            try:
                await asyncio.wait_for(client.get_run(run_id).result(), 60)
            except RunError as error:
                ends[getattr(error, "code", None) or type(error).__name__] += 1
            causes = await failed_tasks_of(Run(client, handle.id))
            ends["failed workflow tasks"] += len(causes)
    return dict(ends)


def judge(report: dict[str, Any]) -> None:
    """Assert that every run ended with its own text, no call was executed twice, and no workflow task failed."""
    assert report["ended"] == {stage: f"{stage} done" for stage in STAGES}
    assert report["failed_workflow_tasks"] == {}
    assert report["executed_more_than_once"] == []
    assert set(report["raw_starts"]) <= {"InvalidInput", "failed workflow tasks"}
    assert report["raw_starts"].get("failed workflow tasks", 0) == 0


@contextlib.asynccontextmanager
async def server() -> AsyncIterator[str]:
    """A development server, which ends at the exit."""
    from sojourn.server import Server

    with tempfile.TemporaryDirectory() as folder:
        made = Server(db_filename=Path(folder) / "t.db", port=0, ui=False, attach=False)
        await made.start()
        try:
            yield made.address
        finally:
            await made.stop()


async def main(messages: int, seed: int) -> None:
    """Run two campaigns, with half of the messages each: one on plain runs, one on encrypted runs."""
    async with server() as address:
        for encrypted in (False, True):
            began = time.monotonic()
            report = await campaign(address, messages=messages // 2, seed=seed, encrypted=encrypted)
            print(
                json.dumps(
                    {"encrypted": encrypted, "seconds": round(time.monotonic() - began, 1), **report},
                    indent=2,
                )
            )
            judge(report)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    asyncio.run(main(given.messages, given.seed))
