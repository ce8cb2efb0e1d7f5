"""The ids of known messages, packed for continue-as-new in 9 bytes each."""

import hashlib
import re
import zlib
from base64 import b64decode, b85decode, b85encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from typing_extensions import TypeIs

from sojourn.contracts.ids import place_in
from sojourn.values.undecodable import inflate

__all__ = ["ANSWER", "digest_of", "pack", "unpack"]

DIGEST_BYTES = 6

ANSWER: Final = "+"
"""Behind the place of a message that was an answer."""

MOST_BYTES = 1_000_000
"""Most bytes of all places together, as a guard against a forged state."""

_PLACE = re.compile(r"([0-9]{1,18})-([0-9]{6,18})-([0-9]{5,18})(\+?)")
_EARLIER_BYTES = 8
"""Bytes of a digest as earlier versions wrote it; the first `DIGEST_BYTES` are the same."""


def digest_of(message_id: str) -> str:
    hashed = hashlib.blake2b(message_id.encode(errors="surrogatepass"), digest_size=_EARLIER_BYTES)
    return hashed.digest()[:DIGEST_BYTES].hex()


def pack(known: Mapping[str, str]) -> list[str]:
    """Return the digests and the places in Base85, behind the number of this form.

    The places are stored as increases, compressed.
    """
    digests, rises = bytes.fromhex("".join(known)), zlib.compress(_write_rises(known.values()).encode(), 9)
    return ["2", b85encode(digests).decode(), b85encode(rises).decode()]


def unpack(value: Any) -> Any:
    """Return the place of each digest, from the output of `pack` of any version.

    Any other value is returned as it is.
    """
    if _is_texts(value, 3) and value[0] == "2":
        places = list(_places(_inflate(b85decode(value[2]))))
        return _of(b85decode(value[1]), DIGEST_BYTES, places)
    if _is_texts(value, 2):
        digests, places = (b64decode(text, validate=True) for text in value)
        return _of(digests, _EARLIER_BYTES, _inflate(places).split())
    if isinstance(value, dict):
        known = cast("dict[str, str]", value)
        return _of(bytes.fromhex("".join(known)), _EARLIER_BYTES, list(known.values()))
    return value


def _write_rises(places: Iterable[str]) -> str:
    # Executions and records are stored as increases. The columns follow one another.
    columns: tuple[list[int], ...] = ([], [], [])
    executions = record = 0
    for place in places:
        now, at, k, answer = _numbers(place)
        rise = now - executions, at - (record if now == executions else 0), 2 * k + answer
        for column, number in zip(columns, rise, strict=True):
            column.append(number)
        executions, record = now, at
    return " ".join(str(number) for column in columns for number in column)


def _places(rises: str) -> Iterable[str]:
    numbers = [int(number) for number in rises.split()]
    count = len(numbers) // 3
    executions = record = 0
    for rise, of_record, k in zip(
        numbers[:count], numbers[count : 2 * count], numbers[2 * count :], strict=True
    ):
        executions, record = executions + rise, of_record + (0 if rise else record)
        yield place_in(executions, record, k // 2) + ANSWER * (k % 2)


def _numbers(place: Any) -> tuple[int, int, int, bool]:
    found = _PLACE.fullmatch(place) if isinstance(place, str) else None
    if found is None:
        raise ValueError("known messages are digests and places")
    executions, record, k, answer = found.groups()
    return int(executions), int(record), int(k), bool(answer)


def _inflate(data: bytes) -> str:
    return inflate(data, MOST_BYTES).decode()


def _of(digests: bytes, size: int, places: Sequence[str]) -> dict[str, str]:
    if len(digests) != size * len(places):
        raise ValueError("known messages have as many places as digests")
    for place in places:
        _numbers(place)
    starts = range(0, len(digests), size)
    return {
        digests[start : start + DIGEST_BYTES].hex(): place
        for start, place in zip(starts, places, strict=True)
    }


def _is_texts(value: Any, count: int) -> TypeIs[list[str]]:
    return isinstance(value, list) and [type(each) for each in cast("list[Any]", value)] == [str] * count
