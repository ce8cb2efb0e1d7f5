"""What Temporal's own screens say while a run waits for a person, and the commands that answer."""

from collections.abc import Mapping
from itertools import islice

from sojourn.contracts.awaits import Await
from sojourn.core.awaits.command_line import fenced_signal
from sojourn.core.awaits.kinds import shown
from sojourn.core.awaits.steering import RESUME
from sojourn.core.values.visible import fence

__all__ = ["Details"]

MAX_SHOWN = 10
"""Waits that are shown; the rest are counted."""


class Details:
    """What a run's current details say, in Markdown; each wait is put into words once, however often they are told.

    Args:
        run_id: The run, which the commands name.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._told: dict[str, str] = {}

    def of(self, waits: Mapping[str, Await], paused: str | None = None) -> str:
        """What is waited for, fenced because it comes from outside, and the commands that answer each."""
        parts: list[str] = []
        if paused is not None:
            said = [fence(paused)] if paused else []
            parts += ["**Paused.**", *said, fenced_signal(self._run_id, RESUME, {"by": "YOUR NAME"})]
        first = list(islice(waits.values(), MAX_SHOWN))
        self._told = {wait.id: self._told.get(wait.id) or shown(self._run_id, wait) for wait in first}
        parts += self._told.values()
        if len(waits) > MAX_SHOWN:
            parts.append(f"... and {len(waits) - MAX_SHOWN} more.")
        return "\n\n".join(parts)
