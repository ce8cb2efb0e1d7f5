"""What a model reads of a tool's answer.

A success is its result as JSON; a text as it is. A failure is one compact text, in this order,
each line only where there is something to say:

    failed: missing_fields
    Correct the arguments and call ops__devices__list again: `site_id` is missing
    - `lines[3].sku` is missing            (all faults, where the line above has no room for them)
    arguments that fit: {"site_id": "s-1"}
    you sent: {"status": "offline"}

The second line is the hint's message, which names every fault with what would fit (SR-124, SR-128).
Tools are named as the model knows them.
"""

import json
from typing import Any

from sojourn.contracts.retry_hint import RetryHint
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.schema.issue_text import sentence
from sojourn.core.values.text import CUT, clip
from sojourn.models.names import Names

__all__ = ["result_text"]

MAX_JSON = 1_500
"""Characters of an example, and of what was sent."""

MAX_ISSUES = 40
"""Faults that are listed."""


def result_text(result: ToolResult, names: Names) -> str:
    """The answer to a call, as its model reads it.

    Args:
        result: As the transcript holds it.
        names: The tools that the request knows.
    """
    return names.spoken(_failure(result)) if result.error else _success(result)


def _success(result: ToolResult) -> str:
    value = result.result
    told = value if isinstance(value, str) else _json(value)
    if not result.artifacts:
        return told
    kinds = ", ".join(f"{artifact.kind} ({artifact.size:,} bytes)" for artifact in result.artifacts)
    return f"{told}\n[kept for the people who follow the run, and not shown to you: {kinds}]"


def _failure(result: ToolResult) -> str:
    hint, error = result.retry_hint, result.error
    assert error
    code = (hint and hint.reason) or error.code
    lines = [f"failed: {code}" if code else "failed"]
    lines.append((hint and hint.message) or str(error))
    if hint:
        lines += _more_issues(hint)
        if hint.example_input is not None:
            lines.append(f"arguments that fit: {clip(_json(hint.example_input), MAX_JSON)}")
        if hint.prior_input is not None and hint.issues:
            lines.append(f"you sent: {clip(_json(hint.prior_input), MAX_JSON)}")
    return "\n".join(lines)


def _more_issues(hint: RetryHint) -> list[str]:
    """All faults, where the message had no room for each."""
    said = hint.message or ""
    if not said.endswith((CUT, " more")):
        return []
    more = len(hint.issues) - MAX_ISSUES
    told = [f"- {sentence(issue)}" for issue in hint.issues[:MAX_ISSUES]]
    return [*told, f"and {more} more"] if more > 0 else told


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
