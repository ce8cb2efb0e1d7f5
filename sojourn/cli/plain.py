"""Text from models, tools, people and servers, made harmless to print."""

import json
from typing import Any

from sojourn.core.values.visible import visible

__all__ = ["WIDTH", "plain"]

WIDTH = 160
"""Characters of a payload or result that are shown."""


def plain(value: Any, width: int = WIDTH) -> str:
    """Text from outside in one line of bounded width; what cannot be seen is written out."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    line = visible(text[: width + 1])
    return line if len(line) <= width else f"{line[: width - 1]}…"  # `clip` would import pydantic for it
