"""`python -m bench.repair --model openai:gpt-5-mini`: how often, how soon and at what cost a model repairs bad calls.

Each task is a real run whose first plan is the task's bad call, and whose later plans, up to four, are the model's.
Each task runs in two arms, which differ only in what the model reads and may call after a refusal. `hints`: the text
of ModelPlanner, and the tools that the hint leaves. `plain`: what is usually returned, such as the first message of
the jsonschema library, and all tools. A task is repaired if the tool was called once, with the right payload.
"""

import argparse
import asyncio
import json
import statistics
import sys
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, cast

from jsonschema import Draft202012Validator, FormatChecker, exceptions
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.repair_reader import copier, reader
from bench.repair_tasks import KINDS, Task, tasks
from bench.repair_tools import RECEIVED, as_received, toolsets
from sojourn import (
    Agent,
    App,
    Client,
    PlanInput,
    PlanResult,
    PlanResumeInput,
    RunFailed,
    RunPolicy,
    ToolRequest,
    ToolResult,
    Worker,
)
from sojourn.models import ModelPlanner
from sojourn.server import Server

__all__ = ["ARMS", "Attempt", "app_of", "attempt", "plain_text"]

ARMS = ("hints", "plain")

MAX_TURNS = 4

INSTRUCTIONS = (
    "Do what is asked with one call of the tool that fits. When a call is refused, correct it and call again."
)


@dataclass(frozen=True, slots=True)
class Attempt:
    """The outcome of one task in one arm."""

    task: str
    kind: str
    arm: str
    repaired: bool
    """Whether the tool was called once, with the right payload."""
    turns: int
    """Plans with calls that the model made; 0 if the run failed."""
    input_tokens: int | None
    """None if the run failed, as `output_tokens`."""
    output_tokens: int | None
    ended: str
    """`right`; `wrong` if a tool was called otherwise; `refused` if no call was accepted; or the code of the run's failure."""


class Seeded:
    """A planner that makes a task's bad call, and leaves the later plans to a model.

    Args:
        model: The model that repairs the call.
        arm: One of `ARMS`.
        known: The tasks, by id.
    """

    def __init__(self, model: Model, arm: str, known: dict[str, Task]) -> None:
        self._model = model
        self._hinted = ModelPlanner(model, instructions=INSTRUCTIONS) if arm == "hints" else None
        self._known = known

    async def plan_start(self, turn: PlanInput) -> PlanResult:
        """The task's bad call."""
        task = self._known[turn.run.labels["task"]]
        return PlanResult.calls(ToolRequest(name=task.called, payload=task.sent or {}, raw=task.raw))

    async def plan_resume(self, turn: PlanResumeInput) -> PlanResult:
        """The model's plan; an answer once a tool was executed or the turns are used up."""
        turns = sum(message.role == "assistant" for message in turn.messages) - 1
        if any(result.ok for result in turn.tool_results) or turns >= MAX_TURNS or turn.finalize:
            return PlanResult.final("done")
        if self._hinted:
            return await self._hinted.plan_resume(turn)
        # ModelPlanner would withhold tools by the hints, and remind the model of them.
        bare = turn.model_copy(update={"hints": []})
        text_of = partial(plain_text, turn)
        return await ModelPlanner(self._model, instructions=INSTRUCTIONS, result_text=text_of).plan_resume(
            bare
        )


def plain_text(turn: PlanInput, result: ToolResult) -> str:
    """The usual text for a refused call: `unknown tool`, the JSON parser's message, or that of `jsonschema.validate`."""
    call = next(
        call
        for message in turn.messages
        for call in message.tool_calls
        if call.tool_call_id == result.tool_call_id
    )
    spec = next((spec for spec in turn.tools if spec.id == call.name), None)
    if spec is None:
        return f"unknown tool: {call.name}"
    try:
        payload = call.payload if call.raw is None else json.loads(call.raw)
    except ValueError as error:
        return str(error)
    validator = Draft202012Validator(spec.payload.json_schema, format_checker=FormatChecker())
    typeless = cast("Any", exceptions)
    fault: Any = typeless.best_match(
        cast("Any", validator).iter_errors(payload)
    )  # as `jsonschema.validate` does
    return str(fault.message) if fault else str(result.error)


def app_of(model: Model, chosen: Sequence[Task]) -> App:
    """An app with an agent for each arm, which has all six tools."""
    known = {task.id: task for task in chosen}
    policy = RunPolicy(max_consecutive_failed_tool_calls=None)
    return App(
        agents=[
            Agent(f"repair.{arm}", planner=Seeded(model, arm, known), uses=toolsets, policy=policy)
            for arm in ARMS
        ]
    )


async def attempt(client: Client, task: Task, arm: str) -> Attempt:
    """Run one task in one arm, on a worker of this process."""
    run_id = f"{arm}-{uuid.uuid4().hex[:12]}"
    run = await client.start(f"repair.{arm}", task.wanted, run_id=run_id, labels={"task": task.id})
    ended, turns, used = "", 0, None
    try:
        outcome = await run.result()
        turns, used = outcome.rounds - 1, outcome.usage
    except RunFailed as failed:
        ended = failed.code or "failed"
    got = RECEIVED.pop(run_id, [])
    repaired = not ended and got == [as_received(task.tool, task.right)]
    return Attempt(
        task=task.id,
        kind=task.kind,
        arm=arm,
        repaired=repaired,
        turns=turns,
        input_tokens=used.input_tokens if used else None,
        output_tokens=used.output_tokens if used else None,
        ended=ended or ("right" if repaired else "wrong" if got else "refused"),
    )


async def measure(model: Model, chosen: Sequence[Task], concurrency: int) -> list[Attempt]:
    """Run every task in both arms, at most `concurrency` runs at once."""
    slots = asyncio.Semaphore(concurrency)
    async with Server(attach=False, port=0, ui=False) as server:
        client = await Client.connect(server.address)

        async def one(task: Task, arm: str) -> Attempt:
            async with slots:
                done = await attempt(client, task, arm)
            print(
                f"{done.arm:6} {done.task:42} {done.ended:8} {done.turns} turns", file=sys.stderr, flush=True
            )
            return done

        async with Worker(app_of(model, chosen), client):
            return await asyncio.gather(*(one(task, arm) for task in chosen for arm in ARMS))


def summarise(attempts: Sequence[Attempt]) -> dict[str, Any]:
    """The figures of each arm; rates are fractions of 1."""
    summary: dict[str, Any] = {}
    for arm in ARMS:
        own = [each for each in attempts if each.arm == arm]
        good = [each for each in own if each.repaired]
        summary[arm] = {
            "tasks": len(own),
            "repaired": len(good) / len(own),
            "repaired_in_first_turn": sum(each.turns == 1 for each in good) / len(own),
            "turns_until_repaired": statistics.mean(each.turns for each in good) if good else None,
            "input_tokens_a_task": _mean(each.input_tokens for each in own),
            "output_tokens_a_task": _mean(each.output_tokens for each in own),
            "ended": dict(Counter(each.ended for each in own).most_common()),
            "failed_by_kind": {
                kind: sum(each.kind == kind and not each.repaired for each in own) for kind in KINDS
            },
            "first_turn_by_kind": {
                kind: sum(each.kind == kind and each.repaired and each.turns == 1 for each in own)
                for kind in KINDS
            },
            "tasks_by_kind": {kind: sum(each.kind == kind for each in own) for kind in KINDS},
        }
    return summary


def _mean(counts: Iterable[int | None]) -> float | None:
    """The mean of the known counts: a failed run has none."""
    known = [count for count in counts if count is not None]
    return statistics.mean(known) if known else None


def show(model: str, summary: dict[str, Any]) -> None:
    """Print two tables: the figures, and the kinds of faults."""
    figures = Table("figure", *ARMS, title=Text(f"repair by {model}"))
    for figure, first in summary[ARMS[0]].items():
        if not isinstance(first, dict):
            values = [summary[arm][figure] for arm in ARMS]
            shown = ["" if value is None else f"{value:.3g}" for value in values]
            figures.add_row(figure.replace("_", " "), *shown)
    ends = [", ".join(f"{end} {n}" for end, n in summary[arm]["ended"].items()) for arm in ARMS]
    figures.add_row("ended", *map(Text, ends))
    kinds = Table("fault", "tasks", *(f"{arm}: first turn, not at all" for arm in ARMS))
    for kind, title in KINDS.items():
        count = summary[ARMS[0]]["tasks_by_kind"][kind]
        cells = [
            f"{summary[arm]['first_turn_by_kind'][kind]}, {summary[arm]['failed_by_kind'][kind]}"
            for arm in ARMS
        ]
        kinds.add_row(title, str(count), *cells)
    for table in (figures, kinds):
        Console().print(table)


def _model(name: str, chosen: Sequence[Task]) -> Model:
    if name == "copier":
        return copier()
    return reader(chosen) if name == "standin" else infer_model(name)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.repair")
    parser.add_argument(
        "--model", default="standin", help="such as openai:gpt-5-mini, or copier; by default the stand-in"
    )
    parser.add_argument("--tasks", type=int, default=60, help="the number of tasks")
    parser.add_argument("--concurrency", type=int, default=4, help="most runs at once")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    options = parser.parse_args()
    chosen = tasks(options.tasks)
    try:
        model = _model(options.model, chosen)
    except UserError as error:  # no key, or no such model
        parser.error(str(error))
    attempts = asyncio.run(measure(model, chosen, options.concurrency))
    summary = summarise(attempts)
    if options.json:
        everything = {"model": options.model, "summary": summary, "attempts": [asdict(a) for a in attempts]}
        print(json.dumps(everything, indent=1))
    else:
        show(options.model, summary)


if __name__ == "__main__":
    main()
