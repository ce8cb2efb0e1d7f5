"""Reduce pictures of strangers with Pillow, if it is installed.

A small file may have billions of pixels, and a decoder may raise anything. So only the four formats that models and
browsers read are decoded, none with too many pixels, and one picture of a process at a time.
"""

import io
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from typing import Any

__all__ = ["can_reduce", "reduced"]

MOST_PIXELS = 80_000_000
"""Pixels of the largest picture that is decoded. A JPEG is decoded at an eighth of its size if that is enough."""

MOST_WHOLE_PIXELS = 40_000_000
"""The same of a picture that its decoder holds whole, with up to six bytes for each pixel."""

_FORMATS = (
    "PNG",
    "JPEG",
    "GIF",
    "WEBP",
)  # with all formats, Pillow would start Ghostscript for a PostScript file

_decoding = Lock()


def can_reduce() -> bool:
    """Return whether Pillow is installed."""
    return find_spec("PIL") is not None


def reduced(data: bytes, longest_side: int) -> bytes | str:
    """Return a smaller picture as a JPEG, or why it cannot be reduced. Blocks.

    It is upright, without transparency and animation, and without metadata such as the place of a photo.
    """
    images: Any = import_module("PIL.Image")
    try:
        with _decoding, images.open(io.BytesIO(data), formats=_FORMATS) as picture:
            pixels = picture.width * picture.height
            is_in_parts = picture.format in ("JPEG", "MPO") and not picture.info.get("progressive")
            if pixels > (MOST_PIXELS if is_in_parts else MOST_WHOLE_PIXELS):
                return f"it has {picture.width} x {picture.height} pixels, too many to reduce"
            return _as_jpeg(picture, longest_side)
    except Exception:  # noqa: BLE001 - a decoder of hostile bytes: OSError, SyntaxError, struct.error and others
        return "it cannot be decoded"


def _as_jpeg(picture: Any, longest_side: int) -> bytes:
    images: Any = import_module("PIL.Image")
    operations: Any = import_module("PIL.ImageOps")
    picture.draft("RGB", (longest_side, longest_side))
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
