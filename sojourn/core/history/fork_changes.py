"""The record of what a fork was given: a decision of whoever forked, which flows and planners act on."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from sojourn.contracts.run import ForkChange, ForkedFrom
from sojourn.contracts.tool_call import ToolRequest
from sojourn.core.history.fork import Change
from sojourn.core.values.text import clip, readable

__all__ = ["MAX_GIVEN", "changes_of", "text_of_change", "texts_of_changes"]

MAX_GIVEN = 500
"""Most characters that are recorded of what was given; the digest is of all of it."""


def changes_of(change: Change, calls: Mapping[str, ToolRequest], *, approve: bool | None) -> list[ForkChange]:
    """The record of a change.

    Args:
        change: The change.
        calls: The calls of the step that it is about, by id.
        approve: The decision on the call that it asks about, if that is decided at once.
    """
    found: list[ForkChange] = []
    for call_id, result in change.results.items():
        given = result.result if result.error is None else {"error": str(result.error)}
        found.append(_given("result", given, calls.get(call_id)))
    for call_id, arguments in change.arguments.items():
        found.append(_given("arguments", dict(arguments), calls.get(call_id)))
    if change.answer is not None:
        found.append(_given("answer", change.answer))
    if change.asks is not None:
        decided = "" if approve is None else "approve" if approve else "deny"
        found.append(_given("decision", decided, calls.get(change.asks)))
    if change.message is not None:
        found.append(_given("message", change.message))
    return found


def text_of_change(change: ForkChange) -> str:
    """A change on one line, such as `result of shop.find: {"limit": 5}`."""
    of = f" of {change.tool}" if change.tool else ""
    return f"{change.kind}{of}: {change.given}"


def texts_of_changes(origin: ForkedFrom) -> list[str]:
    """What a fork was given, a line each, but for a message, which stands in the event itself."""
    return [text_of_change(each) for each in origin.changes if each.kind != "message"]


def _given(kind: str, value: Any, call: ToolRequest | None = None) -> ForkChange:
    is_text = isinstance(value, str) and kind != "result"
    text = value if is_text else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    return ForkChange(
        kind=kind,
        tool_call_id=call.tool_call_id if call else "",
        tool=call.name if call else "",
        given=clip(readable(text), MAX_GIVEN),
        digest=hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest(),
    )
