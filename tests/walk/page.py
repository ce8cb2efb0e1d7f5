"""Page: the blocks of a Markdown page, in order."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

__all__ = ["Block"]

_FENCE = re.compile(r"^```(?P<language>\w+)(?P<words>[^\n]*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    language: str
    words: tuple[str, ...]
    """What stands after the language: a file or a terminal."""
    text: str
    place: str
    """`PAGE:LINE`, for messages."""

    @classmethod
    def all_of(cls, page: Path) -> list[Self]:
        """Return the blocks of a page that name a language."""
        content = page.read_text()
        return [
            cls(
                language=found["language"],
                words=tuple(found["words"].split()),
                text=found["text"],
                place=f"{page.name}:{content.count(chr(10), 0, found.start()) + 1}",
            )
            for found in _FENCE.finditer(content)
        ]
