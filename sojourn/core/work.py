"""The cost and context of one validation: how much it may still do, and where references lead."""

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from sojourn.core.pointer import Schema
from sojourn.core.unions import Discriminator

__all__ = ["WORK", "TooMuchWorkError", "Work"]


class TooMuchWorkError(Exception):
    """The schema asks for more steps than any honest payload of this size needs."""


Discriminators = dict[int, tuple[list[Any], Discriminator | None]]


@dataclass(slots=True)
class Work:
    """What one validation needs to know beside the schema at hand."""

    root: Schema
    """Where references lead."""
    steps: int
    """References that may still be followed."""
    discriminators: Discriminators = field(default_factory=dict[int, tuple[list[Any], Discriminator | None]])
    """By the identity of a list of branches, which is held so that its identity stays its own."""


WORK: ContextVar[Work] = ContextVar("sojourn_validation")
"""The validation going on; set around every use of `Dialect`."""
