"""Decide for whom a run acts."""

from collections.abc import Iterable
from typing import Any, cast

from sojourn.contracts.principal import Principal, principal_fault
from sojourn.core.awaits.envelope import Channel, Rejection

__all__ = [
    "MAX_ASKERS",
    "PRINCIPAL",
    "acting_principal",
    "answerer_of",
    "askers_of",
    "is_same",
    "principal_of",
    "without_roles",
    "write_principal",
]

MAX_ASKERS = 40
"""Most recorded askers of a turn, beside the principal that it acts for."""


PRINCIPAL = "principal"
"""The field of a message with its sender, as established by the sending program.

A message without it is the starter's.
"""

_FIELDS = ("subject", "tenant", "roles")


def is_same(one: Principal | None, other: Principal | None) -> bool:
    """Return whether both are the same subject of the same tenant.

    Their roles may differ.
    """
    if one is None or other is None:
        return one is other
    return (one.subject, one.tenant) == (other.subject, other.tenant)


def acting_principal(present: Principal | None, *joining: Principal | None) -> Principal | None:
    """Return the principal to act for after messages have joined the work.

    It is still the same subject, with only those roles that all senders have.

    Args:
        present: The principal for whom the run acts. If the starting program did not name one, it is None, and the first known
            sender takes its place.
        joining: The senders of the messages. None for a message without a sender, which changes nothing.
    """
    for each in joining:
        if present is None:
            present = each
        elif each is not None and any(role not in each.roles for role in present.roles):
            roles = [role for role in present.roles if role in each.roles]
            present = present.model_copy(update={"roles": roles})
    return present


def without_roles(principal: Principal | None) -> Principal | None:
    """Return a principal without roles, as a wait records who requested a call."""
    return principal and Principal(subject=principal.subject, tenant=principal.tenant)


def askers_of(known: Iterable[Principal], *more: Principal | None) -> tuple[Principal, ...]:
    """Return who has asked for the same work: each subject once, without roles.

    At most the first 40.
    """
    every = {
        (each.subject, each.tenant): each for each in map(without_roles, (*known, *more)) if each is not None
    }
    return tuple(every.values())[:MAX_ASKERS]


def principal_of(fields: dict[str, Any], tenant: str | None = None) -> Principal | Rejection | None:
    """Read the sender of a message, or refuse a principal that is not valid.

    Plain code reads it, since what is accepted must not depend on a library's version.
    """
    value = fields.get(PRINCIPAL)
    if value is None:
        return None
    if not isinstance(value, dict):
        return Rejection(
            '`principal` is an object such as {"subject": "ana", "tenant": "acme", "roles": ["user"]}'
        )
    given = cast("dict[str, Any]", value)
    subject, of_tenant, roles = given.get("subject"), given.get("tenant", ""), given.get("roles", [])
    if any(name not in _FIELDS for name in given):
        return Rejection(f"`principal` has {', '.join(f'`{name}`' for name in _FIELDS)} only")
    if not isinstance(subject, str) or not isinstance(of_tenant, str) or not _are_texts(roles):
        return Rejection("`principal` has a `subject`, a `tenant` and a list of `roles`, all of them texts")
    principal = Principal(subject=subject, tenant=of_tenant, roles=list(cast("list[str]", roles)))
    if fault := principal_fault(principal):
        return Rejection(fault)
    if tenant is not None and of_tenant != tenant:
        return Rejection("`principal` is of another tenant than the run")
    return principal


def answerer_of(fields: dict[str, Any], channel: Channel) -> Principal | Rejection | None:
    """Read who answers a question or gives an external result, or refuse the answer.

    Only a new update is refused for an invalid principal: histories have signals in which any field was
    ignored.
    """
    principal = principal_of(fields)
    return None if isinstance(principal, Rejection) and channel != "update" else principal


def write_principal(principal: Principal) -> dict[str, Any]:
    return principal.model_dump(mode="json", exclude_defaults=True)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in cast("Iterable[Any]", value))
