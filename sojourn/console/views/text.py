"""Texts from outside, made safe to show and cut to what a page holds.

They are made visible if a person decides by them, and readable if they are prose.
"""

from sojourn.values.visible import visible

__all__ = ["lines_of", "shown"]


def shown(text: object) -> str:
    """Return a text with everything that is not plainly visible written out.

    A person decides on the basis of this text.
    """
    return visible(str(text), keep="\n\t")


def lines_of(text: str, most: int) -> tuple[str, bool]:
    """Return the beginning of a text, and whether that is all.

    It has at most `most` characters, and ends at the end of a line if one is near.
    """
    if len(text) <= most:
        return text, True
    begin = text[:most]
    at = begin.rfind("\n")
    return (begin[:at] if at > most * 3 // 4 else begin), False
