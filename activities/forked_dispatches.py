"""ForkedDispatches: judge the calls that a fork carries out again, as the app is now."""

from dataclasses import dataclass, replace

from sojourn.contracts.dispatch import Dispatch, ForkedStep
from sojourn.contracts.plan import PolicyDecision
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import RetryReason, ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.run.plan_rules import not_executed
from sojourn.core.run.policy import merged
from sojourn.core.values.json_text import ParseFault
from sojourn.serving.off_loop import run_in_thread

from .dispatch import Dispatcher

__all__ = ["ForkedDispatches"]

_UNFIT = (RetryReason.INVALID_ARGUMENTS, RetryReason.MISSING_FIELDS)


@dataclass(frozen=True, slots=True)
class ForkedDispatches:
    """Makes the dispatches of the step with which a fork begins."""

    dispatcher: Dispatcher
    """Judges a call as one that a planner has just planned."""
    step: ForkedStep
    refused: str | None = None
    """The limit that stops calls that are not admitted."""

    async def of(
        self, calls: list[tuple[ToolRequest, ToolRequest | ParseFault]], admitted: set[str]
    ) -> list[Dispatch] | ToolError:
        """A dispatch for each call; or why the run fails, where edited arguments do not fit.

        They are not for the planner to repair: it would carry out its own guess of what somebody else meant.

        Args:
            calls: Each call, and with its arguments parsed or why they cannot be read.
            admitted: The ids of the calls that the limits let through.
        """
        made = [await self._dispatch(call, read, admitted) for call, read in calls]
        for (call, read), dispatch in zip(calls, made, strict=True):
            if call.tool_call_id in self.step.edited and (fault := await self._unfit(call, read, dispatch)):
                return ToolError.new(
                    f"the arguments that the fork gives {call.name} cannot be used: {fault}",
                    code="invalid_arguments",
                )
        return made

    async def _dispatch(
        self, call: ToolRequest, read: ToolRequest | ParseFault, admitted: set[str]
    ) -> Dispatch:
        if known := self.step.result_of(call):
            return Dispatch(kind="answered", result=known)
        if call.tool_call_id not in admitted:
            return Dispatch(kind="answered", result=not_executed(call, self.refused, self.dispatcher.limits))
        asks = self.step.asks
        if asks is None or asks.tool_call_id != call.tool_call_id:
            return await self.dispatcher.dispatch(call, read)
        decision = merged(self.dispatcher.decision, PolicyDecision(ask=[call.tool_call_id]))
        made = await replace(self.dispatcher, decision=decision).dispatch(call, read)
        if made.kind == "answered":
            return made
        # What was shown is what is decided: if the tool has changed since, the approval is void.
        seen = {"shown": asks.shown, "spec_digest": asks.spec_digest}
        confirm = (made.confirm or asks).model_copy(update=seen)
        return made.model_copy(update={"confirm": confirm})

    async def _unfit(
        self, call: ToolRequest, read: ToolRequest | ParseFault, dispatch: Dispatch
    ) -> str | None:
        """Why the arguments of a call do not fit its tool; None where they do, or where the call does not run anyway."""
        result = dispatch.result
        if result is None and isinstance(read, ToolRequest):
            tool = self.dispatcher.app.tools_of(self.dispatcher.run.agent_id)[call.name]
            checked = await run_in_thread(lambda: tool.check(read), on=read.payload)
            result = checked if isinstance(checked, ToolResult) else None
        hint = result.retry_hint if result else None
        return str(result.error) if result and hint and hint.reason in _UNFIT else None
