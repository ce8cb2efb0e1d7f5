"""Intercepting: what the interceptors make of a call that no worker carries out (D-24).

A child run's messages and what somebody outside is asked are recorded where the call is
dispatched, so that is where its interceptors are asked; a worker's call meets them as it runs.
"""

import asyncio
import copy
from collections.abc import Sequence
from datetime import timedelta

from sojourn.authoring.interceptor import Interceptor
from sojourn.contracts import raised
from sojourn.contracts.plan import RunContext
from sojourn.contracts.retry_hint import RetryHint
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.payload import hints
from sojourn.core.payload.boundary import parsed, refusal
from sojourn.core.payload.gate import Oversized, passed
from sojourn.core.run import retry
from sojourn.core.run.plan_size import unfit
from sojourn.errors import ToolFailed

from .injection import Injection
from .overtime import await_with_grace, is_cancellation

__all__ = ["intercepted"]


async def intercepted(
    call: ToolRequest,
    spec: ToolSpec,
    run: RunContext,
    interceptors: Sequence[Interceptor],
    limit: timedelta,
) -> ToolRequest | ToolResult:
    """The call as its interceptors want it, or the answer where they prevent it.

    Args:
        call: As it was planned; as it was written, where no interceptor changes it.
        spec: The tool.
        run: Whose call it is.
        interceptors: Asked in order.
        limit: How long they may take together.
    """
    if not interceptors:
        return call
    sent = parsed(spec, call)
    if isinstance(sent, ToolResult):
        return sent
    # A copy: what an interceptor sets in place is neither the planner's nor overlooked.
    read = call.model_copy(update={"payload": copy.deepcopy(sent), "raw": None})
    clock = asyncio.timeout(limit.total_seconds())
    try:
        async with clock:
            made = await await_with_grace(
                call.name, Injection({}, interceptors).prepare(read, _meta(read, run))
            )
    except TimeoutError as error:
        if clock.expired():
            return refusal(call, hints.timeout(call.name, limit))
        return _prevented(call, spec, error)
    except BaseException as error:
        if is_cancellation(error):
            raise
        return _prevented(call, spec, error)
    if made.payload == sent:
        return call
    if fault := unfit(made):
        return refusal(call, hints.unparsable(spec, fault))
    return made.model_copy(update={"raw": None})


def _prevented(call: ToolRequest, spec: ToolSpec, error: BaseException) -> ToolResult:
    """As a worker's call is answered when one raises, less the repetitions: a plan does not wait for them."""
    told = ToolError.from_error(error)
    if any(raised.is_a(error, kind) for kind in retry.TRANSIENT):
        return refusal(call, retry.transient(spec, error, told.message).answer)
    given = raised.attribute(error, "hint") if raised.is_a(error, ToolFailed) else None
    hint = given.model_copy(update={"tool": call.name}) if raised.is_a(given, RetryHint) else None
    answer = passed(spec, call, refusal(call, (told, hint)))
    return answer.result if isinstance(answer, Oversized) else answer


def _meta(call: ToolRequest, run: RunContext) -> ToolCallMeta:
    return ToolCallMeta(
        run_id=run.run_id,
        session_id=run.session_id,
        turn_id=run.turn_id,
        tool_call_id=call.tool_call_id,
        parent_tool_call_id=run.parent.parent_tool_call_id if run.parent else None,
        agent_id=run.agent_id,
        labels=run.labels,
        idempotency_key=ToolCallMeta.key_of(run.run_id, call),
    )
