"""Authenticate each request before it reaches a route.

Without an authentication method, accept only local requests.
"""

import ipaddress
from collections.abc import Collection

import structlog
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from sojourn.http.problems import Problem, problem_of
from sojourn.http.security.headers import with_cookies
from sojourn.http.security.limits import count_anonymous
from sojourn.http.security.principals import LOCAL, Auth, bind_principal, principal_of
from sojourn.http.security.requests import header_values, path_of, refuse, site_of

__all__ = ["AuthenticationMiddleware", "credentials_of", "unauthenticated_problem"]

_log = structlog.get_logger("sojourn.http")

_FORWARDED = ("forwarded", "via", "x-forwarded", "x-real-ip", "x-client-ip", "true-client-ip")
_FORWARDED_FAMILIES = (
    "x-forwarded-",
    "cf-",
    "fly-",
    "x-envoy-",
    "x-original-",
    "x-cluster-client-ip",
    "x-amzn-",
)
"""Prefixes of the headers that proxies and tunnels add."""

_CREDENTIALS = "sojourn.credentials"


class AuthenticationMiddleware:
    """Find the principal of each request, or refuse it.

    `probes` are open paths without a rate limit by address: a load balancer may share its address with unknown clients.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        auth: Auth | None,
        open_paths: Collection[str] = (),
        probes: Collection[str] = (),
    ) -> None:
        self._app = app
        self._probes = frozenset(probes)
        self._auth = auth
        self._open = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                if not self._is_open(scope):
                    await self._identify(scope)
            except Problem as problem:
                await refuse(_count_refusal(problem, scope), scope, receive, send)
                return
            except Exception as error:  # noqa: BLE001 - a user's function may raise anything, and then admits no client
                _log.error("authentication_failed", path=path_of(scope), exc_info=error)
                await refuse(_count_refusal(problem_of(error), scope), scope, receive, send)
                return
            is_counted = self._auth is not None and path_of(scope) not in self._probes
            if principal_of(scope) is None and is_counted:
                try:
                    count_anonymous(scope)
                except Problem as problem:
                    await refuse(problem, scope, receive, send)
                    return
        await self._app(scope, receive, send)

    def _is_open(self, scope: Scope) -> bool:
        path, site = path_of(scope), site_of(scope)
        if site is not None and site.is_open(path):
            return True
        return scope["method"] in ("GET", "HEAD") and path in self._open

    async def _identify(self, scope: Scope) -> None:
        if self._auth is None:
            _check_is_near(scope)
            bind_principal(scope, LOCAL)
            return
        if len(header_values(scope, "authorization")) > 1:
            raise Problem(
                400, "bad_request", "the request has several Authorization headers", then="Send one."
            )
        site = site_of(scope)
        whole = with_cookies(scope)
        authenticated = site.with_credentials(whole) if site else whole
        if authenticated is not scope:
            scope[_CREDENTIALS] = authenticated
        found = await self._auth(Request(authenticated))
        if found is None:
            raise unauthenticated_problem()
        bind_principal(scope, found)


def _count_refusal(refusal: Problem, scope: Scope) -> Problem:
    """Return the refusal, or another one if its address sent too many requests."""
    try:
        count_anonymous(scope)
    except Problem as problem:
        return problem
    return refusal


def credentials_of(scope: Scope) -> Scope:
    return scope.get(_CREDENTIALS, scope)


def unauthenticated_problem(detail: str = "the request has no valid credentials") -> Problem:
    return Problem(
        401,
        "unauthenticated",
        detail,
        then="Send a key or a token as `Authorization: Bearer`.",
        headers={"WWW-Authenticate": "Bearer"},
    )


def _check_is_near(scope: Scope) -> None:
    """Refuse requests from other machines, and through proxies that end here."""
    client = scope.get("client")
    is_near = client is None or _is_loopback(str(client[0]))  # a Unix socket has no address
    if is_near and not any(_is_of_a_proxy(name.decode("latin-1")) for name, _ in scope["headers"]):
        return
    raise Problem(
        403,
        "local_only",
        "this service has no authentication, and so serves only its own machine",
        then="Start it with keys: `sojourn keys create`, then `sojourn serve --keys FILE`; "
        "or with the tokens of a provider, --oidc-issuer and --oidc-audience; in a program create_app(auth=...).",
    )


def _is_of_a_proxy(name: str) -> bool:
    return name in _FORWARDED or name.startswith(_FORWARDED_FAMILIES)


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
