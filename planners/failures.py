"""Failures: why a call gave no result, as a sentence of the answer."""

from itertools import takewhile

from planners.defaults import defaults
from planners.replies import declines
from planners.wording import joined
from sojourn import CallFailed, Case, RetryReason, ToolResult
from sojourn.repair import repair_payload

__all__ = ["sentence_of"]

_REPAIRABLE = (RetryReason.MISSING_FIELDS, RetryReason.INVALID_ARGUMENTS)


def sentence_of(case: Case, failed: CallFailed) -> str:
    """Return why the call failed, or that it was left undone because a person said so."""
    result = failed.result
    title = next((spec.title for spec in case.turn.tools if spec.id == result.name), None) or result.name
    if _was_declined(case, result):
        return f"{title}: left undone, as you said."
    if not case.may_ask and (missing := _missing(case, result)):
        return f"To {title[:1].lower()}{title[1:]} I need the {joined(missing)}, which I do not have."
    return _reason(title, result)


def _was_declined(case: Case, result: ToolResult) -> bool:
    """Whether a person was asked for what the call lacks, and declined."""
    if result.retry_hint is None or result.retry_hint.reason not in _REPAIRABLE:
        return False
    messages = case.turn.messages
    place = next(at for at, message in enumerate(messages) if result in message.tool_results)
    asked = takewhile(lambda message: not message.tool_calls, messages[place + 1 :])
    texts = [message.text for message in asked if message.role in {"user", "system"}]
    return any(declines(text) or text.startswith("The question was declined") for text in texts)


def _missing(case: Case, result: ToolResult) -> list[str]:
    hint = result.retry_hint
    if hint is None or hint.reason != RetryReason.MISSING_FIELDS:
        return []
    known = defaults(case.turn).get(result.name)
    return repair_payload(hint, hint.prior_input or {}, defaults=known).missing


def _reason(title: str, result: ToolResult) -> str:
    hint, reason = result.retry_hint, str(result.error or "no reason given")
    if result.error and result.error.code == "denied":
        return f"{title}: not approved, so it was not done ({reason.removeprefix('denied: ')})."
    match hint.reason if hint else None:
        case RetryReason.TIMEOUT:
            return f"{title} did not answer in time."
        case RetryReason.RATE_LIMITED:
            after = hint.retry_after if hint else None
            return f"{title} is over its limit. Try again {f'in {after.total_seconds():g} s' if after else 'later'}."
        case RetryReason.TOOL_UNAVAILABLE:
            return f"{title} is not available now: {reason.removeprefix(f'{result.name} is unavailable: ')}."
        case _:
            return f"{title} failed: {reason}."
