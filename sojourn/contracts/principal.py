"""The principal that asked for a run."""

import hashlib
from collections.abc import Sequence
from typing import Literal

from sojourn.contracts.ids import SESSION_ID
from sojourn.contracts.record import Record

__all__ = [
    "MARK_CHARS",
    "OPERATOR",
    "ROLES",
    "Principal",
    "Role",
    "Visibility",
    "mark_of",
    "principal_fault",
]

Role = Literal["viewer", "user", "approver", "operator"]
"""`viewer` reads; `user` starts runs and sends messages and answers; `approver` decides on calls; `operator` pauses, cancels and forks."""

ROLES: Sequence[Role] = ("viewer", "user", "approver", "operator")
"""Every role."""

OPERATOR = "operator"
"""The role that sees every run of its tenant."""

MARK_CHARS = 24
"""Length of a mark."""

_MAX_SUBJECT_CHARS = 200
_MAX_ROLES = 50
_MAX_ROLE_CHARS = 100

Visibility = Literal["tenant", "subject"]
"""Visibility of a run over HTTP.

`tenant`: everyone in its tenant. `subject`: only its subject, the participants of its conversation, and operators.
"""


class Principal(Record):
    """Who asked for a run: recorded when the run starts, and told to planners, tools and policy engines."""

    subject: str
    """Who it is, unique within the tenant: a user's id, or the name of a key."""
    tenant: str = ""
    """The organisation that runs belong to, which sees only its own. Empty if there is only one."""
    roles: list[str] = []
    """The principal's roles: `Role`s, and others that only tools and policy engines know."""


def principal_fault(principal: Principal | None) -> str | None:
    """Return why a principal is not valid, or None.

    The tenant is a search attribute, so it follows the rule for session ids.
    """
    if principal is None:
        return None
    subject, tenant, roles = principal.subject, principal.tenant, principal.roles
    if not (0 < len(subject) <= _MAX_SUBJECT_CHARS and subject.isprintable()):
        return f"principal.subject has 1 to {_MAX_SUBJECT_CHARS} visible characters"
    if not SESSION_ID.match(tenant):
        return "principal.tenant holds no quotes, backslashes or control characters, and has at most 200 characters"
    if len(roles) > _MAX_ROLES or any(
        not role.isprintable() or len(role) > _MAX_ROLE_CHARS for role in roles
    ):
        return f"principal.roles names at most {_MAX_ROLES} roles of at most {_MAX_ROLE_CHARS} visible characters"
    return None


def mark_of(principal: Principal) -> str:
    """Return the mark of a subject.

    It is short whatever the subject's name is. It does not contain the name, which may be an address.
    """
    who = f"{principal.tenant}\0{principal.subject}"
    return hashlib.sha256(who.encode(errors="surrogatepass")).hexdigest()[:MARK_CHARS]
