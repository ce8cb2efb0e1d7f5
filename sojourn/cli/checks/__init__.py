"""What `sojourn doctor` looks at: this machine, the app, the Temporal service, the workers and runs of a task queue.

Each function makes one `Check` and changes nothing; what it may look at, it is given. Begin with `Check`, then `service`.
"""

from dataclasses import dataclass
from typing import Any

__all__ = ["Check"]


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the doctor's."""

    name: str
    """What was looked at, in one or two words."""
    ok: bool | None
    """Whether it is well; None where that is for the reader to judge, or could not be found out."""
    said: str
    """What was found."""
    mend: str = ""
    """What to do, where it is not well."""

    def told(self) -> dict[str, Any]:
        """The same, for machines."""
        mend = {"mend": self.mend} if self.mend else {}
        return {"check": self.name, "ok": self.ok, "found": self.said, **mend}
