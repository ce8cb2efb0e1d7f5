"""The principal that asked for a run.

The program that started the run has identified it.
"""

from collections.abc import Sequence
from typing import Literal

from sojourn.contracts.record import Record

__all__ = ["ROLES", "Principal", "Role", "Visibility"]

Role = Literal["viewer", "user", "approver", "operator"]
"""`viewer` reads; `user` starts runs and sends messages and answers; `approver` decides on calls; `operator` pauses, cancels and forks."""

ROLES: Sequence[Role] = ("viewer", "user", "approver", "operator")
"""Every role."""


Visibility = Literal["tenant", "subject"]
"""Visibility of a run over HTTP.

`tenant`: everyone in its tenant. `subject`: only its subject, the participants of its conversation, and operators.
"""


class Principal(Record):
    """Who asked for a run: recorded when the run starts, and told to planners, tools and policy engines."""

    subject: str
    """Who it is, unique within the tenant: a user's id, or the name of a key."""
    tenant: str = ""
    """The organisation that runs belong to, which sees only its own; empty where there is only one."""
    roles: list[str] = []
    """What the principal may do: `Role`s, and others that only tools and policy engines know."""
