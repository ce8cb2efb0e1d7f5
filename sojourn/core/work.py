"""The cost and context of one validation: how much it may still do, and where references lead."""

from contextvars import ContextVar
from dataclasses import dataclass, field

from sojourn.core.pointer import Schema
from sojourn.core.unions import Discriminator

__all__ = ["WORK", "TooMuchWorkError", "Work"]


class TooMuchWorkError(Exception):
    """The schema asks for more steps than any honest payload of this size needs."""


@dataclass(slots=True)
class Work:
    """What one validation needs to know beside the schema at hand."""

    root: Schema
    """Where references lead."""
    steps: int
    """References that may still be followed."""
    discriminators: dict[int, Discriminator | None] = field(default_factory=dict[int, Discriminator | None])
    """By the identity of a list of branches; kept by the owner of the schema."""


WORK: ContextVar[Work] = ContextVar("sojourn_validation")
"""The validation going on; set around every use of `Dialect`."""
