"""The last lines of the text that a model is writing."""

from sojourn.cli.screen.text import plain

__all__ = ["MAX_LINES", "draft_lines"]

MAX_LINES = 12
"""Most lines of a draft to show, counted from its end."""

MAX_CHARS = 2_000
"""Most characters of a draft to show, counted from its end."""


def draft_lines(text: str) -> list[str]:
    """Return the last lines of a draft, safe to print.

    The first line is `…` if earlier text is left out.
    """
    lines = text[-MAX_CHARS:].splitlines()
    is_cut = len(text) > MAX_CHARS or len(lines) > MAX_LINES
    return [*(["…"] if is_cut else []), *(plain(line, MAX_CHARS) for line in lines[-MAX_LINES:])]
