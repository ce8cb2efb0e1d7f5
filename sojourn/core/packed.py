"""Packed: the messages of a transcript as a waiting run keeps them, ready to be sent.

As objects, messages take ten times their bytes on the wire; thousands of runs wait on a worker, most
of them for days. What a run keeps is only told again, so it is kept as it is told, and compressed
where it has grown.
"""

import zlib
from collections.abc import Iterable, Iterator

from sojourn.contracts.message import Message
from sojourn.core.wire import encode

__all__ = ["Packed"]

BLOCK_BYTES = 32_000
"""Bytes of messages that are compressed together."""

_FASTEST = 1


class Packed:
    """Messages in their order; more can be added, none is changed."""

    def __init__(self) -> None:
        self._blocks: list[tuple[list[int], bytes]] = []
        """The lengths of some messages, and their bytes one after the other, compressed."""
        self._open: list[bytes] = []
        self._open_bytes = 0
        self._count = 0

    def append(self, message: Message) -> int:
        """Add a message; gives its bytes on the wire."""
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
        """Add messages; gives their bytes on the wire."""
        return sum([self.append(message) for message in messages])

    def __len__(self) -> int:
        """How many messages there are."""
        return self._count

    @property
    def held(self) -> int:
        """Bytes in memory."""
        return sum(len(data) for _, data in self._blocks) + self._open_bytes

    def __iter__(self) -> Iterator[bytes]:
        """Each message as JSON."""
        for lengths, data in self._blocks:
            block, start = zlib.decompress(data), 0
            for length in lengths:
                yield block[start : start + length]
                start += length
        yield from self._open
