"""Texts from outside: made visible where a person decides by them, and readable where they are prose; cut to what a page holds."""

import re

from sojourn.core.values.visible import visible

__all__ = ["CUT", "lines_of", "one_line", "readable", "shown"]

CUT = "…"

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control and direction characters, and those that nobody sees; not the joiners and selectors of which letters and emojis are made."""

_MARKS = re.compile("([\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4})"
                    "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+")  # fmt: skip
"""More than four marks on one letter, which would grow out of its line."""


def shown(text: object) -> str:
    """A text by which a person decides: everything that is not plainly visible is written out."""
    return visible(str(text), keep="\n\t")


def readable(text: object) -> str:
    """Prose: what nobody sees, and what turns the order of letters, is written out."""
    plain = _UNSEEN.sub(lambda found: _escape(found[0]), str(text).replace("\r\n", "\n"))
    return _MARKS.sub(lambda found: found[1] + CUT, plain)


def one_line(text: object, most: int = 200) -> str:
    """A text on one line, cut to so many characters."""
    line = shown(" ".join(str(text)[: 4 * most].split()))
    return line if len(line) <= most else line[: most - 1] + CUT


def lines_of(text: str, most: int) -> tuple[str, bool]:
    """The beginning of a text, at most so many characters and to the end of a line if one is near, and whether that is all."""
    if len(text) <= most:
        return text, True
    begin = text[:most]
    at = begin.rfind("\n")
    return (begin[:at] if at > most * 3 // 4 else begin), False


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
