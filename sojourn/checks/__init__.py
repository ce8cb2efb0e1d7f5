"""Checks of `sojourn doctor` and of the console.

They cover this machine, the app, the Temporal service, and the workers and runs of a task queue.

The package finds faults, with how to mend them. It may import `authoring`, `client`, `models` and the packages below them.
Each function returns its results as `Check`s and changes nothing, except that the check of the storage stores an object.
Begin with `Check`, then `service`.
"""

from dataclasses import dataclass
from typing import Any

__all__ = ["Check"]


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    """The subject of the check, in a few words."""
    ok: bool | None
    """Whether the check passed; None if the reader has to judge, or it could not be checked."""
    found: str
    """The finding, as text to print."""
    mend: str = ""
    """The remedy; empty if there is nothing to do."""

    def to_json(self) -> dict[str, Any]:
        mend = {"mend": self.mend} if self.mend else {}
        return {"check": self.name, "ok": self.ok, "found": self.found, **mend}
