"""The transcript: its storage, its slices for readers, and the messages that answer questions."""

import zlib
from collections.abc import Iterable, Iterator, Sequence

from sojourn.contracts.message import Message, ToolCallPart
from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult, ToolTelemetry
from sojourn.core.values.sizes import MAX_SLICE_BYTES
from sojourn.core.values.wire import encode

__all__ = ["Packed", "call_ids", "for_planner", "question_message", "reply", "slice_of"]


def slice_of(messages: Iterable[bytes], after: int, until: int | None, offset: int) -> tuple[bytes, bool]:
    """Bytes of the JSON array `messages[after:until]` from `offset`, and whether they are the whole array.

    At most 1.5 MB, cut inside a message where needed; a shorter slice is the last.

    Args:
        messages: Each message as JSON.
        after: Index of the first message.
        until: Index after the last message; None for all.
        offset: Number of bytes to skip.
    """
    data = b"[" + b",".join(list(messages)[max(after, 0) : until]) + b"]"
    part = data[max(offset, 0) : max(offset, 0) + MAX_SLICE_BYTES]
    return part, len(part) == len(data)


def for_planner(result: ToolResult) -> ToolResult:
    """The result as the transcript holds it: without telemetry that is only the duration of one attempt."""
    spent = result.telemetry
    if spent is None or result.run_link or spent != ToolTelemetry(duration_ms=spent.duration_ms):
        return result
    return result.model_copy(update={"telemetry": None})


def call_ids(messages: Sequence[Message]) -> set[str]:
    """The tool_call_ids of all calls in these messages."""
    return {call.tool_call_id for message in messages for call in message.tool_calls}


BLOCK_BYTES = 32_000
"""Bytes of messages that are compressed together."""

_FASTEST = 1


class Packed:
    """An append-only list of messages, compressed in memory."""

    def __init__(self) -> None:
        self._blocks: list[tuple[list[int], bytes]] = []
        """Lengths of some messages, and their concatenated bytes, compressed."""
        self._open: list[bytes] = []
        self._open_bytes = 0
        self._count = 0

    def append(self, message: Message) -> int:
        """Add a message; returns its size on the wire, in bytes."""
        data = encode(message)
        self._open.append(data)
        self._open_bytes += len(data)
        self._count += 1
        if self._open_bytes >= BLOCK_BYTES:
            lengths = [len(each) for each in self._open]
            self._blocks.append((lengths, zlib.compress(b"".join(self._open), _FASTEST)))
            self._open, self._open_bytes = [], 0
        return len(data)

    def extend(self, messages: Iterable[Message]) -> int:
        """Add messages; returns their size on the wire, in bytes."""
        return sum([self.append(message) for message in messages])

    def __len__(self) -> int:
        """Number of messages."""
        return self._count

    @property
    def held(self) -> int:
        """Size in memory, in bytes."""
        return sum(len(data) for _, data in self._blocks) + self._open_bytes

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over the messages, each as JSON."""
        for lengths, data in self._blocks:
            block, start = zlib.decompress(data), 0
            for length in lengths:
                yield block[start : start + length]
                start += length
        yield from self._open


_NOT_EXECUTED = "not executed: the same plan asked a question; request it again, if it is still needed, with what is known now"


def question_message(plan: PlanOutcome) -> Message:
    """The assistant message of a plan that asks a question."""
    assert plan.await_
    return plan.message or Message.assistant(plan.await_.question)


def reply(plan: PlanOutcome, answer: Message) -> Message:
    """The message for the planner about its question: the answer itself, or the answer as the result of the call that asks.

    Other calls of the plan are answered as not executed, since a transcript answers every call.
    """
    if plan.asking is None or plan.message is None:
        return answer
    return Message.results([_result(call, plan.asking, answer) for call in plan.message.tool_calls])


def _result(call: ToolCallPart, asking: str, answer: Message) -> ToolResult:
    result = ToolResult(name=call.name, tool_call_id=call.tool_call_id)
    if call.tool_call_id == asking:
        return result.model_copy(update={"result": answer.text})
    return result.model_copy(update={"error": ToolError.new(_NOT_EXECUTED)})
