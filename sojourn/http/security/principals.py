"""Authentication methods, the principal of a request, and the check of its roles.

`Auth` is the interface of authentication methods, and `Asking` a route's dependency.
"""

from typing import Annotated, Any, Protocol, runtime_checkable

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from starlette.types import Scope

from sojourn.contracts.principal import ROLES, Principal, Role, principal_fault
from sojourn.errors import MissingRole
from sojourn.http.problems import Problem

__all__ = [
    "LOCAL",
    "Asking",
    "Auth",
    "AuthAgain",
    "FirstOf",
    "bind_principal",
    "has_role",
    "principal",
    "principal_of",
    "require",
]

LOCAL = Principal(subject="local", roles=list(ROLES))
"""The principal of a local request to a service without authentication."""

_KEY = "sojourn.principal"

_WAYS = "sojourn.ways"

_bearer = HTTPBearer(
    auto_error=False, description="A key of `sojourn keys create`, or a token of the issuer."
)
"""Describes the credentials in the OpenAPI document. It checks nothing."""


class Auth(Protocol):
    """Finds the principal of a request from its headers.

    It is called before the body is read.
    """

    async def __call__(self, request: Request) -> Principal | None:
        """Return the principal of a request, or None if it has no valid credentials (401).

        Raises:
            Problem: The request is answered with this.
        """
        ...


@runtime_checkable
class AuthAgain(Auth, Protocol):
    """A method that can authenticate a long request again.

    Doing so counts nothing, and takes no one-time credentials.
    """

    async def still_lets_in(self, request: Request, asking: Principal) -> bool:
        """Return whether the request would be authenticated as the same principal now.

        An exception means that it would not.
        """
        ...


class FirstOf:
    """Try several methods in order, until one finds a principal.

    An example is `FirstOf(ApiKeys(...), Oidc(...))`.

    Args:
        *ways: The methods, in order.
    """

    def __init__(self, *ways: Auth) -> None:
        self._ways = ways

    async def __call__(self, request: Request) -> Principal | None:
        """Return the principal of the first method that finds one, or None.

        If none does, raises the last refusal of a method, if any.
        """
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
        """Return whether the method that authenticated the request still accepts it.

        True if the method cannot authenticate again.
        """
        way = _ways_of(request).get(self)
        return await way.still_lets_in(request, asking) if isinstance(way, AuthAgain) else True


def _ways_of(request: Request) -> dict[FirstOf, Auth]:
    ways: Any = request.scope.setdefault(_WAYS, {})
    return ways


def bind_principal(scope: Scope, found: Principal) -> None:
    """Set the principal of a request. An invalid one is the fault of the method."""
    if fault := principal_fault(found):
        raise ValueError(fault)
    scope[_KEY] = found


def principal_of(scope: Scope) -> Principal | None:
    found = scope.get(_KEY)
    return found if isinstance(found, Principal) else None


async def principal(request: Request, _described: Annotated[object, Security(_bearer)] = None) -> Principal:
    """Return the principal of the request, as a dependency of a route."""
    found = principal_of(request.scope)
    if found is None:
        raise RuntimeError(
            "this application has no security middleware: wrap it in sojourn.http.SecurityMiddleware"
        )
    return found


Asking = Annotated[Principal, Depends(principal)]
"""The parameter of a route that takes the principal."""


def has_role(asking: Principal, role: Role) -> bool:
    """Return whether a principal has a role.

    A principal with another role of the service is a viewer too.
    """
    return role in asking.roles or (role == "viewer" and not set(ROLES).isdisjoint(asking.roles))


def require(asking: Principal, role: Role) -> None:
    """Check for a role, or raise `MissingRole` (403). Any role may read."""
    if has_role(asking, role):
        return
    raise MissingRole(f"{asking.subject} does not have the role {role}", role=role)
