"""Text from outside on screens that render Markdown: fenced, every character seen, never markup."""

from sojourn.core.visible import visible

__all__ = ["code", "fence"]


def fence(text: str) -> str:
    """The text as a code block that it cannot leave; lines stay, what cannot be seen is written out."""
    shown = visible(text, keep="\n")
    ticks = _longer_than_any_in(shown, at_least=3)
    return f"{ticks}\n{shown}\n{ticks}"


def code(text: str) -> str:
    """The text in one line as a code span that it cannot leave; nothing for nothing."""
    shown = " ".join(visible(text, keep="\n").split())
    ticks = _longer_than_any_in(shown, at_least=1)
    # One space is taken off on both sides: without it a text that begins with a backtick would lengthen the ticks.
    pad = " " if shown[:1] == "`" or shown[-1:] == "`" else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}" if shown else ""


def _longer_than_any_in(text: str, *, at_least: int) -> str:
    ticks = "`" * at_least
    while ticks in text:
        ticks += "`"
    return ticks
