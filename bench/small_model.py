"""`make bench-small-model`: two real, weak models meet the tool boundary, with hints and with plain errors.

Forty requests go to a desk with six tools (`bench/small_model_desk.py`), each in a run of its own on a real worker and server. A run is
an agent with `ModelPlanner`, which calls the model at its own endpoint (`bench/small_model_endpoint.py`). The arms
differ as those of `bench.repair`: in `plain` the model reads the usual text of a refusal, and the planner gets no hints.

What counts is what the product did: no run fails, no workflow task fails, and no call is executed with a value that the model
has from an example. How many calls fit in the end says how well two very weak models repair, and no more.
"""

import argparse
import asyncio
import json
import os
import re
import socket
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.table import Table
from temporalio.api.enums.v1 import EventType

from bench.repair import ARMS, plain_text
from bench.small_model_desk import REQUESTS, toolsets
from sojourn import (
    Agent,
    App,
    Client,
    Message,
    PlanInput,
    PlanResult,
    PlanResumeInput,
    Run,
    RunFailed,
    RunPolicy,
    ToolResult,
    Worker,
)
from sojourn.models import ModelPlanner
from sojourn.process.program import Program
from sojourn.server import Server

__all__ = ["Outcome", "app_of", "from_examples", "outcome_of"]

MODELS = ("needle", "smollm2")

INSTRUCTIONS = "You help the customers of a shop. Call a tool with the values that the person gave."

SETTINGS: Any = {"max_tokens": 160}

POLICY = RunPolicy(max_tool_rounds=4)
"""These models call tools without an end; what the fourth call does not mend, the fifth does not either."""

AFTER = ("at first", "after 1 hint", "after 2 hints", "later", "never", "no call")
"""When a run's first call was executed: after how many refusals."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one request in one arm."""

    arm: str
    request: str
    ended: str
    """The reason of the output, or the code of the run's failure."""
    failed: bool
    """Whether the run failed."""
    failed_tasks: int
    """Failed workflow tasks."""
    valid: str
    """One of `AFTER`."""
    executed: int
    """Executed calls."""
    refused: int
    """Refused calls."""
    copied_by_readers: list[str]
    """Executed calls of tools that only read, with a value that is known only from an example."""
    copied_by_writers: list[str]
    """The same, of tools that change something."""
    seconds: float


class Plain:
    """ModelPlanner without hints: for the planner, and in what the model reads."""

    def __init__(self, model: str) -> None:
        self._model = model

    async def plan_start(self, turn: PlanInput) -> PlanResult:
        """The model's plan."""
        return await self._planner(turn).plan_start(turn)

    async def plan_resume(self, turn: PlanResumeInput) -> PlanResult:
        """The model's plan, without the hints."""
        return await self._planner(turn).plan_resume(turn.model_copy(update={"hints": []}))

    def _planner(self, turn: PlanInput) -> ModelPlanner:
        def text_of(result: ToolResult) -> str:
            return plain_text(turn, result) if result.error else json.dumps(result.result)

        return ModelPlanner(
            self._model, instructions=INSTRUCTIONS, settings=SETTINGS, asks=False, result_text=text_of
        )


def app_of(model: str) -> App:
    """An app with an agent for each arm, which has all six tools."""
    hinted = ModelPlanner(model, instructions=INSTRUCTIONS, settings=SETTINGS, asks=False)
    return App(
        agents=[
            Agent("desk.hints", planner=hinted, uses=toolsets, policy=POLICY),
            Agent("desk.plain", planner=Plain(model), uses=toolsets, policy=POLICY),
        ]
    )


async def asked(client: Client, arm: str, request: str) -> Outcome:
    """Send one request in one arm, and judge its run."""
    began = time.perf_counter()
    run = await client.start(f"desk.{arm}", request, run_id=f"{arm}-{uuid.uuid4().hex[:12]}")
    try:
        ended, failed = (await run.result()).reason, False
    except RunFailed as error:
        ended, failed = error.code or "failed", True
    return outcome_of(
        await run.transcript(),
        arm=arm,
        ended=ended,
        failed=failed,
        failed_tasks=await _failed_tasks(run),
        seconds=time.perf_counter() - began,
    )


async def _failed_tasks(run: Run) -> int:
    history = await run.client.temporal.get_workflow_handle(run.id).fetch_history()
    failed = EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    return sum(event.event_type == failed for event in history.events)


def outcome_of(messages: Sequence[Message], **of_run: Any) -> Outcome:
    """Judge a run by its transcript."""
    request = next(message.text for message in messages if message.role == "user")
    calls = {call.tool_call_id: call for message in messages for call in message.tool_calls}
    results = [result for message in messages for result in message.tool_results]
    refusals = [result for result in results if result.retry_hint and not result.ok]
    executed = [result for result in results if result.ok]
    before = 0 if not executed else results.index(executed[0])
    copied: dict[bool, list[str]] = {True: [], False: []}
    for index, result in enumerate(results):
        if result.ok:
            call = calls[result.tool_call_id]
            payload = json.loads(call.raw) if call.raw else call.payload
            known = [request, *(str(each.result) for each in results[:index] if each.ok)]
            for field in from_examples(result.name, payload, results[:index], known):
                copied[_reads(result.name)].append(f"{result.name} {field}: {json.dumps(payload)}")
    if executed:
        valid = AFTER[min(before, 3)]
    else:
        valid = "never" if results else "no call"
    return Outcome(
        request=request,
        valid=valid,
        executed=len(executed),
        refused=len(refusals),
        copied_by_readers=copied[True],
        copied_by_writers=copied[False],
        **of_run,
    )


NUMBERS: dict[Any, str] = dict(
    enumerate(["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"], start=1)
)
"""Numbers that a request may have as words."""

TOOLS = {str(tool.id): tool for toolset in toolsets for tool in toolset.tools.values()}


def _reads(tool: str) -> bool:
    return TOOLS[tool].spec.annotations.read_only is True


def from_examples(
    tool: str, payload: dict[str, Any], before: Sequence[ToolResult], known: Sequence[str]
) -> list[str]:
    """The fields of an executed call whose values are an example's, and not words of what the model was told.

    Args:
        tool: The tool.
        payload: The executed arguments.
        before: The results before the call, with their hints.
        known: The request, and what executed calls have answered.
    """
    spec = TOOLS[tool].spec
    examples: list[dict[str, Any]] = [spec.payload.example or {}]
    examples += [
        each.retry_hint.example_input or {} for each in before if each.retry_hint and each.name == tool
    ]
    fields = spec.payload.json_schema.get("properties", {})
    words = "\n".join(known).casefold()
    return [
        name
        for name, value in payload.items()
        if "enum" not in fields.get(name, {}) and value != fields.get(name, {}).get("default")
        for each in _leaves(value)
        if any(each in _leaves(example.get(name)) for example in examples) and not _is_said(each, words)
    ]


def _leaves(value: Any) -> Iterator[str | float]:
    for each in value if isinstance(value, list) else [value]:  # pyright: ignore[reportUnknownVariableType]
        if isinstance(each, (str, int, float)):
            yield each


def _is_said(value: str | float, words: str) -> bool:
    text = f"{value:g}" if isinstance(value, (int, float)) else value.casefold()
    said = (text, NUMBERS[value]) if value in NUMBERS else (text,)
    return any(re.search(rf"(?<!\w){re.escape(each)}(?!\w)", words) for each in said)


async def measure(model: str, requests: Sequence[str], timeout: timedelta) -> list[Outcome]:
    """Send every request in both arms, one after the other."""
    async with Server(attach=False, port=0, ui=False) as server:
        client = await Client.connect(server.address)
        async with Worker(app_of(f"vllm:{model}"), client):
            outcomes: list[Outcome] = []
            for request in requests:
                for arm in ARMS:
                    async with asyncio.timeout(timeout.total_seconds()):
                        done = await asked(client, arm, request)
                    outcomes.append(done)
                    print(_line(done), file=sys.stderr, flush=True)
            return outcomes


def _line(done: Outcome) -> str:
    copied = "".join(f"\n  copied: {each}" for each in (*done.copied_by_writers, *done.copied_by_readers))
    return (
        f"{done.arm:6} {done.valid:13} {done.ended:16} {done.executed} executed, {done.refused} refused,"
        f" {done.seconds:5.1f} s  {done.request}{copied}"
    )


def summarise(outcomes: Sequence[Outcome]) -> dict[str, dict[str, int]]:
    """The figures of each arm."""
    summary: dict[str, dict[str, int]] = {}
    for arm in ARMS:
        own = [each for each in outcomes if each.arm == arm]
        valid = Counter(each.valid for each in own)
        summary[arm] = {
            "runs": len(own),
            "failed runs": sum(each.failed for each in own),
            "failed workflow tasks": sum(each.failed_tasks for each in own),
            **{f"first valid call: {when}": valid[when] for when in AFTER},
            "calls refused": sum(each.refused for each in own),
            "calls executed": sum(each.executed for each in own),
            "with a value of an example, by a tool that changes something": sum(
                len(each.copied_by_writers) for each in own
            ),
            "with a value of an example, by a tool that only reads": sum(
                len(each.copied_by_readers) for each in own
            ),
        }
    return summary


def show(model: str, summary: dict[str, dict[str, int]]) -> None:
    """Print the figures as a table."""
    table = Table(model, *ARMS)
    for figure in summary[ARMS[0]]:
        table.add_row(figure, *(str(summary[arm][figure]) for arm in ARMS))
    Console().print(table)


async def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.small_model")
    parser.add_argument("--model", choices=MODELS, action="append", help="a model; both by default")
    parser.add_argument("--every", type=int, default=1, help="2 for every second request, and so on")
    parser.add_argument("--json", help="a file for every outcome")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for model in options.model or MODELS:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        os.environ |= {"VLLM_BASE_URL": f"http://127.0.0.1:{port}/v1"}
        command = [sys.executable, "-m", "bench.small_model_endpoint", model, str(port)]
        endpoint = Program(command)
        try:
            await _until_ready(port, endpoint)
            outcomes = await measure(model, REQUESTS[:: options.every], timedelta(minutes=10))
        finally:
            await endpoint.stop(timedelta(seconds=2))
        show(model, summarise(outcomes))
        found[model] = [asdict(each) for each in outcomes]
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


async def _until_ready(port: int, endpoint: Program) -> None:
    while endpoint.is_running:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return
    raise SystemExit("the endpoint has ended: is the model installed? `make bench-small-model` installs it")


if __name__ == "__main__":
    asyncio.run(main())
