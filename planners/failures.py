"""Why a call gave no result, what repairs it, and the values that people answer."""

import json
import re
from collections.abc import Collection, Sequence
from itertools import takewhile
from typing import Any, cast

from planners.facts import GET_DEVICE, GET_SITE, GET_TIME_SERIES, UPSERT_PROFILE
from planners.questions import EMAIL, PHONE, WEEK, Window
from planners.wording import joined
from sojourn import CallFailed, Case, RetryReason, ToolResult, Turn
from sojourn.repair import repair_payload

__all__ = ["declines", "defaults", "read_reply", "sentence_of", "values_of"]


def defaults(turn: Turn) -> dict[str, dict[str, Any]]:
    """Return a contact's role, and its last week if the time of the data is known."""
    record = turn.last(GET_SITE) or turn.last(GET_DEVICE)
    week = Window(length=WEEK).bounds(record.as_of) if record else {}
    return {UPSERT_PROFILE.id: {"role": "operations"}, GET_TIME_SERIES.id: week}


_NO = frozenset(
    {"no", "nobody", "none", "nothing", "skip", "cancel", "stop", "leave it", "never mind", "no thanks"}
)
_PATTERNS = {
    "email": EMAIL,
    "phone": PHONE,
    "role": re.compile(r"\b(?:operations|maintenance|owner)\b", re.IGNORECASE),
    "site_id": re.compile(r"\bs-\w{1,10}\b", re.IGNORECASE),
    "device_id": re.compile(r"\bd-\w{1,10}\b", re.IGNORECASE),
}
_LOWER = frozenset({"role", "site_id", "device_id"})


def declines(text: str) -> bool:
    """Whether the answer declines, such as `never mind`."""
    return text.strip().strip(".!").lower() in _NO


def read_reply(text: str, wanted: Sequence[str]) -> dict[str, Any] | None:
    """Return the values of an answer, or None if it declines."""
    return None if declines(text) else values_of(text, wanted)


def values_of(text: str, wanted: Collection[str]) -> dict[str, Any]:
    """Return the values of an answer.

    They are the non-empty values of a JSON object, or those found in a text.

    In a text, values of a known form come first, and the rest is the name, if a name is wanted. A text
    without any wanted value is the value of the one wanted field; the tool validates it.
    """
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if isinstance(given, dict):
        return {key: value for key, value in cast("dict[str, Any]", given).items() if value not in (None, "")}
    values: dict[str, Any] = {}
    rest = text
    for field, pattern in _PATTERNS.items():
        if match := pattern.search(rest):
            values[field] = match[0].rstrip(".").lower() if field in _LOWER else match[0].rstrip(".")
            rest = rest.replace(match[0], " ", 1)
    if "name" in wanted and (name := _name_in(rest)):
        values["name"] = name
    missed = [field for field in wanted if field not in values]
    if not values.keys() & set(wanted) and len(missed) == 1:
        values[missed[0]] = text.strip()
    return values


def _name_in(rest: str) -> str:
    words = re.sub(r"\b(?:as|for|the|contact|of|is|it|please|name|email)\b", " ", rest, flags=re.IGNORECASE)
    name = " ".join(re.findall(r"[^\W\d_][\w.'-]*", words))
    return name.title() if name.islower() else name


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
    """Whether a person declined to give the missing values of the call."""
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
