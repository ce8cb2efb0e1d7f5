"""A planner's last step in the transcript, with the calls that were made in place of failed ones.

A call in place of another has an id derived from it, `<its id>-repair1`: so people see its purpose,
and the next planner knows what was tried, on any worker.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

from sojourn.contracts.message import Message, ToolCallPart
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult

__all__ = ["LastStep", "is_repair", "stem"]

_REPAIR = re.compile(r"(.{1,54})-repair\d+")


class LastStep:
    """The calls of the planner's last step, and how they ended.

    Args:
        messages: The transcript.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._calls = {call.tool_call_id: call for message in messages for call in message.tool_calls}
        self._stems = {stem(call_id) for call_id in self._calls if not is_repair(call_id)}
        steps = [number for number, message in enumerate(messages) if message.tool_results]
        self.results = self._ended([messages[number].tool_results for number in reversed(steps)])
        """The results in call order, each of the call itself or of the last call in its place."""
        self.after = list(messages[steps[-1] + 1 :]) if steps else []
        """The messages after the step."""
        self._refused = {
            _key(result.name, self.sent(result))
            for message in messages
            for result in message.tool_results
            if result.error
        }

    def _ended(self, steps: Sequence[list[ToolResult]]) -> list[ToolResult]:
        latest: dict[str, ToolResult] = {}
        for results in steps:
            for result in results:
                latest.setdefault(stem(result.tool_call_id), result)
            if not all(self._is_repair(result.tool_call_id) for result in results):
                return [latest[stem(result.tool_call_id)] for result in results]
        return []

    def call_of(self, result: ToolResult) -> ToolRequest:
        """The call that a result answers, without its id, so that it can be repeated."""
        call = self._calls.get(result.tool_call_id) or ToolCallPart(
            type="tool_call", tool_call_id=result.tool_call_id, name=result.name
        )
        return call.request.model_copy(update={"tool_call_id": ""})

    def sent(self, result: ToolResult) -> dict[str, Any] | None:
        """The payload of the call that a result answers; None where it could not be read."""
        call, hint = self.call_of(result), result.retry_hint
        if call.raw is None:
            return call.payload
        return hint.prior_input if hint else None

    def tried(self, result: ToolResult) -> list[str]:
        """The tools of a result's original call and of the calls in its place, in order."""
        wanted = stem(result.tool_call_id)
        return [call.name for call_id, call in self._calls.items() if stem(call_id) == wanted]

    def failed_before(self, call: ToolRequest) -> bool:
        """Whether a call with the same tool and payload has failed before."""
        return _key(call.name, call.payload) in self._refused

    def in_place_of(self, result: ToolResult, call: ToolRequest) -> ToolRequest:
        """The call with an id derived from the original call's."""
        number = len(self.tried(result))
        return call.model_copy(update={"tool_call_id": f"{stem(result.tool_call_id)}-repair{number}"})

    def _is_repair(self, call_id: str) -> bool:
        return is_repair(call_id) and stem(call_id) in self._stems


def is_repair(call_id: str) -> bool:
    """Whether an id is that of a call in place of another."""
    return _REPAIR.fullmatch(call_id) is not None


def stem(call_id: str) -> str:
    """The part of an id that a call and the calls in its place share; an id has at most 64 characters."""
    repair = _REPAIR.fullmatch(call_id)
    if repair:
        return repair[1]
    return call_id if len(call_id) <= 54 else hashlib.sha256(call_id.encode()).hexdigest()[:32]


def _key(tool: str, payload: dict[str, Any] | None) -> str:
    return json.dumps([tool, payload], sort_keys=True)
