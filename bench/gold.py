"""Check that killed workers change nothing (`python -m bench.gold agentdojo`).

A suite's authors wrote down the calls of each task. This benchmark makes them twice: once directly, one after the other on the suite's own code, and
once as a durable run on a real server by `sojourn worker`. It kills the worker with SIGKILL at every 20th call: in turn before the call takes
effect, after that but before the worker has the answer, and after the answer.

Both must leave the same environment, and each call must have taken effect once.
"""

import argparse
import asyncio
import itertools
import sys
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import get_args

from bench import agentdojo_tools
from bench.agentdojo_tools import Case
from bench.scripted import ScriptedAgent, ScriptedApp
from bench.world import Moment, Scene, scene
from sojourn import RunFailed

__all__ = ["Kills", "app_of", "faults_of"]

SUITES = {"agentdojo": agentdojo_tools}
"""Modules with `cases` and `tools_of`."""


def app_of(case_tools: dict[str, list[agentdojo_tools.ScriptedTool]]) -> ScriptedApp:
    """Return an app with an agent for each suite, whose calls all run unasked."""
    return ScriptedApp(
        name="bench-gold",
        toolsets={f"gold.{name}": tools for name, tools in case_tools.items()},
        agents={
            f"gold.{name}": ScriptedAgent(toolset=f"gold.{name}", approval={"asks_for": "nothing"})
            for name in case_tools
        },
    )


class Kills:
    """The moments of the kills: one at every so many requests, of each kind in turn."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._moments = itertools.cycle(get_args(Moment))
        self.counts: Counter[Moment] = Counter()

    def at(self, number: int) -> Moment | None:
        """Return when to kill the worker of a request."""
        if number % self._every:
            return None
        moment = next(self._moments)
        self.counts[moment] += 1
        return moment


async def play(scene: Scene, case: Case, since: datetime) -> list[str]:
    """Run one case, and return what is wrong with what it left."""
    run_id = f"{case.id}-{uuid.uuid4().hex[:8]}"
    scene.world.open(run_id, case.environment)
    run = await scene.client.start(
        f"gold.{case.suite}", case.script.model_dump_json(), run_id=run_id, wait_for_worker=True
    )
    try:
        await run.result()
    except RunFailed as failed:
        return [f"the run failed: {failed}"]
    return faults_of(case, [each.tool_call_id for each in scene.world.executed_by(run_id)], since)


def faults_of(case: Case, executed: Sequence[str], since: datetime) -> list[str]:
    """Compare what a run left with what the same calls leave on the suite's own code."""
    bare = case.environment.copy()
    for call in case.script.calls:
        bare.call(call.tool, dict(call.arguments))
    faults: list[str] = []
    if case.environment.dump(since) != bare.dump(since):
        faults.append("the environment differs")
    if executed != [call.id for call in case.script.calls]:
        faults.append(f"took effect: {', '.join(executed)}")
    if not case.is_solved:
        faults.append("the suite does not find the task solved")
    return faults


async def measure(every: int, at_once: int, chosen: Sequence[Case], app: ScriptedApp) -> int:
    """Run the cases, print the figures, and return how many went wrong."""
    kills, slots, began = Kills(every), asyncio.Semaphore(at_once), time.perf_counter()
    since = datetime.now()  # noqa: DTZ005 - as the suites' own code does

    async def one(case: Case) -> bool:
        async with slots, asyncio.timeout(timedelta(minutes=10).total_seconds()):
            faults = await play(acted, case, since)
        for fault in faults:
            print(f"{case.id}: {fault}", file=sys.stderr, flush=True)
        return bool(faults)

    async with scene(app) as acted:
        acted.world.kills = kills.at
        wrong = sum(await asyncio.gather(*(one(case) for case in chosen)))
        world = acted.world
    print(
        f"{len(chosen)} tasks, {len(world.executed)} calls, {time.perf_counter() - began:.0f} s: "
        f"{len(chosen) - wrong} left the environment that the bare calls leave\n"
        f"{kills.counts.total()} workers killed: "
        + ", ".join(f"{count} {moment}" for moment, count in kills.counts.items())
        + f"\n{world.arrived} requests, of which {world.repeated} came again with a key that had taken effect"
    )
    return wrong


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.gold")
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--every", type=int, default=20, help="calls from one kill of the worker to the next")
    parser.add_argument("--at-once", type=int, default=8, help="most runs at once")
    parser.add_argument("--tasks", type=int, help="only the first tasks")
    options = parser.parse_args()
    suite = SUITES[options.suite]
    chosen = list(suite.cases())[: options.tasks]
    sys.exit(asyncio.run(measure(options.every, options.at_once, chosen, app_of(suite.tools_of([])))) > 0)


if __name__ == "__main__":
    main()
