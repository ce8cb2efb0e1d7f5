"""ExecuteToolActivity: one tool call across the boundary.

Size and depth, parse, drop injected fields, interceptors, validate once, decode, call, validate and
encode the result, artifacts, bounds, the gate. A bad call is data: everything but a transient fault and
a cancellation comes back as a `ToolResult` (SR-51, SR-115, SR-133, SR-140). What is raised here is what
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

from sojourn.authoring.app import App, BoundTool
from sojourn.authoring.tool import MalformedResultError, Tool
from sojourn.contracts import raised
from sojourn.contracts.dispatch import NET
from sojourn.contracts.retry_hint import FieldIssue, RetryHint
from sojourn.contracts.tasks import ToolTask
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult, ToolTelemetry
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.payload import boundary, hints
from sojourn.core.payload.boundary import refusal
from sojourn.core.payload.bounds import oddity
from sojourn.core.payload.example import Judge
from sojourn.core.payload.gate import Oversized, passed
from sojourn.core.payload.injected_fields import split
from sojourn.core.payload.masking import masked, masked_fault
from sojourn.core.run import outcomes, retry
from sojourn.core.run.approval import digest_of
from sojourn.core.schema.secret_fields import secrets_in
from sojourn.core.values.sizes import MAX_LOCAL_BYTES
from sojourn.errors import ToolFailed
from sojourn.logs.context import current_mask, hide
from sojourn.logs.exceptions import described
from sojourn.serving.off_loop import aside, fits

from .examples import fitting, prepares
from .first_time import FirstTime
from .heartbeat import beating
from .injection import Injection
from .lost_workers import MAX_LOST, lost_before
from .offload import offloaded
from .outside import supplied
from .overtime import ended, is_cancellation
from .threads import SyncThreads

__all__ = ["ExecuteToolActivity"]

_log = structlog.get_logger("sojourn.tool")


class ExecuteToolActivity:
    """Executes tools of an app."""

    def __init__(
        self, app: App, threads: SyncThreads | None = None, first_time: FirstTime | None = None
    ) -> None:
        self._app = app
        self._first_time = first_time or FirstTime()
        self._threads = threads or SyncThreads()

    @activity.defn(name="ExecuteToolActivity")
    async def execute_tool(self, task: ToolTask) -> ToolResult:
        """Answer one call.

        Raises:
            ApplicationError: a transient fault that Temporal retries, within the tool's bound; or
                `REPEATED`, of a local call that is to be made as an ordinary one.
        """
        info = activity.info()
        call = ToolRequest(name=task.name, payload=task.payload, raw=task.raw, tool_call_id=info.activity_id)
        await self._first_time.claim()
        lost = await lost_before()
        try:
            result = await self._across(task, call, info, lost)
        except BaseException as error:
            if raised.is_a(error, ApplicationError) or is_cancellation(error):
                raise
            # A fault of the boundary itself, which a repetition would meet again: the run goes on, the log tells.
            _log.error(
                "tool_boundary_failed", tool=call.name, run_id=info.workflow_id, raised=described(error)
            )
            result, mask = refusal(call, (ToolError.from_error(error, current_mask()), None)), current_mask()
            result = masked(result, mask) if mask else result
        # The call stands beside the result in the history: its name and id are not written again.
        return result.model_copy(update={"name": "", "tool_call_id": ""})

    async def _across(self, task: ToolTask, call: ToolRequest, info: activity.Info, lost: int) -> ToolResult:
        if task.lost + lost >= MAX_LOST:
            return outcomes.lost(call, f"{task.lost + lost} times")
        tools = self._app.tools_of(task.agent_id)
        tool = tools.get(task.name)
        if not (isinstance(tool, Tool) or hasattr(tool, "prepare")):
            why = self._app.why_unknown(task.agent_id, task.name)
            return refusal(
                call, hints.unavailable(call.name, why) if why else hints.unknown_tool(call.name, list(tools))
            )
        if task.spec_digest is not None and task.spec_digest != digest_of(tool.spec):  # pyright: ignore[reportOptionalMemberAccess]
            return refusal(call, hints.changed_since_approved(call.name))
        if task.given is not None:
            return await _with_example(tool, supplied(tool, call, task.given))  # pyright: ignore[reportArgumentType]
        return await _Crossing(self._app, self._threads, tool, call, task, info, lost).answer()  # pyright: ignore[reportArgumentType]


class _Crossing:
    """One call on its way through the boundary and back."""

    def __init__(
        self,
        app: App,
        threads: SyncThreads,
        tool: BoundTool,
        call: ToolRequest,
        task: ToolTask,
        info: activity.Info,
        lost: int,
    ) -> None:
        self._lost = lost
        """Attempts that say nothing of the tool's own faults: their workers were lost."""
        self._app = app
        self._threads = threads
        self._tool = tool
        self._spec: ToolSpec = tool.spec
        self._call = call
        self._task = task
        self._info = info
        self._limit = (info.start_to_close_timeout or NET) - NET
        fillers = tool.fillers if isinstance(tool, Tool) else {}
        self._injection = Injection(fillers, app.interceptors)
        self._started = time.monotonic()
        self._is_its_own = False
        """Whether the answer is the tool's: the boundary's own examples are judged already."""

    async def answer(self) -> ToolResult:
        """The call's answer, in which no injected value is told."""
        sent = self._sent()
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
        return await _with_example(self._tool, answer) if self._is_its_own else answer

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

    def _sent(self) -> ToolRequest | ToolResult:
        """The call as its planner made it, read; what is decoded in the executor goes as it came."""
        if self._spec.decode_in_executor:
            return self._call
        takes = self._tool.takes if isinstance(self._tool, Tool) else None
        payload = boundary.parsed(self._spec, self._call, takes)
        if isinstance(payload, ToolResult):
            return payload
        return self._call.model_copy(update={"payload": payload, "raw": None})

    async def _carried_out(self, sent: ToolRequest, meta: ToolCallMeta) -> ToolResult:
        call = await self._injection.prepare(sent, meta)
        work = await self._work(sent, call, meta)
        if isinstance(work, ToolResult):
            return work
        body, self._is_its_own = self._app.body_of(self._tool), True
        try:
            value = await (
                ended(self._spec.id, work()) if body.is_async else self._threads.run(self._spec.id, work)
            )
        except MalformedResultError as error:
            return boundary.malformed(self._spec, self._call, error.why)
        tool = self._tool
        if not isinstance(tool, Tool):
            return boundary.delivered(self._spec, self._call, value, _unchanged)
        beside = {kind: shape.encode for kind, shape in tool.artifacts.items()}
        return boundary.delivered(self._spec, self._call, value, tool.result_shape.encode, beside)

    async def _work(
        self, sent: ToolRequest, call: ToolRequest, meta: ToolCallMeta
    ) -> Callable[[], Any] | ToolResult:
        """What is left to run once the payload is valid, or the answer that says what is wrong with it."""
        body, tool = self._app.body_of(self._tool), self._tool
        if self._spec.decode_in_executor or not isinstance(tool, Tool):
            return body.prepare({}, call, meta)
        validator = tool.whole_validator
        injected = {name: call.payload[name] for name in self._spec.injected if name in call.payload}

        def takes(example: dict[str, Any]) -> bool:
            return prepares(body, {**example, **injected}, call, meta)

        if not await fits(validator, call.payload):
            return await aside(lambda: self._refused(sent, tool, validator.issues(call.payload), takes))
        try:
            return body.prepare(call.payload, call, meta)
        except ValidationError as error:
            issues = boundary.issues_of(error)
            return await aside(lambda: self._refused(sent, tool, issues, takes))

    def _refused(
        self, sent: ToolRequest, tool: Tool[..., Any], issues: list[FieldIssue], fits: Judge
    ) -> ToolResult:
        shown, hidden = split(issues, self._spec.injected)
        if hidden and not shown:
            _log.error(
                "injected_fields_wrong",
                tool=self._spec.id,
                run_id=self._info.workflow_id,
                fields={issue.field.removeprefix("/"): issue.constraint for issue in hidden},
                mend="fill them by inject={...} or in an interceptor of App(interceptors=[...])",
            )
        return boundary.refused(self._spec, self._call, sent.payload, issues, tool.validator, fits)

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


async def _with_example(tool: BoundTool, answer: ToolResult) -> ToolResult:
    """The answer; the example of a hint that the tool itself gave only where it fits."""
    example = answer.retry_hint and answer.retry_hint.example_input
    return await aside(lambda: fitting(tool, answer), on=example) if example else answer


def _unchanged(value: Any) -> Any:
    return value


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
