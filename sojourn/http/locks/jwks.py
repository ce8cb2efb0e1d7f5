"""JWKS: the public keys of an issuer, fetched when needed, and again when a token is signed with one that is not known yet."""

import asyncio
import json
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
import structlog
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, KeySet, OctKey, OKPKey, RSAKey

from sojourn.errors import DefinitionError
from sojourn.http.problems import Problem
from sojourn.network import http_client
from sojourn.private import is_this_machine

__all__ = ["Jwks", "checked_url"]

FRESH = 600.0
"""Seconds for which keys are used without asking the issuer again."""

STALE = 3600.0
"""Seconds for which they are used while the issuer does not answer."""

PAUSE = 10.0
"""Fewest seconds between two fetches for keys that are not known, and after one that failed: anybody can send a token."""

MAX_BYTES = 1_000_000
MAX_KEYS = 100

_PATIENCE = 10.0
_PLAIN = {"accept-encoding": "identity"}
"""The size of an answer is counted as received, so compression would evade the limit."""

_log = structlog.get_logger("sojourn.http")


class Jwks:
    """The keys of one issuer.

    Args:
        issuer: The issuer, whose configuration names the address of its keys.
        url: The address of the keys, where the configuration is not to be asked.
        clock: Seconds of a clock that never goes back.

    Raises:
        DefinitionError: An address is not one of HTTPS, nor of this machine.
    """

    def __init__(
        self, issuer: str, url: str | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._issuer = checked_url(issuer)
        self._url = checked_url(url) if url else None
        self._clock = clock
        self._keys: KeySet | None = None
        self._fetched = self._failed = self._missed = -math.inf
        self._fetching = asyncio.Lock()

    async def keys(self, kid: str | None) -> KeySet:
        """The keys; fetched again where they are old, or have none of this id.

        Raises:
            Problem: The issuer does not answer (503).
        """
        if self._is_due(kid) and not (self._fetching.locked() and self._is_usable and self._has(kid)):
            async with self._fetching:
                if self._is_due(kid):  # nobody has fetched them meanwhile
                    await self._fetch(kid)
        if self._keys is None or not self._is_usable:
            raise Problem(
                503,
                "issuer_unavailable",
                "the issuer of tokens does not answer, so that no token can be checked",
                then="Send the request again in a moment.",
                headers={"Retry-After": str(math.ceil(PAUSE))},
            )
        return self._keys

    @property
    def _is_usable(self) -> bool:
        return self._clock() - self._fetched <= STALE

    def _is_due(self, kid: str | None) -> bool:
        """Whether the keys are to be fetched now."""
        now = self._clock()
        if now - self._failed < PAUSE:
            return False
        is_missing = not self._has(kid) and now - self._missed >= PAUSE
        return self._keys is None or now - self._fetched > FRESH or is_missing

    def _has(self, kid: str | None) -> bool:
        return self._keys is not None and (kid is None or any(key.kid == kid for key in self._keys))

    async def _fetch(self, kid: str | None) -> None:
        now = self._clock()
        if self._keys is not None and not self._has(kid):
            self._missed = now
        try:
            self._keys, self._fetched = await self._read(), now
        except (httpx2.HTTPError, OSError, ValueError, DefinitionError) as error:
            self._failed = now
            reason = str(error) or type(error).__name__
            _log.warning("issuer_keys_unreadable", issuer=self._issuer, reason=reason)

    async def _read(self) -> KeySet:
        async with http_client(timeout=_PATIENCE, follow_redirects=False) as client:
            url = self._url
            if url is None:
                place = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
                found = await _json(client, place)
                if found.get("issuer") != self._issuer:
                    raise ValueError(f"{place} is the configuration of another issuer")
                url = checked_url(str(found.get("jwks_uri")))
            return _key_set(await _json(client, url))


async def _json(client: httpx2.AsyncClient, url: str) -> Mapping[str, Any]:
    """An object that is fetched.

    Raises:
        httpx2.HTTPError: It cannot be fetched.
        ValueError: It is none, or too large.
    """
    data = bytearray()
    async with asyncio.timeout(_PATIENCE), client.stream("GET", url, headers=_PLAIN) as answer:
        answer.raise_for_status()
        async for part in answer.aiter_raw():
            data += part
            if len(data) > MAX_BYTES:
                raise ValueError(f"{url} has more than {MAX_BYTES:,} bytes")
    found = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError(f"{url} is no JSON object")  # noqa: TRY004 - what the issuer sends is no argument
    return cast("dict[str, Any]", found)


def _key_set(found: Mapping[str, Any]) -> KeySet:
    """The keys that verify signatures; others, such as those of unknown kinds, are left out."""
    listed = found.get("keys")
    if not isinstance(listed, list):
        raise ValueError("the issuer's answer has no keys")  # noqa: TRY004 - as above
    keys: list[RSAKey | ECKey | OKPKey] = []
    for each in cast("list[Any]", listed)[:MAX_KEYS]:
        try:
            key = JWKRegistry.import_key(each)
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        if not isinstance(key, OctKey) and key.get("use") in (None, "sig"):
            keys.append(key)
    if not keys:
        raise ValueError("the issuer has no key that verifies signatures")
    return KeySet(list(keys))


def checked_url(url: str) -> str:
    """An address of HTTPS, or on this machine of HTTP.

    Raises:
        DefinitionError: It is another one.
    """
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return url
    if parts.scheme == "http" and is_this_machine(parts.hostname or ""):
        return url
    raise DefinitionError(f"{url!r} is not an address of https://, and nobody else's keys can be trusted")
