"""Who sent a request: the interface of authentication methods, a route's dependency, and the check of a role."""

from typing import Annotated, Any, Protocol, runtime_checkable

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from starlette.types import Scope

from sojourn.contracts.principal import ROLES, Principal, Role
from sojourn.core.awaits.principals import principal_fault
from sojourn.http.problems import Problem

__all__ = [
    "LOCAL",
    "Asking",
    "Auth",
    "AuthAgain",
    "FirstOf",
    "bind_principal",
    "principal",
    "principal_of",
    "require",
]

LOCAL = Principal(subject="local", roles=list(ROLES))
"""Who asks where the service has no authentication, which is on this machine only."""

_KEY = "sojourn.principal"
"""Where the scope of a request has its principal."""

_WAYS = "sojourn.ways"
"""Where it has which of several ways has let it in."""

_bearer = HTTPBearer(
    auto_error=False, description="A key of `sojourn keys create`, or a token of the issuer."
)
"""Describes the credentials in the OpenAPI document; it checks nothing."""


class Auth(Protocol):
    """Finds out who sent a request, by its headers: it is asked before the body is read."""

    async def __call__(self, request: Request) -> Principal | None:
        """The principal of a request; None where it has no valid credentials, which is answered with 401.

        Raises:
            Problem: The request is answered with this.
        """
        ...


@runtime_checkable
class AuthAgain(Auth, Protocol):
    """One that may be asked again about a request that lasts: it counts nothing, and takes no credentials that are good for once."""

    async def still_lets_in(self, request: Request, asking: Principal) -> bool:
        """Whether a request that was let in for a principal would be let in for the same one now; an exception is a no."""
        ...


class FirstOf:
    """Asks several, such as `FirstOf(ApiKeys(...), Oidc(...))`, until one knows who sent the request.

    Args:
        *ways: What is asked, in this order.
    """

    def __init__(self, *ways: Auth) -> None:
        self._ways = ways

    async def __call__(self, request: Request) -> Principal | None:
        """The principal that the first one knows; where none does, what one of them has said against the request."""
        refused: Problem | None = None
        for way in self._ways:
            try:
                found = await way(request)
            except Problem as problem:
                refused = problem
            else:
                if found is not None:
                    _ways_of(request)[self] = way
                    return found
        if refused is not None:
            raise refused
        return None

    async def still_lets_in(self, request: Request, asking: Principal) -> bool:
        """Whether the way that has let the request in does so now; where that may not be asked again, it does."""
        way = _ways_of(request).get(self)
        return await way.still_lets_in(request, asking) if isinstance(way, AuthAgain) else True


def _ways_of(request: Request) -> dict[FirstOf, Auth]:
    ways: Any = request.scope.setdefault(_WAYS, {})
    return ways


def bind_principal(scope: Scope, found: Principal) -> None:
    """Let the routes of a request know who asks.

    Raises:
        ValueError: Nobody is called so: the fault is the authentication's, not the request's.
    """
    if fault := principal_fault(found):
        raise ValueError(fault)
    scope[_KEY] = found


def principal_of(scope: Scope) -> Principal | None:
    """Who sent a request; None before authentication."""
    found = scope.get(_KEY)
    return found if isinstance(found, Principal) else None


async def principal(request: Request, _described: Annotated[object, Security(_bearer)] = None) -> Principal:
    """The principal of the request, for a route's parameter.

    Raises:
        RuntimeError: The application has no security middleware, and serves nobody.
    """
    found = principal_of(request.scope)
    if found is None:
        raise RuntimeError(
            "this application has no security middleware: wrap it in sojourn.http.SecurityMiddleware"
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
