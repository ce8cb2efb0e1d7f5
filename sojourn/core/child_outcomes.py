"""Answers to calls of agents: how a child run ended, and what it spent, as its parent's result (SR-53, SR-87)."""

from typing import Any

from sojourn.contracts.artifact import Artifact
from sojourn.contracts.retry_hint import RetryHint, RetryReason
from sojourn.contracts.run import RunOutput
from sojourn.contracts.run_link import RunLink
from sojourn.contracts.spent import Spent
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult, ToolTelemetry
from sojourn.core.answer import MALFORMED_ANSWER
from sojourn.core.counts import add_telemetry

__all__ = ["GAVE_UP", "failed", "finished", "with_spent"]

GAVE_UP = "gave_up"
"""The code of a call whose child run ended by a limit; its cause's code names the limit."""


def finished(call: ToolRequest, output: RunOutput, link: RunLink, *, typed: bool) -> ToolResult:
    """A child run's output as its parent's result: answer, costs, calls made and the link (SR-53).

    Args:
        call: The parent's call.
        output: How the child ended.
        link: The child.
        typed: Whether a typed answer was asked for.
    """
    used = ToolTelemetry(**output.usage.model_dump(exclude={"cached_tokens"}), attempts=0)
    spent = Spent(
        children_count=output.children_count,
        telemetry=add_telemetry(output.telemetry, used),
        artifacts=output.artifacts,
    )
    if output.error:
        return _gave_up(call, output.text, output.error, link, spent)
    if typed and output.result is None:  # by an older worker, which did not tell why
        return failed(call, ToolError.new(output.text, code=MALFORMED_ANSWER), link, spent)
    answered = ToolResult(
        name=call.name,
        tool_call_id=call.tool_call_id,
        result=output.text if output.result is None else output.result,
    )
    return with_spent(answered, link, spent)


def failed(call: ToolRequest, error: ToolError, link: RunLink, spent: Spent | None) -> ToolResult:
    """A child run that failed; the chain of causes stays whole (SR-87), and what it spent counts."""
    malformed = error.code == MALFORMED_ANSWER
    why = "gave no answer that fits" if malformed else "failed"
    result = ToolResult(
        name=call.name,
        tool_call_id=call.tool_call_id,
        error=ToolError.with_cause(f"the agent run {link.run_id} {why}", error),
        retry_hint=_hint(call, "gave no answer of the declared shape", "Ask it differently")
        if malformed
        else None,
    )
    return with_spent(result, link, spent)


def with_spent(result: ToolResult, link: RunLink, spent: Spent | None) -> ToolResult:
    """The answer of a call with the child run that was made for it, and what that run spent."""
    changes: dict[str, Any] = {"run_link": link}
    if spent:
        changes |= {
            "telemetry": spent.telemetry,
            "children_count": spent.children_count,
            "artifacts": [_linked(one, link) for one in spent.artifacts],
        }
    return result.model_copy(update=changes)


def _gave_up(call: ToolRequest, said: str, why: ToolError, link: RunLink, spent: Spent) -> ToolResult:
    """A child run that a limit or a safeguard ended; where it answered all the same, the message holds its words."""
    partial = f'; it said "{said}"' if said and why.cause is None else ""
    result = ToolResult(
        name=call.name,
        tool_call_id=call.tool_call_id,
        error=ToolError.with_cause(f"the agent run {link.run_id} gave up{partial}", why).model_copy(
            update={"code": GAVE_UP}
        ),
        retry_hint=_hint(call, "gave up before it was done", "Ask it for less"),
    )
    return with_spent(result, link, spent)


def _hint(call: ToolRequest, what: str, instead: str) -> RetryHint:
    return RetryHint(
        reason=RetryReason.MALFORMED_RESPONSE,
        tool=call.name,
        message=f"The agent behind {call.name} ran, but {what}. {instead}, or use another tool.",
    )


def _linked(artifact: Artifact, link: RunLink) -> Artifact:
    return artifact if artifact.run_link else artifact.model_copy(update={"run_link": link})
