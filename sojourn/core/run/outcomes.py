"""Answers to calls that ended outside the tool: lost, never started or cancelled."""

from typing import Any

from sojourn.contracts.message import Message
from sojourn.contracts.retry_hint import RetryHint, RetryReason
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.run.ids import artifact_ref
from sojourn.core.values.sizes import MAX_FORMS_BYTES

__all__ = [
    "attach_call",
    "by_reference",
    "canceled",
    "failed",
    "lost",
    "no_input",
    "not_read",
    "not_started",
    "overtime",
    "timed_out",
    "too_much_input",
    "unanswered",
]


def attach_call(call: ToolRequest, result: ToolResult, run_id: str) -> ToolResult:
    """A result from an activity, which leaves out the call that stands beside it in the history."""
    changes: dict[str, Any] = {"name": call.name, "tool_call_id": call.tool_call_id}
    if result.artifacts:
        changes["artifacts"] = [
            one.model_copy(
                update={"source_tool": call.name, "ref": artifact_ref(run_id, call.tool_call_id, one.kind)}
            )
            for one in result.artifacts
        ]
    return result.model_copy(update=changes)


def by_reference(result: ToolResult) -> ToolResult:
    """A result as runs, plans and parents carry it: its artifacts without their data (SR-102)."""
    if not result.artifacts:
        return result
    bare = [one.model_copy(update={"data": None, "claim": None}) for one in result.artifacts]
    return result.model_copy(update={"artifacts": bare})


def timed_out(call: ToolRequest, kind: str, queue: str, waited: str) -> ToolResult:
    """The server gave the call up: nobody took it from its queue, or its worker was lost too often."""
    return not_started(call, queue, waited) if kind == "schedule-to-start" else lost(call, kind)


def not_started(call: ToolRequest, queue: str, waited: str) -> ToolResult:
    """No worker took the call from its queue in time; it never ran."""
    return _unavailable(call, f"no worker served task queue {queue} within {waited}; the call did not run")


def lost(call: ToolRequest, kind: str) -> ToolResult:
    """Workers kept dying under the call, or a lost attempt must not be repeated."""
    return _unavailable(
        call,
        f"the worker that ran this call was lost, or did not end it in time ({kind}); its outcome is unknown",
    )


def failed(call: ToolRequest, error: ToolError) -> ToolResult:
    """The activity failed outside the tool boundary."""
    return ToolResult(name=call.name, tool_call_id=call.tool_call_id, error=error)


def canceled(call: ToolRequest, reason: str | None) -> ToolResult:
    """The run was cancelled while the call was in flight or waiting for its turn."""
    why = f": {reason}" if reason else ""
    return failed(call, ToolError.new(f"canceled with the run{why}", code="canceled"))


def overtime(call: ToolRequest) -> ToolResult:
    """The run's time budget was used up while the call was in flight or waiting for its turn."""
    return failed(call, ToolError.new("not finished: the run's time budget is used up", code="time_budget"))


def not_read(call: ToolRequest) -> ToolResult:
    """Nobody outside sent the call's result before the run's history had no room left for it."""
    said = "the run has gone on for as long as one can, and reads no result of it; whether it was carried out is unknown"
    return failed(call, ToolError.new(said, code="history"))


def no_input(call: ToolRequest, server: str) -> ToolResult:
    """The tool asks for a person's input, and this run may ask nobody."""
    said = f"{server} asks for a person's input to go on, and this run may ask nobody"
    return failed(call, ToolError.new(said, code="input_required"))


def too_much_input(call: ToolRequest, server: str) -> ToolResult:
    """The tool asks for a person's input again and again."""
    said = f"{server} keeps asking for a person's input, and is asked no more"
    return failed(call, ToolError.new(said, code="input_required"))


def too_long_input(call: ToolRequest, server: str) -> ToolResult:
    """The answers to all that the tool asks are too large for one call."""
    said = f"the answers to what {server} asks are together more than {MAX_FORMS_BYTES:,} bytes; it was not called with them"
    return failed(call, ToolError.new(said, code="input_required"))


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
