"""Execute one call through the tool boundary and back.

The order: read (size and depth, parse, drop injected fields), inject, interceptors, validate once,
decode, run, validate and encode the result, artifacts, bounds, the gate. A bad call is data:
everything but a transient failure and a cancellation becomes a `ToolResult` (SR-51, SR-115, SR-133,
SR-140). This module raises only what `sojourn.core.run.retry` decides to repeat; any other
exception would make Temporal execute the call again.
"""

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import replace
from typing import Any

import structlog
from pydantic import ValidationError
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from sojourn.attachments import Attachments, CallAttachments, with_files_attached
from sojourn.authoring.app import App
from sojourn.authoring.runnable import Runnable
from sojourn.authoring.tool import MalformedResultError
from sojourn.contracts import safe_exceptions
from sojourn.contracts.attachment import AttachmentLimits, AttachmentRecord, offering_attachments
from sojourn.contracts.dispatch import REPEATED, TIMEOUT_MARGIN
from sojourn.contracts.memory import read_only
from sojourn.contracts.tasks import ToolTask
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_error import FieldIssue, RetryHint, ToolError
from sojourn.contracts.tool_result import ToolResult, ToolTelemetry
from sojourn.core.payload import boundary, hints
from sojourn.core.payload.boundary import inconsistency, refusal
from sojourn.core.payload.example import Judge
from sojourn.core.payload.masking import mask_fault, mask_result, split_issues
from sojourn.core.payload.result_check import Oversized, check_result
from sojourn.core.payload.unknown_outcome import changes_nothing, mark_unknown, may_repeat
from sojourn.core.run import retry
from sojourn.core.run.taint import UNREAD_CODES, taint_reason
from sojourn.core.schema.annotations import secrets_in
from sojourn.errors import ToolFailed, ToolUnavailable
from sojourn.logs.values import describe_error, hide
from sojourn.network.network_errors import leaves_undecided, network_failure_of
from sojourn.serving.hardening.attempt import NotWantedError, begin_in_thread, begin_work
from sojourn.serving.hardening.lost_workers import Earlier
from sojourn.serving.hardening.overtime import await_with_grace, is_cancellation
from sojourn.serving.hardening.threads import SyncThreads
from sojourn.serving.pace import fits, run_in_thread
from sojourn.values.wire import MAX_LOCAL_BYTES

from .heartbeat import send_heartbeats
from .interception import Injection, idempotency_key
from .results import accepts_payload, drop_unfit_example, offload, store_files
from .transcripts import memory_of, storage_of

__all__ = ["ToolExecution"]

_log = structlog.get_logger("sojourn.tool")

_MAX_LEAVES = 50


class ToolExecution:
    """One call through the boundary and back."""

    def __init__(
        self,
        app: App,
        threads: SyncThreads,
        tool: Runnable,
        call: ToolRequest,
        task: ToolTask,
        info: activity.Info,
        earlier: Earlier,
    ) -> None:
        self._earlier = earlier
        self._may_have_acted = earlier.unknown and not changes_nothing(tool.spec)
        """Whether an earlier attempt, or an earlier call with the same effect, may have taken effect."""
        self._app = app
        self._threads = threads
        self._tool = tool
        self._spec = tool.spec
        self._call = call
        self._task = task
        self._info = info
        self._limit = (info.start_to_close_timeout or TIMEOUT_MARGIN) - TIMEOUT_MARGIN
        self._injection = Injection(tool.fillers, app.interceptors)
        self._started = time.monotonic()
        self._is_decided = False
        """Whether the tool itself has said what became of the call."""
        self._is_its_own = False
        """Whether the tool's own code has begun.

        Hints that this code makes may have an example that does not fit. Those of the boundary fit.
        """

    async def answer(self) -> ToolResult:
        """Return the call's result, without any injected value."""
        sent = self._tool.read(self._call)
        if isinstance(sent, ToolResult):
            return await self._record_memory(self._still_unknown(sent))
        meta = _meta(self._task, self._info, sent)
        if self._tool.validator.has_secrets:
            self._injection.mark(secrets_in(self._tool.validator.schema, sent.payload))
        hide(self._mask_text)
        who = {"tool": self._spec.id, "run_id": meta.run_id, "tool_call_id": meta.tool_call_id}
        with send_heartbeats(self._mask_text, who=who, earlier=self._earlier):
            return await self._record_memory(self._still_unknown(await self._outcome(sent, meta)))

    def _still_unknown(self, result: ToolResult) -> ToolResult:
        # Not marked if the tool has said what became of the call.
        needed = result.input_required
        if needed is not None:  # the call is not over, so the tool has said nothing of the earlier attempt
            asked = needed.model_copy(update={"outcome_unknown": self._may_have_acted})
            return result.model_copy(update={"input_required": asked})
        is_open = self._may_have_acted and not self._is_decided
        return mark_unknown(result, repeatable=may_repeat(self._spec)) if is_open else result

    async def _outcome(self, sent: ToolRequest, meta: ToolCallMeta) -> ToolResult:
        # Only a cancellation, or an attempt that the server has given up, is raised.
        clock = asyncio.timeout(self._limit.total_seconds())
        try:
            async with clock:
                return await self._carry_out(sent, meta, clock)
        except BaseException as error:
            if is_cancellation(error) or safe_exceptions.is_a(error, NotWantedError):
                raise
            if safe_exceptions.is_a(error, TimeoutError) and clock.expired():
                return self._time_out()
            return self._answer_to(error)

    def _answer_to(self, error: BaseException) -> ToolResult:
        # A group whose exceptions agree gives the reason, but not what its cancelled tasks have done.
        leaves = safe_exceptions.leaves(error, _MAX_LEAVES)
        first = leaves[0]
        if len(leaves) == 1 and _is_transient(first):
            return self._transient(first, is_alone=first is error)
        if all(safe_exceptions.is_a(leaf, ToolFailed) and not _is_transient(leaf) for leaf in leaves):
            return self._refusal_by_tool(first, is_alone=first is error)
        return self._fail(error)

    def _refusal_by_tool(self, error: BaseException, *, is_alone: bool) -> ToolResult:
        # The call has failed for certain unless the tool raised a group.
        self._is_decided = is_alone
        self._may_have_acted = self._may_have_acted or not (is_alone or changes_nothing(self._spec))
        own_hint = safe_exceptions.attribute(error, "hint")
        is_hint = safe_exceptions.is_a(own_hint, RetryHint)
        hint = own_hint.model_copy(update={"tool": self._call.name}) if is_hint else None
        return refusal(self._call, (self._tool_error(error), hint))

    async def _record_memory(self, result: ToolResult) -> ToolResult:
        local = self._info.is_local
        answer = check_result(self._spec, self._call, self._add_duration(result), self._masking, local=local)
        if isinstance(answer, Oversized) and local:
            return refusal(self._call, hints.oversized_result(self._spec, answer.size, MAX_LOCAL_BYTES))
        if isinstance(answer, Oversized):
            stored = await offload(answer, storage_of(self._app), self._spec, self._call, self._info)
            answer = check_result(self._spec, self._call, stored)
        if isinstance(answer, Oversized):  # by a part that storage does not take
            return refusal(self._call, hints.oversized_result(self._spec, answer.size))
        self._log_oddities(result, answer)
        return await drop_unfit_example(self._tool, answer) if self._is_its_own else answer

    def _log_oddities(self, result: ToolResult, answer: ToolResult) -> None:
        """Log faults that only the tool's author can correct."""
        is_whole = answer.ok and answer.input_required is None
        if self._spec.bounded and is_whole and (odd := inconsistency(answer.bounds, result.result)):
            _log.warning("bounds_odd", tool=self._spec.id, run_id=self._info.workflow_id, why=odd)
        if result.retry_hint and answer.retry_hint is None:
            _log.warning("hint_left_out", tool=self._spec.id, run_id=self._info.workflow_id)

    def _add_duration(self, result: ToolResult) -> ToolResult:
        spent = round((time.monotonic() - self._started) * 1000)
        measured = ToolTelemetry(duration_ms=spent, attempts=self._info.attempt)
        own = result.telemetry
        if own is None and result.error and result.error.code in UNREAD_CODES:
            measured = measured.model_copy(update={"duration_ms": max(spent, 1)})
        if own is None:
            return (
                result if measured == ToolTelemetry() else result.model_copy(update={"telemetry": measured})
            )
        if not isinstance(own, ToolTelemetry):  # pyright: ignore[reportUnnecessaryIsInstance] - `model_copy` does not validate
            return result
        blank = ToolTelemetry()
        filled = {
            name: getattr(measured, name)
            for name in ("duration_ms", "attempts")
            if getattr(own, name) == getattr(blank, name)
        }
        return result.model_copy(update={"telemetry": own.model_copy(update=filled)})

    async def _carry_out(self, sent: ToolRequest, meta: ToolCallMeta, clock: asyncio.Timeout) -> ToolResult:
        context = copy_context()  # a thread of a tool has none of an activity
        files = CallAttachments(lambda: context.run(lambda: self._stored), self._info.workflow_id or "")
        meta = (await self._knowing(meta)).model_copy(update={"known_store": files})
        call = await self._injection.prepare(sent, meta)
        with _extend(clock):  # a busy machine may take longer to refuse a call than its tool has
            work = await self._work(sent, call, meta)
        if isinstance(work, ToolResult):
            return work
        self._is_its_own = True
        try:
            if self._tool.is_async:
                value = await await_with_grace(self._spec.id, begin_work(work))
            else:
                value = await self._threads.run(self._spec.id, begin_in_thread(work))
        except MalformedResultError as error:
            return boundary.malformed_result(self._spec, self._call, error.why)
        self._is_decided = True
        result = self._tool.deliver(self._call, value)
        if self._spec.kind == "mcp" and storage_of(self._app) is not None:
            result = await store_files(result, self._stored, self._info.workflow_id or "")
        if not result.ok or result.input_required:
            return result
        made = [*files.made.values()]
        if result.taint is not None:  # the call had stored them before it said so
            made = [file if file.tainted else await self._marked(file) for file in made]
        return with_files_attached(result, made)

    async def _marked(self, file: AttachmentRecord) -> AttachmentRecord:
        try:
            return await self._stored.taint(file)
        except Exception as error:  # noqa: BLE001 - the tool has run, and the run's record has the mark all the same
            run_id = self._info.workflow_id
            _log.warning("file_not_marked", run_id=run_id, file=file.id, raised=describe_error(error))
            return file.model_copy(update={"tainted": True})

    @property
    def _stored(self) -> Attachments:
        limits = AttachmentLimits(max_bytes=self._app.attachment_limits.max_bytes)
        # A lift is a decision about this run, and the file may get into others.
        task = self._task
        tainted = task.tainted or task.taint is not None or bool(taint_reason(self._spec))
        return Attachments(activity.client(), storage_of(self._app), limits, tainted=tainted)

    async def _knowing(self, meta: ToolCallMeta) -> ToolCallMeta:
        if not self._spec.memory:
            return meta
        info = self._info
        try:
            memory = await memory_of((info.workflow_id or "", info.workflow_run_id or ""), self._task)
        except RPCError as error:
            raise ToolUnavailable("the memory of the run cannot be read now") from error
        return meta.model_copy(update={"known_memory": read_only(memory)})

    async def _work(
        self, sent: ToolRequest, call: ToolRequest, meta: ToolCallMeta
    ) -> Callable[[], Any] | ToolResult:
        tool = self._tool
        if self._spec.decode_in_executor:
            return tool.prepare({}, call, meta)
        injected = {name: call.payload[name] for name in self._spec.injected if name in call.payload}

        def takes(example: dict[str, Any]) -> bool:
            return accepts_payload(tool, {**example, **injected}, call, meta)

        if not await fits(tool.whole_validator, call.payload):
            return await run_in_thread(
                lambda: self._refuse(sent, tool.whole_validator.issues(call.payload), takes)
            )
        try:
            return self._prepared(call, meta)
        except ValidationError as error:
            issues = boundary.issues_of(error)
            return await run_in_thread(lambda: self._refuse(sent, issues, takes))

    def _prepared(self, call: ToolRequest, meta: ToolCallMeta) -> Callable[[], Any]:
        if not self._spec.attachments:
            return self._tool.prepare(call.payload, call, meta)
        source = self._stored.read_by(self._info.workflow_id or "", self._task.key_run_id)
        with offering_attachments(self._task.attachments, source) as offered:
            known = {"known_attachments": [*offered.values()]}
            return self._tool.prepare(call.payload, call, meta.model_copy(update=known))

    def _refuse(self, sent: ToolRequest, issues: list[FieldIssue], fits: Judge) -> ToolResult:
        shown, hidden = split_issues(issues, self._spec.injected)
        if hidden and not shown:
            _log.error(
                "injected_fields_wrong",
                tool=self._spec.id,
                run_id=self._info.workflow_id,
                fields={issue.field.removeprefix("/"): issue.constraint for issue in hidden},
                mend="fill them by inject={...} or in an interceptor of App(interceptors=[...])",
            )
        return boundary.refuse_payload(
            self._spec, self._call, sent.payload, issues, self._tool.validator, fits
        )

    def _fail(self, error: BaseException) -> ToolResult:
        fault = network_failure_of(error) if isinstance(error, Exception) else None
        acts = not changes_nothing(self._spec)
        is_undecided = acts and leaves_undecided(error)
        self._may_have_acted = self._may_have_acted or is_undecided
        _log.info(
            "tool_raised", tool=self._spec.id, run_id=self._info.workflow_id, raised=describe_error(error)
        )
        told = self._tool_error(error)
        # The result of an earlier call states its own doubt. Equal messages stay equal, so that a planner that repeats them is stopped.
        is_news = fault is not None or is_undecided or (self._may_have_acted and self._info.attempt > 1)
        if self._is_its_own and acts and not is_news:
            # The tool may have sent its request before it raised, for example if it cannot read the service's answer.
            told = told.model_copy(update={"outcome_unknown": True})
        return refusal(self._call, (told, None))

    def _time_out(self) -> ToolResult:
        message = f"{self._spec.id} did not answer within {self._limit}"
        return self._retry_or_fail(retry.timeout_failure(self._spec, self._limit), message, "Timeout")

    def _transient(self, error: BaseException, *, is_alone: bool) -> ToolResult:
        # If the call is to be retried, this raises instead.
        message = self._tool_error(error).message
        failure = retry.transient(self._spec, error, message)
        is_said = safe_exceptions.attribute(error, "outcome_unknown") is False
        if not changes_nothing(self._spec) and not (is_alone and (is_said or not leaves_undecided(error))):
            failure = replace(failure, outcome_unknown=True)
        return self._retry_or_fail(failure, message, safe_exceptions.kind(error))

    def _retry_or_fail(self, failure: retry.FailedAttempt, message: str, kind: str) -> ToolResult:
        # A call that is retried raises an error that contains no foreign object.
        decided = retry.decide(self._spec, failure, self._info.attempt - self._earlier.lost)
        if isinstance(decided, retry.Repetition):
            if self._info.is_local and failure.outcome_unknown:
                # A local activity cannot inform its next attempt. An ordinary one counts this as a lost one.
                raise ApplicationError(message, 1, type=REPEATED, non_retryable=True) from None
            fact = {retry.OUTCOME_UNKNOWN: failure.outcome_unknown or self._may_have_acted}
            raise ApplicationError(message, fact, type=kind, next_retry_delay=decided.delay) from None
        self._may_have_acted = self._may_have_acted or failure.outcome_unknown
        return refusal(self._call, decided)

    def _tool_error(self, error: BaseException) -> ToolError:
        return ToolError.from_error(error, self._mask_text)

    def _mask_text(self, text: str) -> str:
        mask = self._injection.whole
        return mask(text) if mask else text

    @property
    def _masking(self) -> Callable[[ToolResult], ToolResult] | None:
        return self._mask_result if self._injection.whole else None

    def _mask_result(self, result: ToolResult) -> ToolResult:
        injection = self._injection
        if injection.whole:
            result = mask_fault(result, injection.whole)
        return mask_result(result, injection.mask) if injection.mask else result


_CHECK_SECONDS = TIMEOUT_MARGIN.total_seconds() / 2
"""Seconds for the check of a call's arguments, beside those of the tool."""


@contextmanager
def _extend(clock: asyncio.Timeout) -> Generator[None]:
    """Give the body seconds of its own, apart from those of the clock."""
    when, loop = clock.when(), asyncio.get_running_loop()
    if when is None or clock.expired():
        yield
        return
    left = when - loop.time()
    clock.reschedule(when + _CHECK_SECONDS)
    yield
    clock.reschedule(loop.time() + left)


def _is_transient(error: BaseException) -> bool:
    return any(safe_exceptions.is_a(error, kind) for kind in retry.TRANSIENT)


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
        principal=task.principal,
        idempotency_key=idempotency_key(call, run_id=run_id, key_run_id=task.key_run_id, effect=task.effect),
        approval=task.approval,
        input=task.input,
        tainted=task.tainted,
        taint=task.taint and task.taint.found_in(run_id),
    )
