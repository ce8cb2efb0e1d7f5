"""Fill injected fields, run the interceptors of a call, and mask its values.

A child run's messages and the arguments of an external call are recorded when the call is
dispatched, so its interceptors run then. Those of a worker's call run when the call is executed.
"""

import asyncio
import copy
import inspect
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import structlog

from sojourn.authoring.runnable import Filler
from sojourn.authoring.sources import Interceptor
from sojourn.authoring.tool import injecting
from sojourn.contracts import safe_exceptions
from sojourn.contracts.dispatch import Effect
from sojourn.contracts.plan import RunContext
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_error import RetryHint, ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.payload import hints
from sojourn.core.payload.boundary import refusal
from sojourn.core.payload.masking import Mask, mask_for
from sojourn.core.payload.result_check import Oversized, check_result
from sojourn.core.run import retry
from sojourn.core.run.plan_rules import payload_fault
from sojourn.errors import ToolFailed
from sojourn.serving.hardening.overtime import await_with_grace, is_cancellation
from sojourn.values.json_fault import is_object

__all__ = ["Injection", "idempotency_key", "intercept"]


def idempotency_key(call: ToolRequest, *, run_id: str, key_run_id: str, effect: Effect | None = None) -> str:
    """Return the key of a call."""
    return effect.idempotency_key if effect else ToolCallMeta.key_of(key_run_id or run_id, call)


_PUBLIC_IDS = {"run_id", "session_id", "turn_id", "tool_call_id"}
"""Ids that every event contains, and that are therefore no secrets."""


_log = structlog.get_logger("sojourn.tool")


class Injection:
    """The injected fields of one call, and the masks of their values."""

    def __init__(self, fillers: Mapping[str, Filler | None], interceptors: Sequence[Interceptor]) -> None:
        self._fillers = fillers
        self._interceptors = interceptors
        self._secrets: dict[str, list[Any]] = {}
        self._marked: Mapping[str, Any] = {}
        self.mask: Mask | None = None
        self.whole: Mask | None = None
        """Also masks the secrets of the payload. If two of them overlap, it masks the longer one."""

    def mark(self, secrets: Mapping[str, Any]) -> None:
        """Mask the values of fields that the payload's schema marks as secret, too."""
        self._marked = secrets
        self.whole = mask_for(secrets)

    async def prepare(self, call: ToolRequest, meta: ToolCallMeta) -> ToolRequest:
        """Return the call with its injected fields filled.

        Exceptions of a filler or an interceptor pass through. The model's text stays in `raw` only
        while the interceptors leave the arguments as they are.
        """
        for name, fill in self._fillers.items():
            if fill is not None:
                value: Any = fill(meta)
                if inspect.isawaitable(value):
                    value = await value
                call = self._hiding(call.model_copy(update={"payload": {**call.payload, name: value}}))
        if not self._interceptors:
            return call
        before = None if call.raw is None else copy.deepcopy(call.payload)  # one may change them in place
        token = injecting.set(self._hide)
        try:
            for interceptor in self._interceptors:
                call = self._hiding(await _run_interceptors(interceptor, meta, call))
        finally:
            injecting.reset(token)
        return call if call.payload == before else call.model_copy(update={"raw": None})

    def _hiding(self, call: ToolRequest) -> ToolRequest:
        self._hide({name: call.payload[name] for name in self._fillers if name in call.payload})
        return call

    def _hide(self, values: Mapping[str, Any]) -> None:
        # A value that a later interceptor replaced stays masked.
        for name, value in values.items():
            known = self._secrets.setdefault(name, [])
            if name not in _PUBLIC_IDS and value not in known:
                known.append(value)
        self.mask = mask_for(self._secrets)
        self.whole = mask_for({**self._marked, **self._secrets}) if self._marked else self.mask


async def _run_interceptors(interceptor: Interceptor, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
    made: Any = interceptor.intercept_tool_call(meta, call)
    if inspect.isawaitable(made):
        made = await made
    is_call = isinstance(made, ToolRequest) and is_object(made.payload)  # `model_copy` does not validate
    gave = "another call" if isinstance(made, ToolRequest) else type(made).__name__
    if is_call and made.raw is not None and (made.raw != call.raw or not made.is_parsed):
        gave = "a text in place of arguments"  # which the interceptors after it would not see
    elif is_call and (made.name, made.tool_call_id) == (call.name, call.tool_call_id):
        return made
    _log.error(
        "interceptor_gave_no_call",
        interceptor=type(interceptor).__qualname__,
        tool=call.name,
        run_id=meta.run_id,
        gave=gave,
        mend="return the call it was given, or call.model_copy(update={'payload': ...}) of it",
    )
    error, hint = hints.unavailable(call.name, "it could not be prepared; this is logged for its operator")
    raise ToolFailed(error.message, hint=hint)


async def intercept(
    call: ToolRequest,
    spec: ToolSpec,
    run: RunContext,
    interceptors: Sequence[Interceptor],
    limit: timedelta,
    *,
    key_run_id: str = "",
) -> ToolRequest | ToolResult:
    """Return the call as its interceptors change it, or the result if they prevent it."""
    if not interceptors:
        return call
    # A copy: a change in place must neither reach the planner's call nor be missed below.
    read = call.model_copy(update={"payload": copy.deepcopy(call.payload)})
    clock = asyncio.timeout(limit.total_seconds())
    try:
        async with clock:
            made = await await_with_grace(
                call.name, Injection({}, interceptors).prepare(read, _meta(read, run, key_run_id))
            )
    except TimeoutError as error:
        if clock.expired():
            return refusal(call, hints.timeout(call.name, limit))
        return _prevent(call, spec, error)
    except BaseException as error:
        if is_cancellation(error):
            raise
        return _prevent(call, spec, error)
    if made.payload == call.payload:
        return call
    if fault := payload_fault(made):
        return refusal(call, hints.unparsable_arguments(spec, fault))
    return made


def _prevent(call: ToolRequest, spec: ToolSpec, error: BaseException) -> ToolResult:
    # It is the result that a worker would return, but without retries, since a plan does not wait for them.
    safe_error = ToolError.from_error(error)
    if any(safe_exceptions.is_a(error, kind) for kind in retry.TRANSIENT):
        return refusal(call, retry.transient(spec, error, safe_error.message).answer)
    own_hint = safe_exceptions.attribute(error, "hint") if safe_exceptions.is_a(error, ToolFailed) else None
    hint = (
        own_hint.model_copy(update={"tool": call.name}) if safe_exceptions.is_a(own_hint, RetryHint) else None
    )
    answer = check_result(spec, call, refusal(call, (safe_error, hint)))
    return answer.result if isinstance(answer, Oversized) else answer


def _meta(call: ToolRequest, run: RunContext, key_run_id: str) -> ToolCallMeta:
    return ToolCallMeta(
        run_id=run.run_id,
        session_id=run.session_id,
        turn_id=run.turn_id,
        tool_call_id=call.tool_call_id,
        parent_tool_call_id=run.parent.parent_tool_call_id if run.parent else None,
        agent_id=run.agent_id,
        labels=run.labels,
        principal=run.principal,
        idempotency_key=idempotency_key(call, run_id=run.run_id, key_run_id=key_run_id),
    )
