"""Lines: a stream of bytes cut at its line breaks, holding no more than one bounded line."""

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Lines", "Overlong"]

_EDGE = 256


@dataclass(frozen=True, slots=True)
class Overlong:
    """A line that was too long to keep."""

    head: bytes
    """Its first bytes."""
    tail: bytes
    """Its last bytes."""
    size: int
    """Bytes in all."""


class Lines:
    """Collects lines.

    Args:
        limit: Bytes of the longest line kept whole.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._head = b""
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes | Overlong]:
        """The lines that a further chunk completes, without their breaks."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._add(end)
            yield self._taken()
        self._add(rest)

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        self._kept += part
        if self._size > self._limit:
            self._head = self._head or bytes(self._kept[:_EDGE])
            del self._kept[:-_EDGE]

    def _taken(self) -> bytes | Overlong:
        whole = bytes(self._kept)
        line = whole if self._size <= self._limit else Overlong(self._head, whole[-_EDGE:], self._size)
        self._kept.clear()
        self._head, self._size = b"", 0
        return line
