"""Authenticate by the tokens of an OpenID Connect provider.

Tokens are JWTs, signed by a key that the issuer publishes.
"""

import asyncio
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
import structlog
from joserfc import jwt
from joserfc.errors import ClaimError, ExpiredTokenError, JoseError, UnsupportedAlgorithmError
from joserfc.jwk import ECKey, JWKRegistry, KeySet, OctKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry, extract_compact
from starlette.requests import Request

from sojourn.contracts.principal import Principal, principal_fault
from sojourn.errors import DefinitionError
from sojourn.http.problems import Problem
from sojourn.http.security.authentication import unauthenticated_problem
from sojourn.http.security.keys import bearer_token
from sojourn.network import http_client
from sojourn.private import is_this_machine

__all__ = ["ALGORITHMS", "Claim", "Jwks", "Oidc", "check_url"]

ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
)
"""Signature algorithms that can be allowed, all with public keys. A token never chooses the trusted one."""

Claim = str | Sequence[str]
"""A claim of a token by its name, or one in another claim by both names, such as `("realm_access", "roles")`."""

MAX_TOKEN = 16_000
"""Longest token."""

_log = structlog.get_logger("sojourn.http")


class _Registry(JWSRegistry):
    """Allow the named algorithms, and header parameters that providers add.

    A critical one that is not known is refused.
    """

    max_header_length = 4_000
    max_payload_length = MAX_TOKEN

    def get_alg(self, name: str) -> Any:
        """Leave out the library's warning that EdDSA is now called Ed25519."""
        if name not in (self.allowed or ()) or name not in self.algorithms:
            raise UnsupportedAlgorithmError(f"algorithm {name[:20]!r} is not allowed")
        return self.algorithms[name]


class Oidc:
    """Authenticate by an issuer's tokens, sent as `Authorization: Bearer`.

    The tokens have to be for this service.

    Args:
        issuer: The issuer, exactly as tokens name it (`iss`).
        audience: Whom the tokens have to be for (`aud`): this service, or one of several names of it.
        jwks_url: The address of the issuer's keys. If None, it is read from the issuer's configuration.
        subject: The claim that is the principal's subject.
        tenant: The claim that is its tenant, which a token then has to have. None for no tenants.
        roles: The claim with its roles: a list, or names with spaces between.
        role_names: What those roles are called here, such as `{"crew-leads": ["user", "approver"]}`. Others give none then. If None,
            roles count as they are called.
        algorithms: Algorithms of signatures that are accepted.
        leeway: Most seconds between the clocks of the issuer and this machine.

    Raises:
        DefinitionError: An address is not one of HTTPS, or an algorithm is not one of public keys.
    """

    def __init__(
        self,
        issuer: str,
        audience: str | Sequence[str],
        *,
        jwks_url: str | None = None,
        subject: Claim = "sub",
        tenant: Claim | None = None,
        roles: Claim = "roles",
        role_names: Mapping[str, Sequence[str]] | None = None,
        algorithms: Sequence[str] = ("RS256", "PS256", "ES256", "EdDSA", "Ed25519"),
        leeway: int = 60,
    ) -> None:
        if unknown := [name for name in algorithms if name not in ALGORITHMS]:
            raise DefinitionError(f"algorithm {unknown[0]!r} is none of {', '.join(ALGORITHMS)}")
        audiences = [audience] if isinstance(audience, str) else list(audience)
        if not algorithms or not audiences or not all(audiences):
            raise DefinitionError("Oidc takes an audience and at least one algorithm")
        self._jwks = Jwks(issuer, jwks_url)
        self._algorithms = list(algorithms)
        self._registry = _Registry(algorithms=self._algorithms, strict_check_header=False)
        self._claims = jwt.JWTClaimsRegistry(
            leeway=leeway,
            iss={"essential": True, "value": issuer},
            aud={"essential": True, "values": audiences},
            exp={"essential": True},
        )
        self._subject, self._tenant, self._roles = subject, tenant, roles
        self._role_names = role_names

    async def __call__(self, request: Request) -> Principal | None:
        """Return the principal of the request's token, or None if it has none.

        Raises:
            Problem: The token is not valid (401), or the issuer does not answer (503).
        """
        text = bearer_token(request)
        if not text or len(text) > MAX_TOKEN or text.count(".") != 2:
            return None
        keys = await self._jwks.keys(self._key_id(text))
        try:
            claims = jwt.decode(text, keys, registry=self._registry).claims
            self._claims.validate(claims)
        except ExpiredTokenError:
            raise unauthenticated_problem("the token has expired") from None
        except Exception as error:  # noqa: BLE001 - a stranger may have written the token; any fault in it means no access
            raise _invalid(error) from None
        return self._principal(claims)

    async def still_lets_in(self, request: Request, asking: Principal) -> bool:
        """Return whether the token is still valid, for the same principal.

        Raises as the first authentication does.
        """
        return await self(request) == asking

    def _key_id(self, text: str) -> str | None:
        try:
            header = extract_compact(text.encode(), None, self._registry).headers()
        except Exception as error:  # noqa: BLE001 - as above
            raise _invalid(error) from None
        kid = header.get("kid")
        if header.get("alg") not in self._algorithms or not isinstance(kid, str | None):
            raise _invalid(ValueError("its header asks for what is not allowed"))
        return kid

    def _principal(self, claims: Mapping[str, Any]) -> Principal:
        subject, tenant = _claim(claims, self._subject), _claim(claims, self._tenant) if self._tenant else ""
        if not isinstance(subject, str) or not isinstance(tenant, str) or (self._tenant and not tenant):
            raise unauthenticated_problem("the token does not say who it is for")
        found = Principal(subject=subject, tenant=tenant, roles=self._roles_of(_claim(claims, self._roles)))
        if fault := principal_fault(found):
            _log.warning("token_refused", reason=fault)
            raise unauthenticated_problem("the subject of the token cannot be a principal")
        return found

    def _roles_of(self, value: object) -> list[str]:
        if isinstance(value, str):
            names = value.split()
        elif isinstance(value, list):
            names = [name for name in cast("list[object]", value) if isinstance(name, str)]
        else:
            names = []
        if self._role_names is None:
            return names
        return list(dict.fromkeys(role for name in names for role in self._role_names.get(name, ())))


def _claim(claims: Mapping[str, Any], claim: Claim) -> object:
    found: object = claims
    for name in [claim] if isinstance(claim, str) else claim:
        if not isinstance(found, Mapping):
            return None
        found = cast("Mapping[str, object]", found).get(name)
    return found


def _invalid(error: Exception) -> Exception:
    _log.info("token_refused", reason=f"{type(error).__name__}: {error}")
    why = (
        f"the token is not valid: {error.claim}"
        if isinstance(error, ClaimError)
        else "the token is not valid"
    )
    return unauthenticated_problem(why)


FRESH = 600.0
"""Seconds for which keys are cached."""

STALE = 3600.0
"""Seconds for which cached keys are used while the issuer does not answer."""

PAUSE = 10.0
"""Fewest seconds between two fetches for unknown keys, and after a failed one.

Any client can send a token with an unknown key.
"""

MAX_BYTES = 1_000_000
MAX_KEYS = 100

_PATIENCE = 10.0
_PLAIN = {"accept-encoding": "identity"}
"""The size of an answer is counted as received, so compression would evade the limit."""


class Jwks:
    """The keys of one issuer (JWKS).

    They are fetched when first needed, and again for a token with an unknown key. PyJWT's `PyJWKClient` blocks the event loop, has no
    limit on what an issuer sends, and fetches them for every unknown key (`tests/http/security/test_oidc.py`). Without a `url`, the
    issuer's configuration names it.
    """

    def __init__(
        self, issuer: str, url: str | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._issuer = check_url(issuer)
        self._url = check_url(url) if url else None
        self._clock = clock
        self._keys: KeySet | None = None
        self._fetched = self._failed = self._missed = -math.inf
        self._fetching = asyncio.Lock()

    async def keys(self, kid: str | None) -> KeySet:
        """Return the keys, fetched again if they are old or have none of this id.

        Raises:
            Problem: The issuer does not answer (503).
        """
        if self._is_due(kid) and not (self._fetching.locked() and self._is_usable and self._has(kid)):
            async with self._fetching:
                if self._is_due(kid):  # no other request has fetched them meanwhile
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
                url = check_url(str(found.get("jwks_uri")))
            return _key_set(await _json(client, url))


async def _json(client: httpx2.AsyncClient, url: str) -> Mapping[str, Any]:
    data = bytearray()
    async with asyncio.timeout(_PATIENCE), client.stream("GET", url, headers=_PLAIN) as answer:
        answer.raise_for_status()
        async for part in answer.aiter_raw():
            data += part
            if len(data) > MAX_BYTES:
                raise ValueError(f"{url} has more than {MAX_BYTES:,} bytes")
    found = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError(f"{url} is no JSON object")  # noqa: TRY004 - what the issuer sends is not an argument
    return cast("dict[str, Any]", found)


def _key_set(found: Mapping[str, Any]) -> KeySet:
    """Return the keys that verify signatures, without those of unknown kinds."""
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


def check_url(url: str) -> str:
    """Return the URL if it uses HTTPS, or HTTP on this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return url
    if parts.scheme == "http" and is_this_machine(parts.hostname or ""):
        return url
    raise DefinitionError(f"{url!r} is not an address of https://, and other keys cannot be trusted")
