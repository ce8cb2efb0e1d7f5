"""Cookie: where a browser keeps the key or token of who has signed in: for these pages only, and out of reach of any script."""

import re

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from sojourn.http.locks.requests import header_values

__all__ = ["cookie_name", "forget", "is_key", "keep"]

MAX_KEY = 3_800
"""Longest key or token, in characters; a browser keeps 4,096 bytes of a cookie."""

_KEY = re.compile(r"[A-Za-z0-9._~+/=:-]+\Z")
_PORT = re.compile(r":([0-9]{1,5})\Z")


def is_key(text: str) -> bool:
    """Whether a text can be a key or a token, and a cookie can hold it."""
    return len(text) <= MAX_KEY and _KEY.match(text) is not None


def cookie_name(scope: Scope) -> str:
    """The name of the cookie: with the port, since browsers share cookies among all services of a machine."""
    (host, *_) = [*header_values(scope, "host"), ""]
    port = _PORT.search(host)
    return f"sojourn_key_{port[1]}" if port else "sojourn_key"


def keep(answer: Response, request: Request, base: str, key: str) -> None:
    """Let the browser keep a key, until it is closed or signs out.

    Args:
        answer: The answer that says so.
        request: The form with the key.
        base: What all paths of the console begin with.
        key: The key.
    """
    answer.set_cookie(
        cookie_name(request.scope),
        key,
        path=f"{base}/",
        secure=_is_by_tls(request),
        httponly=True,
        samesite="strict",
    )


def forget(answer: Response, request: Request, base: str) -> None:
    """Let the browser forget it."""
    answer.delete_cookie(
        cookie_name(request.scope),
        path=f"{base}/",
        secure=_is_by_tls(request),
        httponly=True,
        samesite="strict",
    )


def _is_by_tls(request: Request) -> bool:
    """Whether the browser asks by TLS, which a proxy may end: then its own origin says so."""
    return request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
