"""Keys and tokens that open nothing, and roles that are not enough."""

import base64
import hashlib
import hmac
import json
import time
from functools import cache
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from joserfc.jwk import RSAKey

from tests.http.every_protocol import PROTOCOLS
from tests.http.security.hostile.world import Answer, Row, World, row
from tests.http.security.test_oidc import Issuer


@cache
def stranger() -> RSAKey:
    """A key that is called as the issuer's is."""
    return RSAKey.generate_key(2048, {"kid": "one"})


def _part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _unsigned(issuer: Issuer, **header: Any) -> str:
    claims = {
        "iss": issuer.url,
        "aud": "sojourn",
        "sub": "ana",
        "org": "globex",
        "exp": int(time.time()) + 60,
    }
    return f"{_part(header)}.{_part({**claims, 'roles': ['operator']})}."


def _with_public_key(issuer: Issuer) -> str:
    """The public key as the secret of a symmetric signature."""
    signed = _unsigned(issuer, alg="HS256", kid="one").removesuffix(".")
    mark = hmac.digest(issuer.keys[0].as_pem(private=False), signed.encode(), hashlib.sha256)
    return f"{signed}.{base64.urlsafe_b64encode(mark).decode().rstrip('=')}"


def _critical(issuer: Issuer) -> str:
    """A good signature of a header with something that has to be understood."""
    signed = _unsigned(issuer, alg="RS256", kid="one", crit=["x"], x=1).removesuffix(".")
    mark = issuer.keys[0].private_key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{signed}.{base64.urlsafe_b64encode(mark).decode().rstrip('=')}"


def _cut(issuer: Issuer) -> str:
    return issuer.token().rpartition(".")[0] + "."


def _swapped(issuer: Issuer) -> str:
    """The signature of one token on the claims of another one."""
    head, _, signature = issuer.token().split(".")
    return ".".join([head, issuer.token(org="globex").split(".")[1], signature])


def token(name: str, made: Any, status: int = 401, code: str = "unauthenticated", method: str = "GET") -> Row:
    """A row with a token, made by a function of the issuer, or of the issuer's own with these claims."""

    async def send(world: World) -> Answer:
        text = world.issuer.token(**made) if isinstance(made, dict) else made(world.issuer)
        body = {"agent_id": "shop.clerk", "input": "hello"} if method == "POST" else None
        return await world.send(method, "/v1/runs", body, who="", headers={"Authorization": f"Bearer {text}"})

    return Row(f"token: {name}", send, status, code)


def key(name: str, **options: Any) -> Row:
    """A row of a request that no key comes with, or none that counts."""
    return row(f"key: {name}", "GET", "/v1/runs/$run", 401, "unauthenticated", who="", **options)


def by_key(name: str, header: str) -> Row:
    """A row with the other tenant's own key, where it opens nothing."""

    async def send(world: World) -> Answer:
        name_of, _, value = header.partition(": ")
        return await world.send(
            "GET", "/v1/runs/$run", who="", headers={name_of: value.replace("$bo", world.keys["bo"])}
        )

    return Row(f"key: {name}", send, 401, "unauthenticated")


async def _in_the_query(world: World) -> Answer:
    return await world.send("GET", "/v1/runs/$run", who="", query={"access_token": world.keys["bo"]})


def may_not(name: str, who: str, path: str, value: Any, code: str = "forbidden", status: int = 403) -> Row:
    """A row of somebody whose role is not enough."""
    return row(f"role: {name}", "POST", path, status, code, value, who=who)


def may_not_talk(name: str) -> Row:
    """A row of a viewer who sends a message by a protocol."""

    async def send(world: World) -> Answer:
        return await world.say(name, "hello", session_id="x", who="vi")

    status = 200 if PROTOCOLS[name].is_jsonrpc else 403
    return Row(f"role: a viewer talks by {name}", send, status, "forbidden")


_ASK = {"agent_id": "shop.clerk", "input": "hello"}

TOKENS = [
    token("one that opens", {"org": "acme", "roles": ["viewer"]}, 200, ""),
    token("no algorithm", lambda issuer: _unsigned(issuer, alg="none")),
    token("no algorithm, in other letters", lambda issuer: _unsigned(issuer, alg="NoNe", kid="one")),
    token("an algorithm that is no text", lambda issuer: _unsigned(issuer, alg=["RS256"], kid="one")),
    token("the public key as a secret", _with_public_key),
    token("no signature", _cut),
    token("the signature of another one", _swapped),
    token("a stranger's key of the same name", lambda issuer: issuer.token(stranger())),
    token("a key that it brings", lambda issuer: issuer.token(stranger(), header={"jwk": stranger().as_dict(private=False)})),
    token("the address of its key", lambda issuer: issuer.token(stranger(), header={"jku": "https://evil.example/keys"})),
    token("a key from a file", lambda issuer: issuer.token(stranger(), header={"kid": "../../../../dev/null"})),
    token("something critical", _critical),
    token("another audience", {"aud": "other"}),
    token("no audience", {"aud": None}),
    token("another issuer", {"iss": "https://evil.example"}),
    token("expired", {"exp": 1}),
    token("no end", {"exp": None}),
    token("an end that is no number", {"exp": "tomorrow"}),
    token("not yet", {"nbf": int(time.time()) + 10_000}),
    token("no tenant", {"org": None}),
    token("an empty tenant", {"org": ""}),
    token("a tenant that is no text", {"org": ["acme"]}),
    token("no subject", {"sub": None}),
    token("a subject with a line break", {"sub": "ana\nbo"}),
    token("no roles", {"roles": []}, 403, "forbidden"),
    token("a role that is not known", {"roles": ["root"]}, 403, "forbidden"),
    token("a viewer who starts", {"roles": ["viewer"]}, 403, "forbidden", "POST"),
    token("20,000 characters", lambda _: "a." + "x" * 20_000 + ".b"),
    token("three dots", lambda _: "a.b.c.d"),
    token("nothing between dots", lambda _: ".."),
    key("none"),
    key("an empty one", headers={"Authorization": "Bearer"}),
    key("one that nobody has", headers={"Authorization": "Bearer sojourn_" + "x" * 43}),
    key("one of 50,000 characters", headers={"Authorization": "Bearer sojourn_" + "x" * 50_000}),
    Row("key: in the query", _in_the_query, 401, "unauthenticated"),
    by_key("in a cookie", "Cookie: authorization=$bo"),
    by_key("in another header", "X-API-Key: $bo"),
    by_key("by another scheme", "Authorization: Basic $bo"),
    by_key("without a scheme", "Authorization: $bo"),
    by_key("with something after it", "Authorization: Bearer $bo x"),
    by_key("a proxy's", "Proxy-Authorization: Bearer $bo"),
    may_not("a viewer starts", "vi", "/v1/runs", _ASK),
    may_not("a viewer begins", "vi", "/v1/sessions/shop.clerk/x", {"text": "hello"}),
    may_not("a viewer answers", "vi", "/v1/runs/$own/answers", {"await_id": "x", "answer": "y"}),
    may_not("a viewer closes", "vi", "/v1/sessions/shop.clerk/x/close", {}),
    *map(may_not_talk, PROTOCOLS),
    may_not("a user approves", "una", "/v1/runs/$own/approvals", {"await_id": "x", "approved": True, "digest": "d"}),
    may_not("a user pauses", "una", "/v1/runs/$own/pause", {}),
    may_not("a user cancels", "una", "/v1/runs/$own/cancel", {}),
    may_not("a user retries now", "una", "/v1/runs/$own/retry-now", {}),
    may_not("a user sets a message aside", "una", "/v1/runs/$own/set-aside", {"what": 0}),
    may_not("a user forks", "una", "/v1/runs/$own/fork", {"approve": True}),
]  # fmt: skip
"""The rows."""
