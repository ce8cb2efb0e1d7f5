"""An issuer of tokens on the loopback interface, with keys of its own."""

import json
import threading
import time
from collections.abc import Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from joserfc.jws import JWSRegistry

__all__ = ["Issuer", "bearer", "issuer", "rsa_key"]


@cache
def rsa_key(kid: str) -> RSAKey:
    """An issuer's key; to make one takes a quarter of a second."""
    return RSAKey.generate_key(2048, {"kid": kid})


class Lax(JWSRegistry):
    """Signs with any header, and without a word about the algorithm."""

    max_header_length = 4_000

    def get_alg(self, name):
        return self.algorithms[name]


class Issuer:
    """An OpenID Connect provider, as far as its keys go: it counts who asks for them."""

    def __init__(self) -> None:
        self.keys = [rsa_key("one")]
        self.asked: list[str] = []
        self.status = 200
        self.changes: dict[str, object] = {}
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                answer = issuer.answer(self.path)
                self.send_response(issuer.status if answer is not None else 404)
                self.end_headers()
                self.wfile.write(answer or b"")

            def log_message(self, *_arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, path: str) -> bytes | None:
        if path == "/.well-known/openid-configuration":
            return json.dumps({"issuer": self.url, "jwks_uri": f"{self.url}/keys", **self.changes}).encode()
        if path == "/keys":
            return json.dumps(
                {"keys": [key.as_dict(private=False) for key in self.keys], **self.changes}
            ).encode()
        return None

    def token(self, key=None, /, *, alg: str = "RS256", header: dict | None = None, **claims: object) -> str:
        key = key or self.keys[0]
        now = int(time.time())
        told = {"iss": self.url, "aud": "sojourn", "sub": "ana", "iat": now, "exp": now + 600, "org": "acme"}
        told |= {"roles": ["user"], **claims}
        told = {name: value for name, value in told.items() if value is not None}
        head = {"alg": alg, "kid": key.kid, **(header or {})}
        head = {name: value for name, value in head.items() if value is not None}
        return jwt.encode(head, told, key, registry=Lax(algorithms=[alg], strict_check_header=False))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """A provider of tokens on the loopback interface."""
    made = Issuer()
    yield made
    made.close()


def bearer(text: str) -> dict[str, str]:
    """The header of a token or a key."""
    return {"Authorization": f"Bearer {text}"}
