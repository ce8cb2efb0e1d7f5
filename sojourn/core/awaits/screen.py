"""What Temporal's screens show while a run waits for a person, and the commands that answer."""

from collections.abc import Mapping
from itertools import islice

from sojourn.contracts.awaits import Await
from sojourn.contracts.wire_names import RESUME
from sojourn.core.awaits.command_line import fenced_signal
from sojourn.core.awaits.kinds import shown
from sojourn.core.values.visible import fence

__all__ = ["Details"]

MAX_SHOWN = 10
"""Waits shown; further ones are counted."""


class Details:
    """The current details of a run, in Markdown; the text of each wait is made once and kept.

    Args:
        run_id: The run, for the commands.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._texts: dict[str, str] = {}

    def of(self, waits: Mapping[str, Await], paused: str | None = None) -> str:
        """The open waits, fenced because they come from outside, with the commands that answer them."""
        parts: list[str] = []
        if paused is not None:
            reason = [fence(paused)] if paused else []
            parts += ["**Paused.**", *reason, fenced_signal(self._run_id, RESUME, {"by": "YOUR NAME"})]
        first = list(islice(waits.values(), MAX_SHOWN))
        self._texts = {wait.id: self._texts.get(wait.id) or shown(self._run_id, wait) for wait in first}
        parts += self._texts.values()
        if len(waits) > MAX_SHOWN:
            parts.append(f"... and {len(waits) - MAX_SHOWN} more.")
        return "\n\n".join(parts)
