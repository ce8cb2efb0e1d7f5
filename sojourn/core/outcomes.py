"""Answers to calls that ended outside the tool: lost, never started, cancelled, or in a child run."""

from sojourn.contracts.message import Message
from sojourn.contracts.retry_hint import RetryHint, RetryReason
from sojourn.contracts.run import RunOutput
from sojourn.contracts.run_link import RunLink
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult, ToolTelemetry
from sojourn.core.counts import add_telemetry

__all__ = [
    "canceled",
    "child_failed",
    "child_finished",
    "failed",
    "lost",
    "not_started",
    "of_call",
    "timed_out",
    "unanswered",
]


def of_call(call: ToolRequest, result: ToolResult) -> ToolResult:
    """A result from an activity, which leaves out the call that stands beside it in the history."""
    return result.model_copy(update={"name": call.name, "tool_call_id": call.tool_call_id})


def timed_out(call: ToolRequest, kind: str, queue: str, waited: str) -> ToolResult:
    """The server gave the call up: nobody took it from its queue, or its worker was lost too often."""
    return not_started(call, queue, waited) if kind == "schedule-to-start" else lost(call, kind)


def not_started(call: ToolRequest, queue: str, waited: str) -> ToolResult:
    """No worker took the call from its queue in time; it never ran."""
    return _unavailable(call, f"no worker served task queue {queue} within {waited}; the call did not run")


def lost(call: ToolRequest, kind: str) -> ToolResult:
    """Workers kept dying under the call, or a lost attempt must not be repeated."""
    return _unavailable(call, f"the worker that ran this call was lost ({kind}); its outcome is unknown")


def failed(call: ToolRequest, error: ToolError) -> ToolResult:
    """The activity failed outside the tool boundary."""
    return ToolResult(name=call.name, tool_call_id=call.tool_call_id, error=error)


def canceled(call: ToolRequest, reason: str | None) -> ToolResult:
    """The run was cancelled while the call was in flight or waiting for its turn."""
    why = f": {reason}" if reason else ""
    return failed(call, ToolError.new(f"canceled with the run{why}", code="canceled"))


def child_finished(call: ToolRequest, output: RunOutput, link: RunLink) -> ToolResult:
    """A child run's output as its parent's result: answer, costs, calls made and the link (SR-53)."""
    spent = ToolTelemetry(**output.usage.model_dump(exclude={"cached_tokens"}), attempts=0)
    return ToolResult(
        name=call.name,
        tool_call_id=call.tool_call_id,
        result=output.text if output.result is None else output.result,
        telemetry=add_telemetry(output.telemetry, spent),
        children_count=output.children_count,
        run_link=link,
    )


def child_failed(call: ToolRequest, error: ToolError, link: RunLink) -> ToolResult:
    """A child run that ended without an answer; the chain of causes stays whole (SR-87)."""
    return ToolResult(
        name=call.name,
        tool_call_id=call.tool_call_id,
        error=ToolError.with_cause(f"the agent run {link.run_id} failed", error),
        run_link=link,
    )


def unanswered(why: str, limit: str) -> Message:
    """The clear end of a run whose final turn failed too."""
    return Message.assistant(f"{limit} The run ended without an answer: {why}")


def _unavailable(call: ToolRequest, message: str) -> ToolResult:
    return ToolResult(
        name=call.name,
        tool_call_id=call.tool_call_id,
        error=ToolError.new(message, code=RetryReason.TOOL_UNAVAILABLE),
        retry_hint=RetryHint(reason=RetryReason.TOOL_UNAVAILABLE, tool=call.name, message=message),
    )
