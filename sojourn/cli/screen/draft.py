"""Draft: the last lines of the text that a model is writing."""

from sojourn.cli.screen.text import plain

__all__ = ["MAX_LINES", "Draft"]

MAX_LINES = 12
"""Most lines of a draft that are shown, the last ones."""

MAX_CHARS = 2_000
"""Most characters of a draft that are kept, the last ones."""


class Draft:
    """The last lines of the text that a model is writing."""

    def __init__(self) -> None:
        self._end = ""
        self._is_cut = False

    def add(self, piece: str) -> None:
        """Append a piece of text."""
        grown = self._end + piece
        self._is_cut = self._is_cut or len(grown) > MAX_CHARS
        self._end = grown[-MAX_CHARS:]

    def lines(self) -> list[str]:
        """Return the last lines, safe to print; `…` stands for the text before."""
        lines = self._end.splitlines()
        cut = self._is_cut or len(lines) > MAX_LINES
        return [*(["…"] if cut else []), *(plain(line, MAX_CHARS) for line in lines[-MAX_LINES:])]
