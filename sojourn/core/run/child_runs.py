"""Share limits with child runs, and turn their output into results (SR-53, SR-87)."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sojourn.contracts.plan import PlanResult
from sojourn.contracts.run import RunOutput, Spent
from sojourn.contracts.run_policy import Caps, Limits, RunPolicyOverride
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import RetryHint, RetryReason, ToolError
from sojourn.contracts.tool_result import Artifact, RunLink, ToolResult, ToolTelemetry
from sojourn.core.payload.parse import ParseFault, parse_arguments
from sojourn.core.payload.unknown_outcome import mark_unknown
from sojourn.core.run.totals import add_telemetry
from sojourn.core.schema.issues import sentence
from sojourn.core.schema.validate import Validator
from sojourn.values.json_value import Schema
from sojourn.values.text import clip

__all__ = [
    "GAVE_UP",
    "MALFORMED_ANSWER",
    "ChildTime",
    "add_spent",
    "exhausted_share",
    "inherit_limits",
    "result_of_failure",
    "result_of_output",
    "share_of",
    "validate_child_result",
]


def share_of(caps: Caps, calls: int, children: int, limits: Limits) -> RunPolicyOverride:
    """Return an equal share of the limits for each child run of one step.

    All child runs together never exceed the caps.
    """
    left = None if caps.tool_calls is None else max(caps.tool_calls - calls, 0)
    return RunPolicyOverride(
        max_tool_calls=None if left is None else left // children,
        max_tokens=None if caps.tokens is None else caps.tokens // children,
        max_cost=None if caps.cost is None else caps.cost / children,
        max_depth=limits.max_depth,
    )


def exhausted_share(share: RunPolicyOverride) -> str | None:
    """Return which limit leaves a child run nothing to plan with, or None.

    Planning needs tokens and money. Without calls left, a child run may still answer.
    """
    if share.max_tokens == 0:
        return "max_tokens"
    return "max_cost" if share.max_cost == 0 else None


def inherit_limits(
    own: RunPolicyOverride | None, share: RunPolicyOverride | None, time_left: timedelta | None
) -> RunPolicyOverride | None:
    """Return the limits that a child run starts with.

    They are its share, the time left, and the prohibitions for the whole tree. Time is not divided, since
    the child runs of one step run in parallel.
    """
    passed = RunPolicyOverride(
        time_budget=None if time_left is None else max(time_left, timedelta(milliseconds=1)),
        interrupts_allowed=False if own and own.interrupts_allowed is False else None,
        approval=own.approval if own else None,
        denied_tools=own.denied_tools if own else None,
        denied_tags=own.denied_tags if own else None,
    )
    whole = passed.tightened(share)
    return whole if whole.set_fields() else None


GAVE_UP = "gave_up"
"""The code of a call whose child run a limit ended; the code of its cause names the limit."""


def result_of_output(
    call: ToolRequest, output: RunOutput, link: RunLink, *, typed: bool, may_act: bool | None = None
) -> ToolResult:
    """Return the result of a call from its child run's output (SR-53)."""
    used = ToolTelemetry(
        **output.usage.model_dump(exclude={"cached_tokens", "cache_write_tokens"}), attempts=0
    )
    spent = Spent(
        children_count=output.children_count,
        telemetry=add_telemetry(output.telemetry, used),
        artifacts=output.artifacts,
        taint=output.taint,
    )
    if output.error:
        gave_up = _result_of_limit(call, output.text, output.error, link, spent)
        return mark_unknown(gave_up) if may_act and output.may_have_acted else gave_up
    if typed and output.result is None:  # written by an older worker, which did not give the reason
        return result_of_failure(call, ToolError.new(output.text, code=MALFORMED_ANSWER), link, spent)
    answered = ToolResult(
        name=call.name,
        tool_call_id=call.tool_call_id,
        result=output.text if output.result is None else output.result,
    )
    return add_spent(answered, link, spent)


def result_of_failure(
    call: ToolRequest, error: ToolError, link: RunLink, spent: Spent | None, *, may_act: bool | None = None
) -> ToolResult:
    """Return the result of a call whose child run failed.

    It holds the whole chain of causes (SR-87) and the run's spending. If the run failed after one of its
    calls took effect, or may have, the outcome of the parent's call is unknown. The same holds for a run
    that was terminated or timed out, since it could not say.
    """
    is_open = error.outcome_unknown or (spent is not None and spent.may_have_acted is not False)
    error = error.model_copy(update={"outcome_unknown": False})
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
    return add_spent(mark_unknown(result) if may_act and is_open else result, link, spent)


def add_spent(result: ToolResult, link: RunLink, spent: Spent | None) -> ToolResult:
    changes: dict[str, Any] = {"run_link": link}
    if spent:
        changes |= {
            "telemetry": spent.telemetry,
            "children_count": spent.children_count,
            "artifacts": [_link(artifact, link) for artifact in spent.artifacts],
            "taint": spent.taint and spent.taint.found_in(link.run_id),
        }
    return result.model_copy(update=changes)


def _result_of_limit(
    call: ToolRequest, answer: str, why: ToolError, link: RunLink, spent: Spent
) -> ToolResult:
    # If the child run answered all the same, the answer is in the message.
    partial = f'; it said "{answer}"' if answer and why.cause is None else ""
    result = ToolResult(
        name=call.name,
        tool_call_id=call.tool_call_id,
        error=ToolError.with_cause(f"the agent run {link.run_id} gave up{partial}", why).model_copy(
            update={"code": GAVE_UP}
        ),
        retry_hint=_hint(call, "gave up before it was done", "Ask it for less"),
    )
    return add_spent(result, link, spent)


def _hint(call: ToolRequest, what: str, instead: str) -> RetryHint:
    return RetryHint(
        reason=RetryReason.MALFORMED_RESPONSE,
        tool=call.name,
        message=f"The agent behind {call.name} ran, but {what}. {instead}, or use another tool.",
    )


def _link(artifact: Artifact, link: RunLink) -> Artifact:
    return artifact if artifact.run_link else artifact.model_copy(update={"run_link": link})


@dataclass(slots=True)
class ChildTime:
    """The active time of child runs that their parent waited for.

    Parallel child runs count once.
    """

    total: timedelta = timedelta(0)
    """Duration of the longest sequence of child runs in which each began after the one before had ended."""

    def count_ended(self, began: timedelta, active: timedelta | None) -> None:
        """Count a child run that has ended."""
        if active:
            self.total = max(self.total, began + active)

    def beyond(self, own: timedelta) -> timedelta:
        """Return how far the total exceeds the parent run's own active time."""
        return max(self.total - own, timedelta(0))


MALFORMED_ANSWER = "MalformedAnswer"
"""The code of a run without the typed answer that its parent expects.

The parent's call fails as `malformed_response`.
"""

_MAX_ISSUES = 5


def validate_child_result(plan: PlanResult, schema: Schema) -> PlanResult | str:
    """Return the plan with its typed answer, or why it does not fit the schema.

    An answer as text is accepted when it is one JSON object that fits.
    """
    assert plan.final_response is not None
    result = plan.result
    if result is None:
        parsed = parse_arguments(plan.final_response.text)
        result = None if isinstance(parsed, ParseFault) else parsed.payload
    issues = _issues(result, schema)
    if not issues:
        return plan.model_copy(update={"result": result})
    issue_list = "; ".join(sentence(issue) for issue in issues[:_MAX_ISSUES])
    return clip(
        "the answer does not fit what the caller of this agent asked for; give PlanResult.final(text, result=...) "
        f"with a result that fits: {issue_list}",
        1_000,
    )


def _issues(result: Any, schema: Schema) -> list[Any]:
    return Validator(schema).issues(result)
