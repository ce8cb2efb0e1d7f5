"""Decompression of data that anybody may have made: within a bound, or refused."""

import lzma
import zlib

__all__ = ["MAX_TRANSCRIPT_BYTES", "inflate"]

MAX_TRANSCRIPT_BYTES = 32_000_000
"""Largest transcript in the state of an execution, and largest segment in external storage, in bytes of JSON."""

_MEMORY = 40_000_000
"""Most memory that LZMA may take beside the result: what data says that it needs. Our own presets need 2 MB."""

_XZ = b"\xfd7zXZ\x00"


def inflate(data: bytes, most: int) -> bytes:
    """Return data that was compressed by LZMA, as a file of xz, or by zlib.

    Args:
        data: The compressed data.
        most: Most bytes of the result.

    Raises:
        ValueError: The data is damaged, goes on behind its end, or has more than `most` bytes.
    """
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
