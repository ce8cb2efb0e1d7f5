"""Payloads that a run does not accept, and bounded decompression.

Any client of the namespace may send payloads that this deployment cannot decode, or clear text to one that
accepts only encrypted payloads. A run refuses such a payload, as it refuses any other invalid one.
"""

import lzma
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "CLEAR_TEXT",
    "MAX_TRANSCRIPT_BYTES",
    "OrUndecodable",
    "Undecodable",
    "first_undecodable",
    "inflate",
]

CLEAR_TEXT = "it is not encrypted, and this deployment takes encrypted messages only"
"""Why a message in clear text is refused."""


@dataclass(frozen=True, slots=True)
class Undecodable:
    reason: str
    """The reason, for the sender and operators; contains nothing of the payload."""
    is_clear: bool = False
    """Whether the payload could be decoded, but was in clear text."""
    value: Any = None


@dataclass(frozen=True, slots=True)
class OrUndecodable:
    """A type hint for decoding: the wanted type, or an `Undecodable`."""

    of: type

    def mark_unread(self, reason: str) -> Undecodable:
        return Undecodable(reason)


def first_undecodable(values: Sequence[Any]) -> Undecodable | None:
    return next((value for value in values if isinstance(value, Undecodable)), None)


MAX_TRANSCRIPT_BYTES = 32_000_000
"""Largest transcript in the state of an execution, and largest segment in external storage, in bytes of JSON."""

_MEMORY = 40_000_000
"""Most memory that LZMA may take beside the result, as the data declares.

Our own presets need 2 MB.
"""

_XZ = b"\xfd7zXZ\x00"


def inflate(data: bytes, most: int) -> bytes:
    """Return data that was compressed by LZMA, as a file of xz, or by zlib."""
    try:
        whole, is_whole = (_lzma if data.startswith(_XZ) else _zlib)(data, most)
    except (lzma.LZMAError, zlib.error, EOFError) as error:
        raise ValueError(f"the compressed data is damaged: {error}") from None
    if len(whole) > most:
        raise ValueError(f"the compressed data has more than {most:,} bytes")
    if not is_whole:
        raise ValueError("the compressed data is cut off, or goes on behind its end")
    return whole


def _lzma(data: bytes, most: int) -> tuple[bytes, bool]:
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)
    parts, left = [decompressor.decompress(data, most + 1)], most + 1
    while parts[-1] and not decompressor.eof and not decompressor.needs_input:
        left -= len(parts[-1])
        if left <= 0:
            break
        parts.append(decompressor.decompress(b"", left))
    return b"".join(parts), decompressor.eof and not decompressor.unused_data


def _zlib(data: bytes, most: int) -> tuple[bytes, bool]:
    decompressor = zlib.decompressobj()
    whole = decompressor.decompress(data, most + 1)
    return whole, decompressor.eof and not decompressor.unused_data
