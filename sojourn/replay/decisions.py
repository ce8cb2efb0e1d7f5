"""Make the plans of a recorded run again, and compare them.

A planner gets each turn as it got it then. Models get no request, so their plans are left out.
"""

import contextlib
import dataclasses
import difflib
import json
import sys
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from sojourn.authoring.app import App
from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.message import Message
from sojourn.contracts.tasks import PlanOutcome, PlanTask
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.wire_names import PLAN
from sojourn.replay.recording import RecordedPlan
from sojourn.worker import shell

__all__ = ["RecordedTranscript", "asks_model", "difference", "open_app", "plan_again"]


class RecordedTranscript:
    """Stands for a worker's cache of transcripts: it knows the transcript of one plan."""

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages

    async def read(self, key: tuple[str, str], task: PlanTask) -> list[Message]:
        del key, task
        return self._messages

    def keep(self, *_args: object, **_options: object) -> None: ...

    def drop(self, key: tuple[str, str]) -> None: ...


@contextlib.asynccontextmanager
async def open_app(app: App) -> AsyncGenerator[None]:
    """Open an app for plans, and let pydantic-ai send no request meanwhile."""
    with contextlib.ExitStack() as stack:
        if models := sys.modules.get("pydantic_ai.models"):
            stack.enter_context(models.override_allow_model_requests(allow_model_requests=False))
        try:
            await app.open()
            yield
        finally:
            await app.close()


async def plan_again(app: App, run_id: str, execution: str, plan: RecordedPlan) -> PlanOutcome:
    """Return what the planner decides now from the turn that it got then.

    It raises whatever the planner raises.
    """
    environment, now = ActivityEnvironment(), datetime.now(UTC)
    environment.info = dataclasses.replace(
        environment.info,
        activity_type=PLAN,
        workflow_id=run_id,
        workflow_run_id=execution,
        scheduled_time=now,
        started_time=now,
        current_attempt_scheduled_time=now,
    )
    plan_activity, *_ = shell(app, transcripts=RecordedTranscript(plan.messages)).activities
    outcome: PlanOutcome = await environment.run(plan_activity, plan.task)
    return PlanOutcome.model_validate_json(outcome.model_dump_json(by_alias=True, exclude_defaults=True))


def asks_model(error: Exception) -> bool:
    """Return whether a plan failed because it asks a model, and no request is sent."""
    return isinstance(error, ApplicationError) and error.type == "ModelMisconfigured"


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
