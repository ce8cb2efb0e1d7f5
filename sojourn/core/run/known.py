"""Known messages on the wire: a run that goes on takes the ids of its last 10,000 messages along, each in 14 bytes."""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, cast

from typing_extensions import TypeIs

__all__ = ["DIGEST_BYTES", "packed", "unpacked"]

DIGEST_BYTES = 8
"""Bytes of the digest of a message's id."""

MOST_BYTES = 1_000_000
"""Most bytes of the places together, of a state that somebody made up."""


def packed(known: Mapping[str, str]) -> list[str]:
    """The digests, and the places, compressed, each in Base64: a digest cannot be compressed, and places rise."""
    digests = bytes.fromhex("".join(known))
    places = zlib.compress(" ".join(known.values()).encode())
    return [b64encode(digests).decode(), b64encode(places).decode()]


def unpacked(value: Any) -> Any:
    """The place of each digest, from what `packed` makes; another value is returned as it is.

    Raises:
        ValueError: The texts are damaged, or a mapping has something else than digests and places.
    """
    if _is_pair(value):
        return _read(*value)
    if isinstance(value, dict):
        for digest, place in cast("dict[Any, Any]", value).items():
            _check(digest, place)
    return cast("Any", value)


def _read(digests: str, places: str) -> dict[str, str]:
    hashed, data = b64decode(digests, validate=True), b64decode(places, validate=True)
    try:
        each = zlib.decompressobj().decompress(data, MOST_BYTES).decode().split()
    except zlib.error as error:
        raise ValueError(f"the places of known messages are damaged: {error}") from None
    if len(hashed) != DIGEST_BYTES * len(each):
        raise ValueError("known messages have as many places as digests")
    starts = range(0, len(hashed), DIGEST_BYTES)
    return {
        hashed[start : start + DIGEST_BYTES].hex(): place for start, place in zip(starts, each, strict=True)
    }


def _check(digest: Any, place: Any) -> None:
    """Refuse what could not be written again."""
    is_digest = isinstance(digest, str) and len(bytes.fromhex(digest)) == DIGEST_BYTES
    if not is_digest or not isinstance(place, str) or place.split() != [place]:
        raise ValueError("known messages are digests and places")


def _is_pair(value: Any) -> TypeIs[list[str]]:
    return isinstance(value, list) and [type(each) for each in cast("list[Any]", value)] == [str, str]
