"""Span names and attributes, by OpenTelemetry's conventions for generative AI.

Other names are Sojourn's own: https://github.com/open-telemetry/semantic-conventions-genai lists
those of the conventions. Span names have few values: they hold ids that an app declares, never a
name that a model invented. Values are bounded, and hold no payload, result or message.
"""

import re

from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.tool_error import RetryReason
from sojourn.contracts.tool_result import ToolResult

__all__ = [
    "AGENT",
    "ATTEMPT",
    "CONVERSATION",
    "ERROR",
    "KIND",
    "OPERATION",
    "OTHER",
    "OUTCOME",
    "PARENT_CALL",
    "RUN",
    "TOOL",
    "TURN",
    "Attributes",
    "code",
    "error_type",
    "is_known",
    "of_call",
    "of_run",
    "short",
]

Attributes = dict[str, str | int | float | bool]

OPERATION = "gen_ai.operation.name"
AGENT = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
TOOL = "gen_ai.tool.name"
ERROR = "error.type"
RUN = "sojourn.run_id"
TURN = "sojourn.turn_id"
ATTEMPT = "sojourn.attempt"
KIND = "sojourn.kind"
OUTCOME = "sojourn.outcome"
PARENT_CALL = "tool.parent_call_id"

OTHER = "_OTHER"
_CODE = re.compile(r"[A-Za-z_][\w.]{0,63}")
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")
_REASONS = frozenset(value for name, value in vars(RetryReason).items() if name.isupper())


def short(text: str) -> str:
    """Return at most 200 characters of a text, `?` for any but printable ASCII."""
    return _UNPRINTABLE.sub("?", text[:200])


def code(text: str | None) -> str:
    """Return an error's code or name, or `_OTHER` for a text of another form."""
    return text if text and _CODE.fullmatch(text) else OTHER


def of_run(operation: str, *, agent_id: str, run_id: str, session_id: str, turn_id: str) -> Attributes:
    agent = short(agent_id) or OTHER
    found: Attributes = {
        OPERATION: operation,
        "gen_ai.agent.id": agent,
        AGENT: agent,
        RUN: run_id,
    }
    if session_id:
        found[CONVERSATION] = short(session_id)
    if turn_id:
        found[TURN] = short(turn_id)
    return found


def of_call(tool: str, call_id: str, parent_call_id: str | None) -> Attributes:
    """Return the attributes that the span of a call has in addition (SR-69)."""
    found: Attributes = {
        TOOL: short(tool),
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call_id,
        "tool.call_id": call_id,
    }
    if parent_call_id:
        found[PARENT_CALL] = parent_call_id
    return found


def is_known(dispatch: Dispatch | None, result: ToolResult) -> bool:
    """Return whether the app declares the tool: a model may call any name."""
    if dispatch is None:
        return False
    hint = result.retry_hint
    return dispatch.kind != "answered" or hint is None or hint.reason != RetryReason.TOOL_UNAVAILABLE


def error_type(result: ToolResult, *, from_outside: bool = False) -> str | None:
    """Return the error type of a failed call, or None for a success.

    It is the hint's reason, else the error's code. From outside, any other value than a `RetryReason` is
    `_OTHER`.
    """
    if result.error is None:
        return None
    reason = result.retry_hint.reason if result.retry_hint else result.error.code
    return OTHER if from_outside and reason not in _REASONS else code(reason)
