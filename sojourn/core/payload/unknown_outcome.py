"""Decide which failures leave it open whether a call took effect."""

from collections.abc import Collection
from typing import Any, Literal

from sojourn.contracts import safe_exceptions
from sojourn.contracts.tool_error import RetryReason, ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.values.text import clip

__all__ = [
    "NOT_REPEATED",
    "Doubt",
    "changes_nothing",
    "doubt_about",
    "is_unknown",
    "leaves_unknown",
    "mark_doubts",
    "mark_unknown",
    "may_repeat",
    "never_repeats",
]

Doubt = Literal["", "unknown", "raised"]
"""`unknown`: an attempt was cut off, lost, or got no answer; `raised`: the tool raised an exception, perhaps after its effect."""

NOT_REPEATED = "not_repeated"
"""The code of a call that was not made, since an earlier one may have taken effect and its tool must not repeat it."""

_FACT = "the call may have taken effect, its outcome is unknown"
_OF_A_CALL = "a call may have taken effect, its outcome is unknown"
_MAX_ERROR = 2_000
_MAX_MESSAGE = 600


def changes_nothing(spec: ToolSpec) -> bool:
    """Return whether a call of a tool has no effect, whatever becomes of it."""
    return spec.trusted and spec.annotations.read_only is True


def may_repeat(spec: ToolSpec) -> bool:
    """Return whether a call may be made again after one whose outcome is unknown."""
    return changes_nothing(spec) or spec.annotations.idempotent is True


def never_repeats(spec: ToolSpec) -> bool:
    """Return whether a call must not be made again after it may have taken effect.

    A person may still allow it. The call of an agent is such a call: the calls of a further child run have
    keys of their own.
    """
    is_agent = spec.kind == "agent"
    return not changes_nothing(spec) and (is_agent or spec.annotations.idempotent is False)


def leaves_unknown(spec: ToolSpec, error: BaseException) -> bool:
    """Return whether a transient error leaves it open if the call took effect.

    A refused connection, a rate limit and a service that says that it is unavailable did not carry the call out. A
    connection that broke off may have.
    """
    if changes_nothing(spec):
        return False
    if safe_exceptions.is_a(error, ConnectionError):
        return not safe_exceptions.is_a(error, ConnectionRefusedError)
    return safe_exceptions.attribute(error, "outcome_unknown") is True


def is_unknown(result: ToolResult) -> bool:
    error, hint = result.error, result.retry_hint
    return bool(error and (error.outcome_unknown or (hint and hint.outcome_unknown)))


def doubt_about(result: ToolResult) -> Doubt:
    """Return the warning for a person about a failed call that may have taken effect.

    If the tool raised an exception that says nothing of the outcome, the call may still have taken effect.
    But most such exceptions are mistakes before any effect. So `raised` is no alarm.
    """
    error = result.error
    if error is None or not is_unknown(result):
        return ""
    is_known = result.retry_hint is not None or error.code == NOT_REPEATED or _FACT in error.message
    return "unknown" if is_known else "raised"


def mark_doubts(error: ToolError, doubts: Collection[Doubt]) -> ToolError:
    """Mark the error of a run, a turn or an output whose calls may have taken effect.

    The text says it too, unless a cause does, or the only doubt is that a tool raised an exception.
    """
    if not doubts:
        return error
    text = str(error)
    is_told = "may have taken effect" in text or "its outcome is unknown" in text
    message = error.message
    if "unknown" in doubts and not is_told:
        message = f"{clip(message.removesuffix('.'), _MAX_ERROR - len(_OF_A_CALL) - 2)}; {_OF_A_CALL}"
    return error.model_copy(update={"message": message, "outcome_unknown": True})


def mark_unknown(result: ToolResult, *, repeatable: bool = False) -> ToolResult:
    """Mark a failed result whose call may have taken effect."""
    error, hint = result.error, result.retry_hint
    if error is None or error.outcome_unknown:
        return result
    message = f"{clip(error.message, _MAX_ERROR - len(_FACT) - 2)}; {_FACT}"
    changes: dict[str, Any] = {
        "error": error.model_copy(update={"message": message, "outcome_unknown": True})
    }
    if hint is not None:
        after = hint.retry_after
        when = f" in {after.total_seconds():g} s" if after is not None else ""
        if hint.reason in (RetryReason.MISSING_FIELDS, RetryReason.INVALID_ARGUMENTS):
            again = (
                "Its tool takes these arguments no more, and with other arguments it is another effect, which would happen "
                "a second time. Do not call it with others: first check what happened, with a tool that only reads or by asking a person."
            )
        elif repeatable:
            again = (
                f"Make exactly the same call again{when}: it is the same effect, and does not happen twice. "
                "Use no other tool and no other arguments for it."
            )
        else:
            again = "Do not repeat it: first check what happened."
        text = f"{hint.tool} failed, and may have taken effect: its outcome is unknown. {again}"
        changes["retry_hint"] = hint.model_copy(
            update={"message": clip(text, _MAX_MESSAGE), "outcome_unknown": True}
        )
    return result.model_copy(update=changes)
