"""Oidc: tokens of an issuer on a real connection; keys rotate, clocks differ, strangers forge, and the issuer goes away."""

import base64
import hashlib
import hmac
import json
import time

import pytest
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from sojourn.errors import DefinitionError
from sojourn.http.security import oidc
from sojourn.http.security.oidc import Oidc
from tests.http.security.issuer import Issuer, bearer, issuer, rsa_key

__all__ = ["issuer"]


async def test_a_token_lets_in_whom_it_names(issuer, serve_web):
    """Subject, tenant and roles are those of its claims; the keys are fetched once for many requests."""
    client = await serve_web(auth=Oidc(issuer.url, "sojourn", tenant="org"))
    for _ in range(5):
        answer = await client.get("/who", headers=bearer(issuer.token()))
        assert answer.json() == {"subject": "ana", "tenant": "acme", "roles": ["user"]}
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]
    assert (await client.get("/who")).status_code == 401


@pytest.mark.parametrize(
    ("options", "claims", "expected"),
    [
        ({"roles": "scope"}, {"scope": "user approver"}, {"roles": ["user", "approver"]}),
        ({"roles": ("realm_access", "roles")}, {"realm_access": {"roles": ["viewer"]}}, {"roles": ["viewer"]}),
        ({"roles": ("realm_access", "roles")}, {"realm_access": "x"}, {"roles": []}),
        ({"role_names": {"leads": ["user", "approver"], "all": ["user"]}}, {"roles": ["leads", "all", "user"]},
         {"roles": ["user", "approver"]}),
        ({}, {"roles": None}, {"roles": []}),
        ({}, {"roles": ["user", 7, None]}, {"roles": ["user"]}),
        ({"subject": "email"}, {"email": "ana@example.org"}, {"subject": "ana@example.org"}),
        ({"tenant": "https://acme.example/org"}, {"https://acme.example/org": "a.b"}, {"tenant": "a.b"}),
        ({"tenant": None}, {}, {"tenant": ""}),
        ({"audience": ["other", "sojourn"]}, {"aud": ["x", "sojourn"]}, {"subject": "ana"}),
    ],
)  # fmt: skip
async def test_claims_are_read_as_the_settings_say(issuer, serve_web, options, claims, expected):
    """Where providers put roles and tenants is theirs; what they are called here is the service's."""
    auth = Oidc(issuer.url, **{"audience": "sojourn", "tenant": "org", **options})
    client = await serve_web(auth=auth)
    answer = await client.get("/who", headers=bearer(issuer.token(**claims)))
    assert answer.status_code == 200
    assert expected.items() <= answer.json().items()


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": 1}, "expired"),
        ({"exp": None}, "exp"),
        ({"exp": "soon"}, "exp"),
        ({"nbf": 9_999_999_999}, "nbf"),
        ({"iss": "https://evil.example"}, "iss"),
        ({"iss": None}, "iss"),
        ({"aud": "another-service"}, "aud"),
        ({"aud": None}, "aud"),
        ({"aud": []}, "aud"),
        ({"aud": ["a", {"b": 1}]}, "aud"),
        ({"sub": None}, "does not say who"),
        ({"sub": ""}, "cannot be a principal"),
        ({"sub": 7}, "sub"),
        ({"sub": "a\nb"}, "cannot be a principal"),
        ({"org": None}, "does not say who"),
        ({"org": ""}, "does not say who"),
        ({"org": ["acme"]}, "does not say who"),
        ({"org": "a'b"}, "cannot be a principal"),
    ],
)
async def test_a_token_with_wrong_claims_opens_nothing(issuer, serve_web, claims, why):
    """Another issuer or audience, another time, nobody, or without the tenant that every token has to have."""
    client = await serve_web(auth=Oidc(issuer.url, "sojourn", tenant="org"))
    answer = await client.get("/who", headers=bearer(issuer.token(**claims)))
    assert answer.status_code == 401
    assert why in answer.json()["detail"]


async def test_clocks_may_differ_a_little(issuer, serve_web):
    """A token that has just expired, or is not valid yet by a few seconds, opens within the leeway and not beyond."""
    client = await serve_web(auth=Oidc(issuer.url, "sojourn", leeway=30))
    now = int(time.time())
    for claims, status in (
        ({"exp": now - 10}, 200),
        ({"exp": now - 60}, 401),
        ({"nbf": now + 10}, 200),
        ({"nbf": now + 60}, 401),
    ):
        assert (await client.get("/who", headers=bearer(issuer.token(**claims)))).status_code == status


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def forged(issuer: Issuer, header: dict, sign) -> str:
    """A token with any header, signed by a function."""
    now = int(time.time())
    claims = {"iss": issuer.url, "aud": "sojourn", "sub": "ana", "exp": now + 600}
    signed = f"{b64(json.dumps(header).encode())}.{b64(json.dumps(claims).encode())}"
    return f"{signed}.{b64(sign(signed.encode()))}"


async def test_a_forged_token_opens_nothing(issuer, serve_web):
    """No signature, one of a stranger's key, the public key as a secret, a key of the token's own, or a changed text."""
    client = await serve_web(auth=Oidc(issuer.url, "sojourn"))
    stranger = RSAKey.generate_key(2048, {"kid": "one"})
    good = issuer.token()
    assert (await client.get("/who", headers=bearer(good))).status_code == 200
    public = issuer.keys[0].as_pem(private=False)
    head, claims, signature = good.split(".")
    changed = b64(json.dumps({**json.loads(base64.urlsafe_b64decode(claims + "==")), "sub": "root"}).encode())

    def by_secret(signed: bytes) -> bytes:
        return hmac.digest(public, signed, hashlib.sha256)

    tokens = [
        forged(issuer, {"alg": "none", "kid": "one"}, lambda _: b""),
        forged(issuer, {"alg": "None", "kid": "one"}, lambda _: b""),
        forged(issuer, {"alg": "HS256", "kid": "one"}, by_secret),
        forged(issuer, {"alg": ["RS256"], "kid": "one"}, by_secret),
        forged(issuer, {"alg": "RS256", "kid": {"a": 1}}, by_secret),
        forged(issuer, {"kid": "one"}, by_secret),
        forged(issuer, {"alg": "RS256", "kid": "one", "crit": ["x"], "x": 1}, by_secret),
        forged(issuer, {"alg": "RS256", "kid": "one", "crit": 5}, by_secret),
        issuer.token(stranger),
        issuer.token(stranger, header={"jwk": stranger.as_dict(private=False)}),
        issuer.token(stranger, header={"jku": f"{issuer.url}/keys", "kid": "../one"}),
        f"{head}.{changed}.{signature}",
        f"{head}.{claims}.",
        f"{head}.{claims}.{signature[:-4]}AAAA",
        f"{head}..{signature}",
        "a.b.c",
        "..",
        f"{b64(b'[1]')}.{claims}.{signature}",
        f"{b64(b'{')}.{claims}.{signature}",
        "x." * 1_000 + "y",
        "e" * 20_000,
    ]
    for token in tokens:
        answer = await client.get("/who", headers=bearer(token))
        assert answer.status_code == 401, token[:80]
        assert "Traceback" not in answer.text


async def test_only_named_algorithms_count(issuer, serve_web):
    """A good signature by an algorithm that was not named opens nothing; each that was named does."""
    issuer.keys = [
        ECKey.generate_key("P-256", {"kid": "ec"}),
        OKPKey.generate_key("Ed25519", {"kid": "ed"}),
        rsa_key("rsa"),
    ]
    ec, ed, rsa = issuer.keys
    client = await serve_web(auth=Oidc(issuer.url, "sojourn", algorithms=["ES256", "EdDSA"]))
    for key, alg, status in (
        (ec, "ES256", 200),
        (ed, "EdDSA", 200),
        (rsa, "RS256", 401),
        (rsa, "PS256", 401),
    ):
        answer = await client.get("/who", headers=bearer(issuer.token(key, alg=alg)))
        assert answer.status_code == status, alg
    client = await serve_web(auth=Oidc(issuer.url, "sojourn"))
    for key, alg in ((ec, "ES256"), (ed, "EdDSA"), (ed, "Ed25519"), (rsa, "RS256"), (rsa, "PS256")):
        assert (await client.get("/who", headers=bearer(issuer.token(key, alg=alg)))).status_code == 200, alg
    wrong = issuer.token(rsa, alg="RS256", header={"kid": "ec"})
    assert (await client.get("/who", headers=bearer(wrong))).status_code == 401


async def test_a_token_that_names_no_key_needs_the_only_one(issuer, serve_web):
    """With one key it is that one; with two nobody can say which."""
    client = await serve_web(auth=Oidc(issuer.url, "sojourn"))
    token = issuer.token(header={"kid": None})
    assert (await client.get("/who", headers=bearer(token))).status_code == 200
    issuer.keys.append(rsa_key("two"))
    client = await serve_web(auth=Oidc(issuer.url, "sojourn"))
    assert (await client.get("/who", headers=bearer(token))).status_code == 401


async def test_a_header_may_have_more_than_the_standard_says(issuer, serve_web):
    """Providers add names of their own."""
    client = await serve_web(auth=Oidc(issuer.url, "sojourn"))
    token = issuer.token(header={"typ": "at+jwt", "nonce": "x", "rh": "y" * 900})
    assert (await client.get("/who", headers=bearer(token))).status_code == 200


async def test_a_new_key_is_fetched_and_an_old_one_forgotten(issuer, serve_web, monkeypatch):
    """A token of a key that is not known yet is answered at once after a rotation; the key before opens nothing then."""
    client = await serve_web(auth=Oidc(issuer.url, "sojourn"))
    old = issuer.token()
    assert (await client.get("/who", headers=bearer(old))).status_code == 200
    issuer.keys = [rsa_key("two")]
    assert (await client.get("/who", headers=bearer(issuer.token()))).status_code == 200
    assert issuer.asked.count("/keys") == 2
    assert (await client.get("/who", headers=bearer(old))).status_code == 401


async def test_strangers_cannot_make_the_service_ask_the_issuer_again_and_again(issuer, serve_web):
    """However many tokens name keys that nobody knows, the keys are fetched once more, and then not for a while."""
    client = await serve_web(auth=Oidc(issuer.url, "sojourn"))
    good = issuer.token()
    assert (await client.get("/who", headers=bearer(good))).status_code == 200
    for n in range(20):
        token = issuer.token(header={"kid": f"k-{n}"})
        assert (await client.get("/who", headers=bearer(token))).status_code == 401
    assert issuer.asked.count("/keys") == 2
    assert (await client.get("/who", headers=bearer(good))).status_code == 200


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_known_keys_serve_while_the_issuer_is_away_but_not_for_ever(issuer, serve_web):
    """For an hour they are used as they are, and then no token opens, with 503, until the issuer answers again."""
    clock = Clock()
    auth = Oidc(issuer.url, "sojourn")
    auth._jwks = oidc.Jwks(issuer.url, clock=clock)
    client = await serve_web(auth=auth)
    token = issuer.token()

    async def status() -> int:
        return (await client.get("/who", headers=bearer(token))).status_code

    assert await status() == 200
    issuer.status = 500
    clock.now = oidc.FRESH + 1
    assert await status() == 200
    asked = len(issuer.asked)
    assert await status() == 200
    assert len(issuer.asked) == asked, "not asked again at once"
    clock.now = oidc.STALE + 1
    answer = await client.get("/who", headers=bearer(token))
    assert (answer.status_code, answer.json()["code"]) == (503, "issuer_unavailable")
    assert answer.headers["retry-after"] == "10"
    issuer.status = 200
    clock.now += oidc.PAUSE
    assert await status() == 200


async def test_keys_that_are_old_are_fetched_again(issuer, serve_web):
    """A key that the issuer has withdrawn opens nothing once the keys are fetched again, which is within ten minutes."""
    clock = Clock()
    auth = Oidc(issuer.url, "sojourn")
    auth._jwks = oidc.Jwks(issuer.url, clock=clock)
    client = await serve_web(auth=auth)
    token = issuer.token()
    assert (await client.get("/who", headers=bearer(token))).status_code == 200
    issuer.keys = [rsa_key("two")]
    clock.now = oidc.FRESH - 1
    assert (await client.get("/who", headers=bearer(token))).status_code == 200
    clock.now = oidc.FRESH + 1
    assert (await client.get("/who", headers=bearer(token))).status_code == 401


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "https://another.example"},
        {"jwks_uri": "http://keys.example/keys"},
        {"jwks_uri": "file:///etc/passwd"},
        {"keys": "none"},
        {"keys": []},
        {"keys": [OctKey.generate_key(256, {"kid": "one"}).as_dict()]},
        {"padding": "x" * (oidc.MAX_BYTES + 1)},
    ],
    ids=["issuer", "not https", "a file", "no list", "no keys", "a secret", "too large"],
)
async def test_an_issuer_that_cannot_be_trusted_opens_nothing(issuer, serve_web, changes):
    """Another issuer's configuration, keys from elsewhere, none, secrets, or too much: no token opens."""
    issuer.changes = changes
    client = await serve_web(auth=Oidc(issuer.url, "sojourn"))
    answer = await client.get("/who", headers=bearer(issuer.token()))
    assert answer.status_code == 503


async def test_a_key_that_is_not_understood_harms_no_other(issuer, serve_web):
    """Keys of unknown kinds, broken ones, and those for encryption are passed over."""
    (mine,) = issuer.keys
    strange = [
        {"kty": "PQ", "kid": "a"},
        {"kty": "RSA", "kid": "b", "n": "?"},
        7,
        {"kty": "EC", "crv": "P-0"},
    ]
    for_secrets = {**mine.as_dict(private=False), "use": "enc", "kid": "c"}
    issuer.changes = {"keys": [*strange, for_secrets, mine.as_dict(private=False)]}
    client = await serve_web(auth=Oidc(issuer.url, "sojourn", jwks_url=f"{issuer.url}/keys"))
    assert (await client.get("/who", headers=bearer(issuer.token()))).status_code == 200
    assert issuer.asked == ["/keys"]
    token = issuer.token(header={"kid": "c"})
    assert (await client.get("/who", headers=bearer(token))).status_code == 401


def test_settings_that_would_trust_anybody_are_refused(subtests: pytest.Subtests) -> None:
    """Plain HTTP to another machine, algorithms with a shared secret or none, and no audience."""
    rows = [
        ({"issuer": "http://issuer.example"}, "https"),
        ({"issuer": "issuer.example"}, "https"),
        ({"jwks_url": "http://issuer.example/keys"}, "https"),
        ({"algorithms": ["HS256"]}, "HS256"),
        ({"algorithms": ["none"]}, "none"),
        ({"algorithms": []}, "at least one algorithm"),
        ({"audience": ""}, "audience"),
        ({"audience": []}, "audience"),
    ]
    for options, why in rows:
        with subtests.test(options=options, why=why), pytest.raises(DefinitionError, match=why):
            Oidc(**{"issuer": "https://issuer.example", "audience": "sojourn", **options})
