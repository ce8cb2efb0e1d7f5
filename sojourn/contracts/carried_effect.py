"""CarriedEffect: what a fork knows of a call that its origin made after the fork's point."""

from sojourn.contracts.record import Record
from sojourn.contracts.tool_call import ToolRequest

__all__ = ["CarriedEffect"]


class CarriedEffect(Record):
    """An effect that a fork's origin had, or may have had, after the fork's point.

    A call of the fork with the same tool and equal arguments is the same effect, and has the origin's key.
    """

    call: ToolRequest
    """The origin's call; without its arguments where they are large."""
    digest: str = ""
    """The digest of the arguments that are left out."""
    idempotency_key: str = ""
    """The key that the call had; empty where it follows from the call."""
    step: bool = False
    """Whether a call of the same named step of a flow is the same effect too, whatever its tool and arguments: nobody has
    told the fork anything that the origin did not know.
    """
    unexecuted: bool = False
    """Whether the call was refused as not carried out; an equal call has its key all the same."""
    taken: bool = False
    """Whether a call with another id has had this effect, and its key: no further call is the same effect, and an equal call with
    the id of this one needs a key of its own.
    """
