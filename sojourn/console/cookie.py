"""Cookie with the key or token of a visitor who has signed in.

It is sent to these pages only, and no script can read it.

Over HTTPS its name begins with `__Host-`, so that a browser accepts it from this host alone. Otherwise,
a page of a sibling domain could sign a visitor in as another user. Under a path that name is not
possible, and it begins with `__Secure-`.
"""

import ipaddress
import re

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from sojourn.http.security.headers import cookie_of
from sojourn.http.security.requests import header_values

__all__ = ["forget", "is_key", "keep", "key_of"]

MAX_KEY = 3_800
"""Longest key or token, in characters. Browsers limit a cookie to 4,096 bytes."""

_KEY = re.compile(r"[A-Za-z0-9._~+/=:-]+\Z")
_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::([0-9]{1,5}))?\Z")


def is_key(text: str) -> bool:
    return len(text) <= MAX_KEY and _KEY.match(text) is not None


def key_of(scope: Scope, base: str) -> str:
    """Return the key or token in a request's cookie, or an empty text."""
    name = _name(scope)
    found = cookie_of(scope, f"{_prefix(base)}{name}")
    if not found and not _is_by_tls(scope):
        found = cookie_of(scope, name)
    return found if is_key(found) else ""


def keep(answer: Response, request: Request, base: str, key: str) -> None:
    """Set the cookie with a key, until the browser is closed or signs out."""
    is_by_tls = _is_by_tls(request.scope)
    answer.set_cookie(
        f"{_prefix(base) if is_by_tls else ''}{_name(request.scope)}",
        key,
        path=f"{base}/",
        secure=is_by_tls,
        httponly=True,
        samesite="strict",
    )


def forget(answer: Response, request: Request, base: str) -> None:
    is_by_tls = _is_by_tls(request.scope)
    answer.delete_cookie(
        f"{_prefix(base) if is_by_tls else ''}{_name(request.scope)}",
        path=f"{base}/",
        secure=is_by_tls,
        httponly=True,
        samesite="strict",
    )


def _prefix(base: str) -> str:
    return "__Secure-" if base else "__Host-"


def _name(scope: Scope) -> str:
    # With the port, since browsers share cookies among all services of a machine.
    _, port = _host_of(scope)
    return f"sojourn_key_{port}" if port else "sojourn_key"


def _host_of(scope: Scope) -> tuple[str, str]:
    (host, *_) = [*header_values(scope, "host"), ""]
    found = _HOST.match(host)
    return (found[1].lower(), found[2] or "") if found else ("", "")


def _is_by_tls(scope: Scope) -> bool:
    """Check whether the browser uses TLS, which a proxy may terminate.

    The origin of a form says so. With other requests browsers send `Sec-Fetch-Site` by TLS, and without it to the machine itself only.
    """
    if scope.get("scheme") == "https":
        return True
    if origins := header_values(scope, "origin"):
        return origins[0].startswith("https://")
    return bool(header_values(scope, "sec-fetch-site")) and not _is_this_machine(_host_of(scope)[0])


def _is_this_machine(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
