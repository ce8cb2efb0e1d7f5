"""ToolExecution: one call on its way through the tool boundary and back.

The order: read (size and depth, parse, drop injected fields), inject, interceptors, validate once, decode, run,
validate and encode the result, artifacts, bounds, the gate. A bad call is data: everything but a transient fault
and a cancellation comes back as a `ToolResult` (SR-51, SR-115, SR-133, SR-140). What is raised here is what
`sojourn.core.run.retry` has repeated; all else would only be executed again.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import structlog
from pydantic import ValidationError
from temporalio import activity
from temporalio.exceptions import ApplicationError

from sojourn.authoring.app import App
from sojourn.authoring.runnable import Runnable
from sojourn.authoring.tool import MalformedResultError
from sojourn.contracts import raised
from sojourn.contracts.dispatch import NET
from sojourn.contracts.retry_hint import FieldIssue, RetryHint
from sojourn.contracts.tasks import ToolTask
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult, ToolTelemetry
from sojourn.core.payload import boundary, hints
from sojourn.core.payload.boundary import refusal
from sojourn.core.payload.bounds import oddity
from sojourn.core.payload.example import Judge
from sojourn.core.payload.gate import Oversized, passed
from sojourn.core.payload.injected_fields import split
from sojourn.core.payload.masking import masked, masked_fault
from sojourn.core.run import retry
from sojourn.core.schema.secret_fields import secrets_in
from sojourn.core.values.sizes import MAX_LOCAL_BYTES
from sojourn.errors import ToolFailed
from sojourn.logs.context import hide
from sojourn.logs.exceptions import described
from sojourn.serving.off_loop import aside, fits

from .examples import prepares, with_fitting_example
from .heartbeat import beating
from .injection import Injection
from .offload import offloaded
from .overtime import await_with_grace, is_cancellation
from .threads import SyncThreads

__all__ = ["ToolExecution"]

_log = structlog.get_logger("sojourn.tool")


class ToolExecution:
    """One call on its way through the boundary and back.

    Args:
        app: Has the interceptors and the storage.
        threads: Where what is not async runs.
        tool: The tool that is called.
        call: The call as its planner made it.
        task: What the workflow sent.
        info: Of the activity.
        lost: Attempts that say nothing of the tool's own faults: their workers were lost.
    """

    def __init__(
        self,
        app: App,
        threads: SyncThreads,
        tool: Runnable,
        call: ToolRequest,
        task: ToolTask,
        info: activity.Info,
        lost: int,
    ) -> None:
        self._lost = lost
        self._app = app
        self._threads = threads
        self._tool = tool
        self._spec = tool.spec
        self._call = call
        self._task = task
        self._info = info
        self._limit = (info.start_to_close_timeout or NET) - NET
        self._injection = Injection(tool.fillers, app.interceptors)
        self._started = time.monotonic()
        self._is_its_own = False
        """Whether the answer is the tool's: the boundary's own examples are judged already."""

    async def answer(self) -> ToolResult:
        """The call's answer, in which no injected value is told."""
        sent = self._tool.read(self._call)
        if isinstance(sent, ToolResult):
            return await self._recorded(sent)
        meta = _meta(self._task, self._info, sent)
        if self._tool.validator.has_secrets:
            self._injection.mark(secrets_in(self._tool.validator.schema, sent.payload))
        hide(self._hidden)
        who = {"tool": self._spec.id, "run_id": meta.run_id, "tool_call_id": meta.tool_call_id}
        with beating(self._hidden, who=who, lost=self._lost):
            return await self._recorded(await self._outcome(sent, meta))

    async def _outcome(self, sent: ToolRequest, meta: ToolCallMeta) -> ToolResult:
        """What came of the call, whatever was raised on the way; only a cancellation is one."""
        clock = asyncio.timeout(self._limit.total_seconds())
        try:
            async with clock:
                return await self._carried_out(sent, meta)
        except TimeoutError as error:
            return self._timed_out() if clock.expired() else self._failed(error)
        except retry.TRANSIENT as error:
            return self._transient(error)
        except ToolFailed as error:
            given = raised.attribute(error, "hint")
            hint = (
                given.model_copy(update={"tool": self._call.name}) if raised.is_a(given, RetryHint) else None
            )
            return refusal(self._call, (self._told(error), hint))
        except BaseException as error:
            if is_cancellation(error):
                raise
            return self._failed(error)

    async def _recorded(self, result: ToolResult) -> ToolResult:
        """The answer as it passes the gate, with what is too large for a history in storage."""
        local = self._info.is_local
        answer = passed(self._spec, self._call, self._timed(result), self._masking, local=local)
        if isinstance(answer, Oversized) and local:
            return refusal(self._call, hints.oversized_result(self._spec, answer.size, MAX_LOCAL_BYTES))
        if isinstance(answer, Oversized):
            stored = await offloaded(answer, self._app.storage, self._spec, self._call, self._info)
            answer = passed(self._spec, self._call, stored)
        if isinstance(answer, Oversized):  # by what no storage takes
            return refusal(self._call, hints.oversized_result(self._spec, answer.size))
        self._tell_oddities(result, answer)
        return await with_fitting_example(self._tool, answer) if self._is_its_own else answer

    def _tell_oddities(self, result: ToolResult, answer: ToolResult) -> None:
        """Tell the operator what a tool's author should mend, and no planner can."""
        is_whole = answer.ok and answer.input_required is None
        if self._spec.bounded and is_whole and (odd := oddity(answer.bounds, result.result)):
            _log.warning("bounds_odd", tool=self._spec.id, run_id=self._info.workflow_id, why=odd)
        if result.retry_hint and answer.retry_hint is None:
            _log.warning("hint_left_out", tool=self._spec.id, run_id=self._info.workflow_id)

    def _timed(self, result: ToolResult) -> ToolResult:
        """The result with the time and the attempts that it took, where the tool itself says nothing of them."""
        spent = round((time.monotonic() - self._started) * 1000)
        measured = ToolTelemetry(duration_ms=spent, attempts=self._info.attempt)
        own = result.telemetry
        if own is None:
            return (
                result if measured == ToolTelemetry() else result.model_copy(update={"telemetry": measured})
            )
        if not isinstance(own, ToolTelemetry):  # pyright: ignore[reportUnnecessaryIsInstance] - a copy of a record is not validated
            return result
        blank = ToolTelemetry()
        filled = {
            name: getattr(measured, name)
            for name in ("duration_ms", "attempts")
            if getattr(own, name) == getattr(blank, name)
        }
        return result.model_copy(update={"telemetry": own.model_copy(update=filled)})

    async def _carried_out(self, sent: ToolRequest, meta: ToolCallMeta) -> ToolResult:
        """Inject and intercept, validate once, run, and deliver what came of it."""
        call = await self._injection.prepare(sent, meta)
        work = await self._work(sent, call, meta)
        if isinstance(work, ToolResult):
            return work
        self._is_its_own = True
        try:
            if self._tool.is_async:
                value = await await_with_grace(self._spec.id, work())
            else:
                value = await self._threads.run(self._spec.id, work)
        except MalformedResultError as error:
            return boundary.malformed(self._spec, self._call, error.why)
        return self._tool.deliver(self._call, value)

    async def _work(
        self, sent: ToolRequest, call: ToolRequest, meta: ToolCallMeta
    ) -> Callable[[], Any] | ToolResult:
        """What is left to run once the payload is valid, or the answer that says what is wrong with it."""
        tool = self._tool
        if self._spec.decode_in_executor:
            return tool.prepare({}, call, meta)
        injected = {name: call.payload[name] for name in self._spec.injected if name in call.payload}

        def takes(example: dict[str, Any]) -> bool:
            return prepares(tool, {**example, **injected}, call, meta)

        if not await fits(tool.whole_validator, call.payload):
            return await aside(lambda: self._refused(sent, tool.whole_validator.issues(call.payload), takes))
        try:
            return tool.prepare(call.payload, call, meta)
        except ValidationError as error:
            issues = boundary.issues_of(error)
            return await aside(lambda: self._refused(sent, issues, takes))

    def _refused(self, sent: ToolRequest, issues: list[FieldIssue], fits: Judge) -> ToolResult:
        shown, hidden = split(issues, self._spec.injected)
        if hidden and not shown:
            _log.error(
                "injected_fields_wrong",
                tool=self._spec.id,
                run_id=self._info.workflow_id,
                fields={issue.field.removeprefix("/"): issue.constraint for issue in hidden},
                mend="fill them by inject={...} or in an interceptor of App(interceptors=[...])",
            )
        return boundary.refused(self._spec, self._call, sent.payload, issues, self._tool.validator, fits)

    def _failed(self, error: BaseException) -> ToolResult:
        _log.info("tool_raised", tool=self._spec.id, run_id=self._info.workflow_id, raised=described(error))
        return refusal(self._call, (self._told(error), None))

    def _timed_out(self) -> ToolResult:
        said = f"{self._spec.id} did not answer within {self._limit}"
        return self._again_or(retry.timed_out(self._spec, self._limit), said, "Timeout")

    def _transient(self, error: BaseException) -> ToolResult:
        said = self._told(error).message
        return self._again_or(retry.transient(self._spec, error, said), said, raised.kind(error))

    def _again_or(self, failure: retry.Failure, said: str, kind: str) -> ToolResult:
        """The answer to a call that is not repeated; what Temporal is told of one that is holds no strangers' object."""
        decided = retry.decide(self._spec, failure, self._info.attempt - self._lost)
        if isinstance(decided, retry.Retry):
            raise ApplicationError(said, type=kind, next_retry_delay=decided.delay) from None
        return refusal(self._call, decided)

    def _told(self, error: BaseException) -> ToolError:
        return ToolError.from_error(error, self._hidden)

    def _hidden(self, text: str) -> str:
        mask = self._injection.whole
        return mask(text) if mask else text

    @property
    def _masking(self) -> Callable[[ToolResult], ToolResult] | None:
        """Hides injected values, and in words the payload's own secrets; None when there are none."""
        return self._masked if self._injection.whole else None

    def _masked(self, result: ToolResult) -> ToolResult:
        injection = self._injection
        if injection.whole:
            result = masked_fault(result, injection.whole)
        return masked(result, injection.mask) if injection.mask else result


def _meta(task: ToolTask, info: activity.Info, call: ToolRequest) -> ToolCallMeta:
    run_id = info.workflow_id or ""
    return ToolCallMeta(
        run_id=run_id,
        session_id=task.session_id,
        turn_id=task.turn_id,
        tool_call_id=call.tool_call_id,
        parent_tool_call_id=task.parent_tool_call_id,
        agent_id=task.agent_id,
        attempt=info.attempt,
        labels=task.labels,
        idempotency_key=ToolCallMeta.key_of(run_id, call),
        input=task.input,
    )
