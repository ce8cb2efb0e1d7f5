"""Audit: each decision is one line that says who, what, with which body, from where, and what became of it."""

import hashlib

import pytest
from structlog.testing import capture_logs

from sojourn import Principal
from sojourn.http.security.middleware import SecuritySettings


async def ana(request):
    if request.headers.get("authorization") == "Bearer bad":
        return None
    return Principal(subject="ana", tenant="acme", roles=["user"])


@pytest.fixture
def lines():
    """The lines of the audit, as they are written."""
    with capture_logs() as caught:
        yield lambda: [line for line in caught if line["event"] == "decision"]


async def test_a_change_is_a_line(serve_web, lines):
    """It has the principal, the request, the digest of its body, the address, and what the route has decided."""
    client = await serve_web(auth=ana)
    body = b'{"approved": true}'
    await client.post("/decide?x=1", content=body)
    (line,) = lines()
    assert line == {
        "event": "decision",
        "log_level": "info",
        "subject": "ana",
        "tenant": "acme",
        "method": "POST",
        "path": "/decide",
        "status": 200,
        "client": "127.0.0.1",
        "body_digest": f"sha256:{hashlib.sha256(body).hexdigest()}",
        "await_id": "w-1",
        "approved": True,
        "digest": "d-1",
    }


@pytest.mark.parametrize(
    ("asked", "status", "code", "subject"),
    [
        (("GET", "/who", {"Authorization": "Bearer bad"}), 401, "unauthenticated", None),
        (("POST", "/decide", {"Authorization": "Bearer bad"}), 401, "unauthenticated", None),
        (("GET", "/as/operator", {}), 403, "forbidden", "ana"),
        (("GET", "/nothing", {}), 404, "not_found", "ana"),
        (("GET", "/boom", {}), 500, None, "ana"),
        (("GET", "/who", {"Host": "evil.example"}), 421, "unknown_host", None),
        (("GET", "/who", {"Origin": "https://evil.example"}), 403, "foreign_origin", None),
    ],
)
async def test_a_refusal_is_a_line(serve_web, lines, asked, status, code, subject):
    """Whatever refuses a request, the line has the code, and who it was where that is known."""
    client = await serve_web(auth=ana, settings=SecuritySettings(hosts=["127.0.0.1"]))
    method, path, headers = asked
    assert (await client.request(method, path, headers=headers)).status_code == status
    (line,) = lines()
    assert (line["status"], line.get("code"), line.get("subject")) == (status, code, subject)
    assert line["log_level"] == "warning"
    assert (line["method"], line["path"], line["client"]) == (method, path, "127.0.0.1")


async def test_reading_is_no_decision(serve_web, lines):
    """A request that reads and is answered leaves no line, a stream neither."""
    client = await serve_web(auth=ana)
    await client.get("/who")
    async with client.stream("GET", "/events") as answer:
        assert answer.status_code == 200
    assert lines() == []


async def test_credentials_are_never_in_a_line(serve_web, lines):
    """Neither a key, nor a token in the query, is written."""
    client = await serve_web(auth=ana)
    await client.post("/decide?access_token=hunter2", headers={"Authorization": "Bearer hunter2"})
    assert lines()
    assert "hunter2" not in str(lines())
