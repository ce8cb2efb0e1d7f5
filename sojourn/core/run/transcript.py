"""Store the transcript, slice it for readers, and answer questions in it."""

import lzma
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence

from sojourn.contracts.message import Message, ToolCallPart
from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult, ToolTelemetry
from sojourn.values.undecodable import MAX_TRANSCRIPT_BYTES, inflate
from sojourn.values.wire import MAX_SLICE_BYTES, decode_messages, encode

__all__ = ["Claim", "Packed", "Segments", "call_ids", "for_planner", "question_message", "reply", "slice_of"]


def slice_of(messages: Iterable[bytes], after: int, until: int | None, offset: int) -> tuple[bytes, bool]:
    """Return bytes of the JSON array `messages[after:until]` from `offset`.

    The flag says whether they are the whole array. The slice has at most 1.5 MB, and is cut inside a
    message if needed. A shorter slice is the last.
    """
    data = b"[" + b",".join(list(messages)[max(after, 0) : until]) + b"]"
    part = data[max(offset, 0) : max(offset, 0) + MAX_SLICE_BYTES]
    return part, len(part) == len(data)


def for_planner(result: ToolResult) -> ToolResult:
    """Return the result as the transcript holds it.

    It has no change of the memory. Telemetry that is only the duration of one attempt is left out.
    """
    if result.memory:
        result = result.model_copy(update={"memory": {}})
    spent = result.telemetry
    if spent is None or result.run_link or spent != ToolTelemetry(duration_ms=spent.duration_ms):
        return result
    return result.model_copy(update={"telemetry": None})


def call_ids(messages: Sequence[Message]) -> set[str]:
    return {call.tool_call_id for message in messages for call in message.tool_calls}


BLOCK_BYTES = 32_000
"""Bytes of messages that are compressed together in memory."""

_FASTEST = 1
_QUICK = 1
"""The LZMA preset: a third smaller than zlib, for 9 MB of memory, 5 ms a segment."""

Claim = dict[str, str]
"""The reference to a segment in external storage."""

Segments = tuple[tuple[int, str | Claim], ...]
"""A transcript as JSON: for each segment the number of its messages, and their lines, compressed, in Base64, or their claim.

Segments in external storage come first.
"""


class Packed:
    """An append-only list of messages, compressed in memory.

    A message is one line of JSON. The first messages of a long run may be in external storage, and then
    the list holds only their claims.
    """

    def __init__(self) -> None:
        self._stored: list[tuple[int, Claim]] = []
        """The messages in external storage: their number, and their claim."""
        self._segments: list[tuple[int, bytes]] = []
        """The messages of earlier executions: their number, and their lines, compressed well."""
        self._blocks: list[tuple[int, bytes]] = []
        """Further messages, compressed fast."""
        self._open: list[bytes] = []
        self._open_bytes = 0
        self._count = 0

    @classmethod
    def unpacked(cls, segments: Segments) -> "Packed":
        """Return the transcript that these segments make up."""
        packed = cls()
        for count, data in segments:
            if isinstance(data, str):
                packed._segments.append((count, b64decode(data, validate=True)))
            elif packed._segments:
                raise ValueError("a segment in storage follows one that is not")
            else:
                packed._stored.append((count, data))
        packed._count = sum(count for count, _ in segments)
        return packed

    @property
    def stored_segments(self) -> Segments:
        return tuple(self._stored)

    @property
    def claims(self) -> list[Claim]:
        return [claim for _, claim in self._stored]

    @property
    def stored_count(self) -> int:
        return sum(count for count, _ in self._stored)

    def move_to_storage(self, count: int, claim: Claim) -> None:
        """Leave the whole transcript to external storage."""
        self._stored.append((count, claim))
        self._segments, self._blocks, self._open, self._open_bytes = [], [], [], 0

    def segments(self) -> Segments:
        """Return the whole transcript.

        The messages of this execution become one more segment.
        """
        self._pack()
        if self._blocks:
            lines = b"\n".join(zlib.decompress(data) for _, data in self._blocks)
            self._segments.append(
                (sum(count for count, _ in self._blocks), lzma.compress(lines, preset=_QUICK))
            )
            self._blocks = []
        return (
            *self._stored,
            *((count, b64encode(data).decode()) for count, data in self._segments),
        )

    def fault(self) -> str | None:
        """Return why the segments of earlier executions cannot be read, or None."""
        left = MAX_TRANSCRIPT_BYTES
        for count, data in self._segments:
            try:
                lines = inflate(data, left)
            except ValueError as error:
                return str(error)
            left -= len(lines)
            if (found := lines.count(b"\n") + 1) != count:
                return f"a segment has {found} messages, and names {count}"
        return None

    def append(self, message: Message) -> int:
        """Add a message and return its size on the wire, in bytes."""
        data = encode(message)
        self._open.append(data)
        self._open_bytes += len(data)
        self._count += 1
        if self._open_bytes >= BLOCK_BYTES:
            self._pack()
        return len(data)

    def _pack(self) -> None:
        if self._open:
            self._blocks.append((len(self._open), zlib.compress(b"\n".join(self._open), _FASTEST)))
            self._open, self._open_bytes = [], 0

    def extend(self, messages: Iterable[Message]) -> int:
        return sum([self.append(message) for message in messages])

    def drop_last(self, count: int) -> int:
        """Remove the last messages and return their size on the wire, in bytes.

        They must have been added since any message was stored.
        """
        while len(self._open) < count:
            _, data = self._blocks.pop()
            self._open = [*zlib.decompress(data).split(b"\n"), *self._open]
        first = len(self._open) - count
        size = sum(map(len, self._open[first:]))
        self._open = self._open[:first]
        self._open_bytes = sum(map(len, self._open))
        self._count -= count
        return size

    def messages(self) -> list[Message]:
        """Return the messages that are not in external storage."""
        return decode_messages(b"[" + b",".join(self) + b"]")

    def __len__(self) -> int:
        return self._count

    @property
    def memory_bytes(self) -> int:
        """Size in memory, in bytes, but for claims."""
        return sum(len(data) for _, data in (*self._segments, *self._blocks)) + self._open_bytes

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over the messages that are not in external storage, each as JSON.

        Raises:
            ValueError: The segments of earlier executions, which a client may have forged, are damaged, or too large together.
        """
        left = MAX_TRANSCRIPT_BYTES
        for _, data in self._segments:
            lines = inflate(data, left)
            left -= len(lines)
            yield from lines.split(b"\n")
        for _, data in self._blocks:
            yield from zlib.decompress(data).split(b"\n")
        yield from self._open


_NOT_EXECUTED = "not executed: the same plan asked a question; request it again, if it is still needed, with what is known now"


def question_message(plan: PlanOutcome) -> Message:
    assert plan.await_
    return plan.message or Message.assistant(plan.await_.summary)


def reply(plan: PlanOutcome, answer: Message) -> Message:
    """Return the message for the planner about its question.

    It is the answer itself, or the answer as the result of the call that asks. Other calls of the plan
    are answered as not executed, since a transcript answers every call.
    """
    if plan.asking is None or plan.message is None:
        return answer
    return Message.results([_result(call, plan.asking, answer) for call in plan.message.tool_calls])


def _result(call: ToolCallPart, asking: str, answer: Message) -> ToolResult:
    result = ToolResult(name=call.name, tool_call_id=call.tool_call_id)
    if call.tool_call_id == asking:
        return result.model_copy(update={"result": answer.text})
    return result.model_copy(update={"error": ToolError.new(_NOT_EXECUTED)})
