"""Interceptor: sees every call before it is validated, and fills in what a planner must not choose."""

from typing import Protocol, runtime_checkable

from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest

__all__ = ["Interceptor"]


@runtime_checkable
class Interceptor(Protocol):
    """Prepares the calls of an app; interceptors run in the order of their registration (SR-44, SR-47, SR-48).

    A worker's call is intercepted when it is executed, on every attempt; a child run's or external call
    when it is dispatched, so that its changed arguments are recorded.
    """

    async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
        """Return the call to continue with; `tool.inject(call, field=value)` sets an injected field.

        An exception prevents the execution, and is answered like a failure of the tool itself. A return value
        that is not this call is logged for the operator, and the call is answered as unavailable.
        """
        ...
