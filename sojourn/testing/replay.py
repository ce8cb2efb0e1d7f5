"""Test an app as it is now by the plans of a recorded history."""

import contextlib
import dataclasses
import difflib
import json
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, zip_longest
from os import PathLike
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter, PayloadCodec
from temporalio.testing import ActivityEnvironment
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from sojourn.authoring.app import App
from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.message import Message
from sojourn.contracts.tasks import PlanOutcome, PlanTask
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.wire_names import PLAN
from sojourn.converter.data_converter import data_converter
from sojourn.core.history.fold import Fold
from sojourn.core.history.transcript import TranscriptProjection
from sojourn.core.run.continuation import Continuation
from sojourn.core.run.transcript import Packed
from sojourn.events.history import HistoryReader
from sojourn.events.one_run import histories_in
from sojourn.worker import shell

__all__ = ["RecordedPlan", "RecordedTranscript", "difference", "read_plans", "replays"]


@dataclass(frozen=True, slots=True)
class RecordedPlan:
    task: PlanTask
    """The input, with the whole memory."""
    outcome: PlanOutcome
    messages: list[Message]
    results: Mapping[str, ToolResult]
    """The results of the whole run's calls, by `tool_call_id`."""


class RecordedTranscript:
    """Stands for a worker's cache of transcripts: it knows the transcript of one plan."""

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages

    async def read(self, key: tuple[str, str], task: PlanTask) -> list[Message]:
        del key, task
        return self._messages

    def keep(self, *_args: object, **_options: object) -> None: ...

    def drop(self, key: tuple[str, str]) -> None: ...


async def read_plans(histories: Sequence[WorkflowHistory], converter: DataConverter) -> list[RecordedPlan]:
    """Return a run's plans in order, without failed and interrupted ones.

    Raises:
        ValueError: A history cannot be decoded, or its transcript is not in the histories.
    """
    run_id = histories[0].workflow_id
    reader, fold = HistoryReader(converter), Fold(run_id)
    transcript = TranscriptProjection(fold)
    given: dict[int, tuple[PlanTask, list[Message]]] = {}
    plans, results = list[RecordedPlan](), dict[str, ToolResult]()
    for event in chain.from_iterable(history.events for history in histories):
        record = await reader.record(event)
        if unreadable := reader.unreadable or reader.opening_unreadable:
            raise ValueError(f"the history of {run_id} cannot be decoded: {unreadable}")
        if record is None:
            continue
        if isinstance(record.value, Continuation):
            stored = Packed.unpacked(record.value.transcript).stored_count
            if stored > len(transcript.messages):
                raise ValueError(
                    f"the beginning of the transcript of {run_id} is in external storage, and the execution that has it was "
                    "deleted; replay its workflow alone, with plans=False"
                )
            transcript.stored = transcript.messages[:stored]
        memory = dict(fold.state.memory)
        made = fold.feed(record)
        transcript.feed(record, made)
        results |= {each.tool_call_id: each.result for each in made if each.type == "tool_end"}
        if fold.is_beside_step:
            continue
        if isinstance(record.value, PlanTask):
            given[record.id] = (_knowing(record.value, memory), transcript.last_planner_input())
        elif isinstance(record.value, PlanOutcome) and not record.value.overtime:
            local = record.value.task
            task, messages = (
                (_knowing(local, memory), transcript.last_planner_input()) if local else given[record.of]
            )
            plans.append(RecordedPlan(task, record.value, messages, results))
    return plans


def _knowing(task: PlanTask, memory: dict[str, Any]) -> PlanTask:
    """Return the input of a plan with the memory of its run, which it cannot query."""
    return task.model_copy(update={"memory": memory, "asks_memory": False})


_SAME = {"final", "await_", "asked_by_policy", "external", "wait_", "wait_counts", "failure"}
_ALSO = {"decision", "notes", "refused", "result"}


def difference(recorded: PlanOutcome, present: PlanOutcome) -> str:
    """Return the diff of two decisions, without ids of calls, tokens and cost."""
    return "\n".join(
        difflib.unified_diff(_lines(recorded), _lines(present), "recorded", "now", n=30, lineterm="")
    )


def _lines(outcome: PlanOutcome) -> list[str]:
    decided: dict[str, Any] = outcome.model_dump(
        mode="json",
        include=_SAME | _ALSO,
        exclude={"await_": {"id", "tool_call_id", "closed", "checks_in_full"}, "external": {"id"}},
        exclude_defaults=True,
    )
    if outcome.await_ and outcome.await_.tools:
        decided["await"].pop("form", None)  # made from the tool's schema
    if outcome.fault:
        decided["fault"] = (
            outcome.fault_code or "the plan is refused"
        )  # the reason is in this library's own words
    if outcome.calls:
        decided["calls"] = [_call(*pair) for pair in zip_longest(outcome.calls, outcome.dispatches)]
    if outcome.message and outcome.message.text:
        decided["text"] = outcome.message.text
    return json.dumps(decided, indent=2, ensure_ascii=False, sort_keys=True).splitlines()


def _arguments_of(call: ToolRequest) -> Any:
    """Return the arguments as the planner wrote them, which alone it decides."""
    text = call.raw if call.written is None else call.written
    if text is None:
        return call.payload
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _call(call: ToolRequest, dispatch: Dispatch | None) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "tool": str(call.name),
        "payload": _arguments_of(call),
    }
    if dispatch and dispatch.confirm:
        shown["asks"] = dispatch.confirm.prompt or dispatch.confirm.title
    if dispatch and dispatch.result and dispatch.result.error:
        shown["answered"] = dispatch.result.error.code
    return shown


async def replays(
    path: str | PathLike[str], app: App, *, plans: bool = True, codec: PayloadCodec | None = None
) -> None:
    """Assert that an app decides in recorded runs as it decided then.

    Temporal's `Replayer` runs the workflow on each history. Then each planner gets every turn again that it
    got then, and its decision is compared with the recorded one. Policy engines and interceptors run too,
    tools do not. Each call that was accepted then has to fit its tool's schema now. Plans that failed then,
    or that the time budget cut off, are not made again.

    A `ModelPlanner` sends no request: give its planner another model with `use_model`, such as the recorded
    exchanges of the run, or pass `plans=False`.

    Args:
        path: A history that `sojourn export RUN --history FILE` wrote, or a folder, for each `*.json` in it.
        app: The app, as it is served.
        plans: Whether the plans are made again; without it only the workflow is replayed.
        codec: Decrypts the payloads of an encrypted history, as for `Client.connect`.

    Raises:
        AssertionError: A history does not replay, or the first difference: the plan, recorded and now.
        FileNotFoundError: There is no such file, or no history in the folder.
        TypeError: `app` is no App.
        ValueError: A file is not a history, or it cannot be decoded, or the beginning of its run's transcript is in
            external storage.
    """
    __tracebackhide__ = True  # pytest shows the difference, not how it was found
    if not isinstance(app, App):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's mistake
        raise TypeError(f"replays takes an App, such as the one that is served, not {app!r:.80}")
    converter = dataclasses.replace(data_converter, payload_codec=codec)
    replayer = Replayer(
        workflows=list(shell(app).workflows),
        workflow_runner=UnsandboxedWorkflowRunner(),
        data_converter=converter,
    )
    async with _open(app) if plans else contextlib.nullcontext():
        for file in _files(Path(path)):
            histories = _read(file)
            for history in histories:
                replayed = await replayer.replay_workflow(history, raise_on_replay_failure=False)
                if replayed.replay_failure:
                    raise AssertionError(f"{file} does not replay: {replayed.replay_failure}")
            for plan in await read_plans(histories, converter) if plans else ():
                await _compare(file, app, histories[-1], plan)


def _files(path: Path) -> Sequence[Path]:
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise FileNotFoundError(f"{path} has no history; write one with: sojourn export RUN --history FILE")
    return files


def _read(file: Path) -> list[WorkflowHistory]:
    try:
        return histories_in(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(
            f"{file} is not a history ({error}); write one with: sojourn export RUN --history FILE"
        ) from None


@contextlib.asynccontextmanager
async def _open(app: App) -> AsyncGenerator[None]:
    with contextlib.ExitStack() as stack:
        if models := sys.modules.get("pydantic_ai.models"):
            stack.enter_context(models.override_allow_model_requests(allow_model_requests=False))
        try:
            await app.open()
            yield
        finally:
            await app.close()


async def _compare(file: Path, app: App, history: WorkflowHistory, plan: RecordedPlan) -> None:
    __tracebackhide__ = True
    where = f"{file}: plan {plan.task.plan} of {history.workflow_id}"
    try:
        present = await _plan_again(app, history, plan)
    except Exception as error:
        raise AssertionError(
            f"{where} fails now, and did not then: {type(error).__name__}: {error}"
        ) from error
    if changed := difference(plan.outcome, present):
        raise AssertionError(f"{where} is another one now\n{changed}")
    for call in plan.outcome.calls[: len(plan.outcome.dispatches)]:
        if why := _find_refusal(app, plan, call):
            payload = json.dumps(call.payload, ensure_ascii=False) if call.raw is None else call.raw
            raise AssertionError(
                f"{where}: its call {call.tool_call_id} is refused now\n{call.name} {payload}\n{why}"
            )


async def _plan_again(app: App, history: WorkflowHistory, plan: RecordedPlan) -> PlanOutcome:
    environment, now = ActivityEnvironment(), datetime.now(UTC)
    environment.info = dataclasses.replace(
        environment.info,
        activity_type=PLAN,
        workflow_id=history.workflow_id,
        workflow_run_id=history.run_id,
        scheduled_time=now,
        started_time=now,
        current_attempt_scheduled_time=now,
    )
    plan_activity, *_ = shell(app, transcripts=RecordedTranscript(plan.messages)).activities
    outcome: PlanOutcome = await environment.run(plan_activity, plan.task)
    return PlanOutcome.model_validate_json(outcome.model_dump_json(by_alias=True, exclude_defaults=True))


def _find_refusal(app: App, plan: RecordedPlan, call: ToolRequest) -> str:
    """Return why a call that was accepted then is refused now, if it is."""
    then = plan.results.get(call.tool_call_id)
    if app.interceptors or then is None:
        return ""  # an interceptor may complete a payload before it is checked
    tool = app.tools_of(plan.task.agent_id).get(call.name)
    now = tool.check(call) if tool else None
    if not isinstance(now, ToolResult) or now.error is None:
        return ""
    return "" if then.error and then.error.code == now.error.code else now.error.message
