"""`python -m bench.events`: how soon subscribers receive the events of a run, and whether they add to its history."""

import argparse
import asyncio
import statistics
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from bench import load
from bench.agents import echo, tools
from sojourn import Agent, App, Client, PlanResult, Run, Turn, Worker
from sojourn.server import Server

__all__: list[str] = []


async def plan(turn: Turn) -> PlanResult:
    """Make as many calls as the first message says, one after the other."""
    made = sum(message.role == "tool" for message in turn.messages)
    if made < int(turn.messages[0].text):
        return PlanResult.calls(echo.call(text=load.argument(made)))
    return PlanResult.final("done")


app = App(agents=[Agent("bench.talker", planner=plan, uses=[tools])])


async def lags(run: Run) -> list[float]:
    """Milliseconds from each event's own time until this subscriber receives it."""
    return [
        (datetime.now(UTC) - event.time).total_seconds() * 1000
        async for event in run.events()
        if event.event_id
    ]


async def main(options: argparse.Namespace) -> None:
    """Measure with each number of subscribers in turn, and print a table."""
    table = Table(title=f"runs of {options.calls} calls")
    for name in ("subscribers", "p50 ms", "p95 ms", "events", "history events"):
        table.add_column(name, justify="right")
    async with Server(attach=False, port=0, ui=False) as server:
        client = await Client.connect(server.address)
        async with Worker(app, client):
            for subscribers in (1, 1, *options.subscribers):
                run = await client.start("bench.talker", str(options.calls))
                seen = await asyncio.gather(*(lags(run) for _ in range(subscribers)))
                flat = sorted(lag for each in seen for lag in each)
                history = await client.temporal.get_workflow_handle(run.id).fetch_history()
                table.add_row(
                    str(subscribers),
                    f"{statistics.median(flat):.1f}",
                    f"{flat[int(0.95 * len(flat))]:.1f}",
                    str(len(seen[0])),
                    str(len(history.events)),
                )
    Console().print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.events")
    parser.add_argument("--calls", type=int, default=20, help="calls of each run")
    parser.add_argument("--subscribers", type=int, nargs="+", default=[10, 50])
    asyncio.run(main(parser.parse_args()))
