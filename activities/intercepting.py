"""Intercepting: run the interceptors of a call that no worker executes.

A child run's messages and the arguments of an external call are recorded when the call is
dispatched, so its interceptors run then; those of a worker's call run when the call is executed.
"""

import asyncio
import copy
from collections.abc import Sequence
from datetime import timedelta

from sojourn.authoring.interceptor import Interceptor
from sojourn.contracts import safe_exceptions
from sojourn.contracts.plan import RunContext
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_error import RetryHint, ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.payload import hints
from sojourn.core.payload.boundary import refusal
from sojourn.core.payload.result_check import Oversized, checked_result
from sojourn.core.run import retry
from sojourn.core.run.plan_rules import payload_fault
from sojourn.errors import ToolFailed

from .idempotency import idempotency_key
from .injection import Injection
from .overtime import await_with_grace, is_cancellation

__all__ = ["intercepted"]


async def intercepted(
    call: ToolRequest,
    spec: ToolSpec,
    run: RunContext,
    interceptors: Sequence[Interceptor],
    limit: timedelta,
    *,
    key_run_id: str = "",
) -> ToolRequest | ToolResult:
    """The call as its interceptors change it, or the result where they prevent it.

    Args:
        call: The call with its arguments parsed; returned unchanged where no interceptor changes it.
        spec: The tool.
        run: The run of the call.
        interceptors: Run in order.
        limit: Time limit of all interceptors together.
        key_run_id: In a fork: the run by whose id the key of the call is made.
    """
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
        return _prevented(call, spec, error)
    except BaseException as error:
        if is_cancellation(error):
            raise
        return _prevented(call, spec, error)
    if made.payload == call.payload:
        return call
    if fault := payload_fault(made):
        return refusal(call, hints.unparsable(spec, fault))
    return made


def _prevented(call: ToolRequest, spec: ToolSpec, error: BaseException) -> ToolResult:
    """The result of a call whose interceptor raised, as on a worker but without retries, for which a plan does not wait."""
    safe_error = ToolError.from_error(error)
    if any(safe_exceptions.is_a(error, kind) for kind in retry.TRANSIENT):
        return refusal(call, retry.transient(spec, error, safe_error.message).answer)
    own_hint = safe_exceptions.attribute(error, "hint") if safe_exceptions.is_a(error, ToolFailed) else None
    hint = (
        own_hint.model_copy(update={"tool": call.name}) if safe_exceptions.is_a(own_hint, RetryHint) else None
    )
    answer = checked_result(spec, call, refusal(call, (safe_error, hint)))
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
