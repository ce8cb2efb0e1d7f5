"""ExecuteToolActivity: one tool call across the boundary.

Size and depth, parse, drop injected fields, interceptors, validate once, decode, call, validate and
encode the result, bounds, artifacts, size. A bad call is data: everything but a transient fault and
a cancellation comes back as a `ToolResult` (SR-51, SR-115, SR-133, SR-140).
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import structlog
from pydantic import ValidationError
from temporalio import activity
from temporalio.exceptions import ApplicationError

from sojourn.app import App, BoundTool
from sojourn.contracts.dispatch import NET
from sojourn.contracts.retry_hint import FieldIssue
from sojourn.contracts.tasks import ToolTask
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult, ToolTelemetry
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core import boundary, hints
from sojourn.core.approval import digest_of
from sojourn.core.boundary import Oversized, refusal
from sojourn.core.example import Judge
from sojourn.core.hidden import Mask, mask_for, masked, masked_fault, split
from sojourn.core.secret import secrets_in
from sojourn.errors import RateLimited, ToolFailed, ToolUnavailable
from sojourn.logs.context import current_mask, hide
from sojourn.logs.exceptions import described
from sojourn.tool import MalformedResultError, Tool

from .examples import fitting, prepares
from .heartbeat import beating
from .injection import Injection
from .offload import offloaded
from .outside import supplied
from .overtime import ended
from .threads import SyncThreads

__all__ = ["ExecuteToolActivity"]

LONGEST_RETRY = timedelta(seconds=30)
"""A longer `retry_after` is returned to the planner at once, which can do something else meanwhile."""

_log = structlog.get_logger("sojourn.tool")


class ExecuteToolActivity:
    """Executes tools of an app."""

    def __init__(self, app: App, threads: SyncThreads | None = None) -> None:
        self._app = app
        self._threads = threads or SyncThreads()

    @activity.defn(name="ExecuteToolActivity")
    async def execute_tool(self, task: ToolTask) -> ToolResult:
        """Answer one call.

        Raises:
            ApplicationError: a transient fault that Temporal retries, within the tool's bound.
        """
        info = activity.info()
        call = ToolRequest(name=task.name, payload=task.payload, raw=task.raw, tool_call_id=info.activity_id)
        try:
            result = await self._across(task, call, info)
        except ApplicationError:
            raise
        except Exception as error:  # noqa: BLE001
            # A fault of the boundary itself, which a repetition would meet again: the run goes on, the log tells.
            _log.error(
                "tool_boundary_failed", tool=call.name, run_id=info.workflow_id, raised=described(error)
            )
            result, mask = refusal(call, (ToolError.from_error(error), None)), current_mask()
            result = masked(result, mask) if mask else result
        # The call stands beside the result in the history: its name and id are not written again.
        return result.model_copy(update={"name": "", "tool_call_id": ""})

    async def _across(self, task: ToolTask, call: ToolRequest, info: activity.Info) -> ToolResult:
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
            return fitting(tool, supplied(tool, call, task.given))  # pyright: ignore[reportArgumentType]
        crossing = _Crossing(self._app, self._threads, tool, call, task, info)  # pyright: ignore[reportArgumentType]
        started = time.monotonic()
        result = await crossing.answer()
        spent = ToolTelemetry(duration_ms=round((time.monotonic() - started) * 1000), attempts=info.attempt)
        if result.telemetry or spent == ToolTelemetry():
            return result
        return result.model_copy(update={"telemetry": spent})


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
    ) -> None:
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
        self._secrets: Mask | None = None
        """Hides the fields that the payload's schema marks."""

    async def answer(self) -> ToolResult:
        """The call's answer, in which no injected value is told."""
        sent = self._sent()
        if isinstance(sent, ToolResult):
            return sent
        meta = _meta(self._task, self._info, sent)
        if self._tool.validator.has_secrets:
            self._secrets = mask_for(secrets_in(self._tool.validator.schema, sent.payload))
        hide(self._hidden)
        clock = asyncio.timeout(self._limit.total_seconds())
        with beating(mask=self._hidden):
            try:
                async with clock:
                    result = await self._carried_out(sent, meta)
            except TimeoutError as error:
                result = self._timed_out() if clock.expired() else self._failed(error)
            except (RateLimited, ToolUnavailable, ConnectionError) as error:
                result = self._transient(error)
            except ToolFailed as error:
                hint = error.hint.model_copy(update={"tool": self._call.name}) if error.hint else None
                result = fitting(self._tool, refusal(self._call, (ToolError.from_error(error), hint)))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a tool's fault is the planner's business
                result = self._failed(error)
            if isinstance(result, Oversized):
                whole = replace(result, result=self._masked(result.result))
                return await offloaded(whole, self._app.storage, self._spec, self._call, self._info)
        return self._masked(result)

    def _sent(self) -> ToolRequest | ToolResult:
        """The call as its planner made it, read; what is decoded in the executor goes as it came."""
        if self._spec.decode_in_executor:
            return self._call
        takes = self._tool.takes if isinstance(self._tool, Tool) else None
        payload = boundary.parsed(self._spec, self._call, takes)
        if isinstance(payload, ToolResult):
            return payload
        return self._call.model_copy(update={"payload": payload, "raw": None})

    async def _carried_out(self, sent: ToolRequest, meta: ToolCallMeta) -> ToolResult | Oversized:
        call = await self._injection.prepare(sent, meta)
        work = self._work(sent, call, meta)
        if isinstance(work, ToolResult):
            return work
        body = self._app.body_of(self._tool)
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
        made = boundary.delivered(self._spec, self._call, value, tool.result_shape.encode, beside)
        return fitting(tool, made) if isinstance(made, ToolResult) else made

    def _work(
        self, sent: ToolRequest, call: ToolRequest, meta: ToolCallMeta
    ) -> Callable[[], Any] | ToolResult:
        """What is left to run once the payload is valid, or the answer that says what is wrong with it."""
        body, tool = self._app.body_of(self._tool), self._tool
        if self._spec.decode_in_executor or not isinstance(tool, Tool):
            return body.prepare({}, call, meta)
        injected = {name: call.payload[name] for name in self._spec.injected if name in call.payload}

        def fits(example: dict[str, Any]) -> bool:
            return prepares(body, {**example, **injected}, call, meta)

        if not tool.whole_validator.is_valid(call.payload):
            return self._refused(sent, tool, tool.whole_validator.issues(call.payload), fits)
        try:
            return body.prepare(call.payload, call, meta)
        except ValidationError as error:
            return self._refused(sent, tool, boundary.issues_of(error), fits)

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
        return refusal(self._call, (ToolError.from_error(error), None))

    def _timed_out(self) -> ToolResult:
        """A time-out is repeated only where twice is as once."""
        repeatable = self._spec.annotations.read_only or self._spec.annotations.idempotent
        if repeatable and self._info.attempt < self._spec.retry.max_attempts:
            said = f"{self._spec.id} did not answer within {self._limit}"
            delay = self._spec.retry.initial_interval
            raise ApplicationError(said, type="Timeout", next_retry_delay=delay)
        return refusal(self._call, hints.timeout(self._call.name, self._limit))

    def _transient(self, error: Exception) -> ToolResult:
        """Retry a rate limit or an unavailable service a few times, then hand it to the planner with its hint."""
        spec, attempt = self._spec, self._info.attempt
        after: timedelta | None = getattr(error, "retry_after", None)
        said = self._hidden(str(error))  # before it is cut: half a secret tells much
        may_retry = spec.annotations.idempotent is not False and attempt < spec.retry.max_attempts
        if may_retry and (after is None or after <= LONGEST_RETRY):
            delay = after or min(spec.retry.initial_interval * 2 ** (attempt - 1), LONGEST_RETRY)
            cause = None if self._has_masks else error
            raise ApplicationError(said, type=type(error).__name__, next_retry_delay=delay) from cause
        if isinstance(error, RateLimited):
            return refusal(self._call, hints.rate_limited(self._call.name, said, after))
        return refusal(self._call, hints.unavailable(self._call.name, said, after))

    @property
    def _has_masks(self) -> bool:
        return self._injection.mask is not None or self._secrets is not None

    def _hidden(self, text: str) -> str:
        for mask in (self._injection.mask, self._secrets):
            text = mask(text) if mask else text
        return text

    def _masked(self, result: ToolResult) -> ToolResult:
        """No injected value is told; of the payload's own secrets nothing is said that was not asked for."""
        if self._injection.mask:
            result = masked(result, self._injection.mask)
        return masked_fault(result, self._secrets) if self._secrets else result


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
