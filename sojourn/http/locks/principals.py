"""Principals: the dependency by which every route learns who asks, and the check of a role."""

from typing import Annotated, Protocol

from fastapi import Depends, Request

from sojourn.contracts.principal import ROLES, Principal, Role
from sojourn.http.problems import Problem

__all__ = ["LOCAL", "Asking", "Auth", "principal", "require"]

LOCAL = Principal(subject="local", roles=list(ROLES))
"""Who asks where the service has no authentication, which is on the loopback interface only."""


class Auth(Protocol):
    """Finds out who sent a request."""

    async def __call__(self, request: Request) -> Principal | None:
        """The principal of a request; None where it has no valid credentials, which is answered with 401."""
        ...


async def principal(request: Request) -> Principal:
    """The principal of the request.

    Raises:
        Problem: The request has no valid credentials (401).
    """
    auth: Auth | None = request.app.state.service.auth
    if auth is None:
        return LOCAL
    found = await auth(request)
    if found is None:
        raise Problem(
            401,
            "unauthenticated",
            "the request has no valid credentials",
            then="Send a key or a token as `Authorization: Bearer`.",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return found


Asking = Annotated[Principal, Depends(principal)]
"""The parameter of a route that is who asks."""


def require(asking: Principal, role: Role) -> None:
    """Check that a principal has a role; whoever has any of the roles may read.

    Raises:
        Problem: It does not have the role (403).
    """
    if role in asking.roles or (role == "viewer" and not set(ROLES).isdisjoint(asking.roles)):
        return
    raise Problem(
        403,
        "forbidden",
        f"{asking.subject} does not have the role {role}",
        then=f"Ask whoever runs the service for the role {role}.",
    )
