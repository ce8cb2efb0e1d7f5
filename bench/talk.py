"""`python -m bench.talk`: how soon a message of a conversation reaches its planner, and its answer the sender.

Beside it, in turn on one server, a bare workflow that starts and executes one activity. The workers are in this process. The answer is asked for
only once the planner was entered, so that reading events takes no time from what is measured before.
"""

import argparse
import asyncio
import statistics
import time
import uuid
from collections.abc import Sequence
from contextlib import AsyncExitStack

import temporalio.client
from rich.console import Console
from rich.table import Table
from temporalio import activity, workflow
from temporalio.service import GrpcCompression

from bench.floor import TIMEOUT, tuned
from sojourn import Agent, App, Client, PlanResult, Session, Turn, Worker
from sojourn.server import Server

__all__: list[str] = []


entered = asyncio.Queue[float]()
"""The moments at which planners and activities were entered."""


async def plan(_turn: Turn) -> PlanResult:
    """Answer at once."""
    entered.put_nowait(time.perf_counter())
    return PlanResult.final("done")


app = App(agents=[Agent("bench.talker", planner=plan)])


@activity.defn
async def work() -> str:
    """Answer at once."""
    entered.put_nowait(time.perf_counter())
    return "done"


@workflow.defn(sandboxed=False)
class FloorTurn:
    """A workflow with one activity."""

    @workflow.run
    async def run(self) -> str:
        """Execute it."""
        return await workflow.execute_activity(work, start_to_close_timeout=TIMEOUT)


Lags = dict[str, list[float]]
"""Milliseconds, by what was measured."""


async def floor_once(client: temporalio.client.Client, lags: Lags) -> None:
    """Measure one bare workflow."""
    began = time.perf_counter()
    handle = await client.start_workflow(FloorTurn.run, id=f"floor-{uuid.uuid4().hex}", task_queue="floor")
    returned = time.perf_counter()
    at = await entered.get()
    asked = time.perf_counter()
    await handle.result()
    _note(lags, "start of a bare workflow", began, returned, at, asked)


async def message(session: Session, lags: Lags, name: str) -> None:
    """Measure one message."""
    began = time.perf_counter()
    turn = await session.send("hello")
    returned = time.perf_counter()
    at = await entered.get()
    asked = time.perf_counter()
    await turn.result()
    _note(lags, name, began, returned, at, asked)


def _note(lags: Lags, name: str, began: float, returned: float, at: float, asked: float) -> None:
    now = time.perf_counter()
    for what, lag in (("accepted", returned - began), ("planned", at - began), ("answered", now - asked)):
        lags.setdefault(f"{name}: {what}", []).append(1000 * lag)


async def talks(client: Client, floor: temporalio.client.Client, rounds: int) -> Lags:
    """Measure the first two messages of conversations, and bare workflows, in turn."""
    lags = Lags()
    for number in range(rounds):
        session = client.session("bench.talker", uuid.uuid4().hex)
        if number % 2:
            await floor_once(floor, lags)
        await message(session, lags, "first message")
        await message(session, lags, "second message")
        if not number % 2:
            await floor_once(floor, lags)
    return lags


async def long_talk(client: Client, turns: Sequence[int]) -> Lags:
    """Measure how soon an answer comes late in a conversation, the median of ten turns."""
    lags, session = Lags(), client.session("bench.talker", uuid.uuid4().hex)
    for number in range(1, max(turns) + 1):
        near = [turn for turn in turns if turn - 10 < number <= turn]
        await message(session, lags, f"turn {near[0]}" if near else "other")
    return {name: each for name, each in lags.items() if not name.startswith("other")}


async def main(options: argparse.Namespace) -> None:
    """Measure, and print a table."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(Server(attach=False, port=0, ui=False))
        client = await Client.connect(server.address, task_queue="talk")
        bare = await temporalio.client.Client.connect(server.address, grpc_compression=GrpcCompression.NONE)
        await stack.enter_async_context(Worker(app, client))
        await stack.enter_async_context(tuned(bare, "floor", [FloorTurn], [work]))
        await talks(client, bare, 10)
        lags = await talks(client, bare, options.rounds) | await long_talk(client, options.turns)
    table = Table(title="milliseconds")
    for name in ("", "median", "p90"):
        table.add_column(name, justify="right" if name else "left")
    for name, each in lags.items():
        table.add_row(name, f"{statistics.median(each):.1f}", f"{sorted(each)[int(0.9 * len(each))]:.1f}")
    Console().print(table)
    floor, ours = (lags[f"{name}: planned"] for name in ("start of a bare workflow", "second message"))
    print(
        f"second message to its planner, over the bare start: {statistics.median(ours) / statistics.median(floor):.2f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.talk")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument(
        "--turns", type=int, nargs="+", default=[30, 150], help="turns whose answers are timed"
    )
    asyncio.run(main(parser.parse_args()))
