"""Reduce pictures of strangers with Pillow, if it is installed.

A small file may have billions of pixels, and a decoder may raise anything. So only the four formats that models and
browsers read are decoded, none with too many pixels, and one picture of a process at a time.
"""

import asyncio
import io
import re
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from typing import Any

__all__ = ["MAX_PICTURE_BYTES", "can_reduce", "reduced", "reduced_in_turn"]

MAX_PICTURE_BYTES = 25_000_000
"""Bytes of the largest picture that is read whole."""

MOST_PIXELS = 80_000_000
"""Pixels of the largest picture that is decoded: a JPEG of one scan.

It is decoded at an eighth of its size if that is enough, and row by row.
"""

MOST_WHOLE_PIXELS = 40_000_000
"""The same of a picture that its decoder holds whole, with up to ten bytes for each pixel."""

MOST_WEBP_PIXELS = 15_000_000
"""The same of a WebP, with up to twenty bytes for each pixel."""

MOST_SCANS = 30
"""Scans of a JPEG. Encoders write up to a dozen, and each takes the time of the whole picture."""

_FORMATS = (
    "PNG",
    "JPEG",
    "GIF",
    "WEBP",
)  # with all formats, Pillow would start Ghostscript for a PostScript file

_decoder = ThreadPoolExecutor(1, "sojourn-picture")
"""Its own thread, so that pictures that wait for their turn keep no other work from the threads of the event loop."""


def can_reduce() -> bool:
    """Return whether Pillow is installed."""
    return find_spec("PIL") is not None


async def reduced_in_turn(data: bytes, longest_side: int) -> bytes | str:
    """Return `reduced` of a picture, after those that came before it."""
    return await asyncio.get_running_loop().run_in_executor(_decoder, reduced, data, longest_side)


def reduced(data: bytes, longest_side: int) -> bytes | str:
    """Return a smaller picture as a JPEG, or why it cannot be reduced. Blocks.

    It is upright, without transparency and animation, and without metadata such as the place of a photo.
    """
    images: Any = import_module("PIL.Image")
    data, scans = _scans(data)
    if scans > MOST_SCANS:
        return f"it has {scans} scans, too many to reduce"
    try:
        with images.open(io.BytesIO(data), formats=_FORMATS) as picture:
            is_in_parts = scans == 1 and not picture.info.get("progressive")
            most = MOST_PIXELS if is_in_parts else MOST_WHOLE_PIXELS
            if picture.width * picture.height > (MOST_WEBP_PIXELS if picture.format == "WEBP" else most):
                return f"it has {picture.width} x {picture.height} pixels, too many to reduce"
            return _as_jpeg(picture, longest_side)
    except Exception:  # noqa: BLE001 - a decoder of hostile bytes: OSError, SyntaxError, struct.error and others
        return "it cannot be decoded"


_MARKER = re.compile(rb"\xff([\x01-\xfe])")
_SOI, _EOI, _SOS = b"\xd8", b"\xd9", b"\xda"


def _scans(data: bytes) -> tuple[bytes, int]:
    """Return a JPEG up to its end, and how many scans it has at most.

    Another format has none. What follows the end, such as the film of a photo that moves, is not the picture's. What precedes the first scan has
    scans of its own if a camera put a small picture there. Between scans, each marker counts, wherever it is.
    """
    if not data.startswith(b"\xff" + _SOI):
        return data, 0
    at, first = 2, 0
    while found := _MARKER.search(data, at):
        at, kind = found.end(), found[1]
        if kind == _EOI:
            data = data[:at]
            break
        if kind == _SOS and not first:
            first = found.start()
        if kind >= b"\xc0" and not b"\xd0" <= kind <= _SOI:  # the others have no length
            at += int.from_bytes(data[at : at + 2])
    return data, data.count(b"\xff" + _SOS, first) if first else 0


def _as_jpeg(picture: Any, longest_side: int) -> bytes:
    images: Any = import_module("PIL.Image")
    operations: Any = import_module("PIL.ImageOps")
    scale = longest_side / max(picture.size)
    picture.draft("RGB", (max(1, int(picture.width * scale)), max(1, int(picture.height * scale))))
    if picture.mode == "I;16":  # a conversion would make nearly all of it white
        picture = picture.point(_in_8_bits).convert("L")
    picture.thumbnail((longest_side, longest_side))
    small = operations.exif_transpose(picture).convert("RGBA")
    made = io.BytesIO()
    white = images.new("RGBA", small.size, "white")
    images.alpha_composite(white, small).convert("RGB").save(made, "JPEG", quality=85)
    return made.getvalue()


def _in_8_bits(value: Any) -> Any:
    return value / 256
