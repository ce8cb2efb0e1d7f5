"""Read and show the results of external calls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sojourn.contracts.awaits import AwaitExternalTools
from sojourn.contracts.principal import Principal
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import RetryHint, RetryReason, ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.wire_names import PROVIDE_TOOL_RESULTS
from sojourn.core.awaits.disclosure import describe_expiry, disclose, fence_signal, indent_lines, join_lines
from sojourn.core.awaits.envelope import Channel, Rejection, write_json
from sojourn.core.awaits.principals import answerer_of
from sojourn.core.payload.parse import arguments_digest
from sojourn.values.json_fault import json_fault
from sojourn.values.text import echo
from sojourn.values.visible import fence, visible
from sojourn.values.wire import MAX_RESULT_BYTES

__all__ = [
    "Supplied",
    "format_external_calls",
    "missing_result",
    "read_results",
    "result_digest",
    "sample_results",
]

_PARTS = ("result", "error", "retry_hint")
"""The fields of a result beside the id of its call."""

_MAX_SHOWN = 10
"""Calls shown; further ones are counted."""


@dataclass(frozen=True, slots=True)
class Supplied:
    await_id: str
    results: dict[str, dict[str, Any]]
    """By call id: `result`, or `error` and perhaps `retry_hint`; an activity checks them against the tool later."""
    by: str | None
    principal: Principal | None = None

    @property
    def text(self) -> str:
        """Empty: results come without a text."""
        return ""

    @property
    def digest(self) -> str:
        """Empty: a repetition is recognised call by call."""
        return ""


def read_results(
    wait: AwaitExternalTools, fields: dict[str, Any], by: str | None, channel: Channel
) -> Supplied | Rejection:
    principal = answerer_of(fields, channel)
    if isinstance(principal, Rejection):
        return principal
    results = fields.get("results")
    if not isinstance(results, list) or not results:
        return Rejection('`results` is a list of {"tool_call_id": "...", "result": ...} or with an "error"')
    call_ids = {item.tool_call_id for item in wait.items}
    by_call: dict[str, dict[str, Any]] = {}
    for result in cast("list[Any]", results):
        read = _one_result(result, call_ids)
        if isinstance(read, Rejection):
            return read
        if read[0] in by_call:
            return Rejection(f"call {read[0]} is answered twice")
        by_call[read[0]] = read[1]
    return _refuse_too_large(by_call) or Supplied(wait.id, by_call, by, principal)


def result_digest(result: Mapping[str, Any]) -> str:
    """Return the digest of a result of a call, which is equal for an equal JSON value."""
    return arguments_digest({name: result[name] for name in _PARTS if name in result})


def _refuse_too_large(by_call: dict[str, dict[str, Any]]) -> Rejection | None:
    # The limit applies to each result, and to all of them together.
    size = _size(by_call)
    if size <= MAX_RESULT_BYTES:
        return None
    for call_id, answer in by_call.items():
        if (own := _size({call_id: answer})) > MAX_RESULT_BYTES:
            return Rejection(
                f"the result of call {call_id} has {own:,} bytes, and one result has at most {MAX_RESULT_BYTES:,}; "
                "send a smaller one, such as a link to the data"
            )
    return Rejection(
        f"the results of one message have together at most {MAX_RESULT_BYTES:,} bytes, and these have {size:,}; "
        "send them in several messages"
    )


def _size(by_call: dict[str, dict[str, Any]]) -> int:
    return len(write_json(by_call).encode())


def _one_result(value: Any, call_ids: set[str]) -> tuple[str, dict[str, Any]] | Rejection:
    if not isinstance(value, dict):
        return Rejection("a result is an object with `tool_call_id`")
    fields = cast("dict[str, Any]", value)
    call_id = fields.get("tool_call_id")
    if not isinstance(call_id, str) or call_id not in call_ids:
        return Rejection(f"no call {echo(call_id)} waits here; open: {_list_ids(sorted(call_ids))}")
    if ("result" in fields) == ("error" in fields):
        return Rejection(f"call {call_id} is answered by either `result` or `error`")
    if "error" in fields and not _is_error(fields["error"]):
        return Rejection(f"the error of call {call_id} is a text, or an object with a `message`")
    answer = {name: fields[name] for name in _PARTS if name in fields}
    for name, part in answer.items():
        if fault := json_fault(part, max_bytes=None):
            return Rejection(f"the {name} of call {call_id} cannot be used: {fault.message}")
    return call_id, answer


def _is_error(error: Any) -> bool:
    if isinstance(error, dict):
        error = cast("dict[str, Any]", error).get("message")
    return isinstance(error, str) and bool(error)


def _list_ids(ids: Sequence[str]) -> str:
    return ", ".join(ids[:5]) + (" ..." if len(ids) > 5 else "")


def format_external_calls(run_id: str, wait: AwaitExternalTools) -> str:
    """Format external calls in Markdown for Temporal's screens."""
    calls: list[str] = []
    for item in wait.items[:_MAX_SHOWN]:
        calls += [
            f"{visible(item.tool_call_id)}: {visible(item.tool)}",
            *indent_lines(disclose(item.payload)),
        ]
    more = f"... and {len(wait.items) - _MAX_SHOWN} more." if len(wait.items) > _MAX_SHOWN else ""
    text = join_lines([*calls, more, describe_expiry(wait)])
    command = fence_signal(run_id, PROVIDE_TOOL_RESULTS, sample_results(wait))
    return "\n\n".join(["**Waiting for results from outside:**", fence(text), command])


def sample_results(wait: AwaitExternalTools) -> dict[str, Any]:
    call_id = wait.items[0].tool_call_id if wait.items else ""
    return {"id": wait.id, "results": [{"tool_call_id": call_id, "result": "THE RESULT"}]}


def missing_result(call: ToolRequest) -> ToolResult:
    """Return the result of a call for which no result was sent in time."""
    message = "its result was not sent in time; whether it was carried out is unknown"
    return ToolResult(
        name=call.name,
        tool_call_id=call.tool_call_id,
        error=ToolError.new(message, code=RetryReason.TIMEOUT),
        retry_hint=RetryHint(reason=RetryReason.TIMEOUT, tool=call.name, message=message),
    )
