"""Texts from outside: made visible where a person decides by them, and readable where they are prose; cut to what a page holds."""

from sojourn.core.values.visible import visible

__all__ = ["lines_of", "shown"]


def shown(text: object) -> str:
    """A text by which a person decides: everything that is not plainly visible is written out."""
    return visible(str(text), keep="\n\t")


def lines_of(text: str, most: int) -> tuple[str, bool]:
    """The beginning of a text, at most so many characters and to the end of a line if one is near, and whether that is all."""
    if len(text) <= most:
        return text, True
    begin = text[:most]
    at = begin.rfind("\n")
    return (begin[:at] if at > most * 3 // 4 else begin), False
