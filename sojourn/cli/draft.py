"""Draft: the end of what a model is saying, in a few lines."""

from sojourn.cli.plain import plain

__all__ = ["ENDS", "Draft"]

MAX_LINES = 12
"""Lines that are shown."""

MAX_CHARS = 2_000
"""Characters that are kept."""

ENDS = (
    "assistant_message",
    "await_clarification",
    "plan_started",
    "run_canceled",
    "run_completed",
    "run_failed",
    "run_terminated",
    "run_timed_out",
    "stream_restarted",
)
"""With each of these a draft no longer holds: it is told in full, or begins anew."""


class Draft:
    """Grows piece by piece; only its end is kept."""

    def __init__(self) -> None:
        self._end = ""
        self._is_cut = False

    def add(self, piece: str) -> None:
        """Take the next piece."""
        grown = self._end + piece
        self._is_cut = self._is_cut or len(grown) > MAX_CHARS
        self._end = grown[-MAX_CHARS:]

    def lines(self) -> list[str]:
        """The last lines, harmless to print."""
        lines = self._end.splitlines()
        cut = self._is_cut or len(lines) > MAX_LINES
        return [*(["…"] if cut else []), *(plain(line, MAX_CHARS) for line in lines[-MAX_LINES:])]
