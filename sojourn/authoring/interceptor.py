"""Interceptor: sees every call before it is validated, and fills what a planner must not choose."""

from typing import Protocol, runtime_checkable

from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest

__all__ = ["Interceptor"]


@runtime_checkable
class Interceptor(Protocol):
    """Prepares the calls of an app, in the order in which interceptors are registered (SR-44, SR-47, SR-48).

    A worker's call meets it as it runs, on every attempt; a call of an agent, and one that is executed
    outside, as it is dispatched, so that what is made of its arguments is recorded (D-24).
    """

    async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
        """The call to go on with; `tool.inject(call, field=value)` sets an injected field.

        What it raises prevents the execution, and is answered like a failure of the tool's own. One that
        gives no call, or another call, is logged for the operator, and the call is answered as unavailable.
        """
        ...
