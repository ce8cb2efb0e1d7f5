"""`python -m bench.idle`: what 1,000 idle conversations cost one worker, while it has them in memory and once it has evicted them.

Each size of the worker's cache has a server and a worker process of its own. With the small cache nearly all conversations are
out of memory, and replay brings those back that get a message.
"""

import argparse
import asyncio
import random
import statistics
import time
from dataclasses import dataclass

from bench import load
from bench.agents import echo, tools
from bench.waiting import is_well, print_figures, serve, some_at_once, worker_of
from sojourn import Agent, App, Client, PlanResult, Session, Turn
from sojourn.server import Server
from sojourn.worker import MAX_CACHED_RUNS

__all__: list[str] = []

CACHES = (MAX_CACHED_RUNS, 20)
WARM = 20
"""Conversations before the measurement, so that it has no cost of the first ones; they are closed."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures of one measurement: idle conversations at one worker."""

    sessions: int
    """Conversations that are idle at once."""
    cache: int
    """Runs that the worker may keep in memory."""
    before: float
    """Resident memory in MB with no open conversation, after `WARM` of them."""
    idle: float
    """Resident memory in MB while all conversations are idle."""
    each: float
    """KB of it for each conversation."""
    later: float
    """KB for each of the second half of the conversations."""
    unused: float
    """CPU seconds that the worker used in `--seconds` with no open conversation."""
    used: float
    """CPU seconds that the worker used in `--seconds` while all conversations were idle."""
    talking: float
    """Milliseconds of the worker's CPU for each conversation's turns until then."""
    answered: int
    """How many of the conversations that got a message then answered it, and have no failed workflow task."""
    latency: float
    """Milliseconds from that message to its answer, the median; one at a time."""
    evicted: int
    """Number of times that the worker evicted a run from its cache to make room."""


async def plan(turn: Turn) -> PlanResult:
    """Call once, then answer with the number of messages so far."""
    if not turn.results:
        return PlanResult.calls(echo.call(text=load.argument(0)))
    return PlanResult.final(str(sum(message.role == "user" for message in turn.messages)))


app = App(agents=[Agent("bench.clerk", planner=plan, uses=[tools])])


async def talked(session: Session, turns: int) -> str:
    """Send messages one after the other, and return the last answer."""
    text = ""
    for _ in range(turns):
        text = (await (await session.send(load.argument(0))).result()).text
    return text


async def warm(client: Client, turns: int) -> None:
    """Hold conversations, and close them."""
    sessions = [client.session("bench.clerk", f"warm-{number}") for number in range(WARM)]
    await some_at_once(talked(session, turns) for session in sessions)
    for session in sessions:
        await session.close()
        await session.run.result()


async def measure(sessions: int, turns: int, seconds: float, cache: int, asked: int) -> Sample:
    """The figures of `sessions` conversations of `turns` turns each, `asked` of which then get a message."""
    async with (
        Server(attach=False, port=0, ui=False) as server,
        worker_of(server.address, cache, "bench.idle") as worker,
    ):
        client = await Client.connect(server.address)
        await warm(client, turns)
        unused, before, cpu = await worker.watched(seconds), worker.memory, worker.cpu

        crowd = [client.session("bench.clerk", f"desk-{number}") for number in range(sessions)]
        half = sessions // 2
        await some_at_once(talked(session, turns) for session in crowd[:half])
        middle = worker.memory
        await some_at_once(talked(session, turns) for session in crowd[half:])
        talking = worker.cpu - cpu
        used, idle = await worker.watched(seconds), worker.memory

        chosen, answered, latencies = random.Random(1).sample(crowd, asked), 0, list[float]()
        for session in chosen:
            began = time.perf_counter()
            text = await talked(session, 1)
            latencies.append(1000 * (time.perf_counter() - began))
            answered += text == str(turns + 1) and await is_well(session.run)
        return Sample(
            sessions=sessions,
            cache=cache,
            before=before,
            idle=idle,
            each=1000 * (idle - before) / sessions,
            later=1000 * (idle - middle) / (sessions - half),
            unused=unused,
            used=used,
            talking=1000 * talking / sessions,
            answered=answered,
            latency=statistics.median(latencies),
            evicted=await worker.evictions(),
        )


async def main(options: argparse.Namespace) -> None:
    """Measure with each size of the cache in turn, and print a table."""
    await print_figures(
        f"idle conversations of {options.turns} turns, watched for {options.seconds:g} s",
        [
            measure(options.sessions, options.turns, options.seconds, cache, options.asked)
            for cache in options.caches
        ],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.idle")
    parser.add_argument("--sessions", type=int, default=1_000)
    parser.add_argument("--turns", type=int, default=2, help="turns of each conversation before it is idle")
    parser.add_argument(
        "--seconds", type=float, default=30, help="seconds for which the worker's CPU is measured"
    )
    parser.add_argument("--asked", type=int, default=20, help="conversations that then get a message")
    parser.add_argument("--caches", type=int, nargs="+", default=CACHES)
    parser.add_argument("--serve", metavar="ADDRESS", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    asyncio.run(serve(chosen.serve, chosen.caches[0], app) if chosen.serve else main(chosen))
