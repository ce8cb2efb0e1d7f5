"""Audit: each decision is one line that says who, what, with which body, from where, and what became of it."""

import hashlib
import json
from datetime import datetime
from typing import Any

import pytest
from structlog.testing import capture_logs

from sojourn import Principal
from sojourn.errors import DefinitionError
from sojourn.http import AuditFile
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


async def test_a_sink_has_reads_too(serve_web, lines):
    """It has each request of a principal and each refusal, with its time; the log has the decisions alone, and open paths are in neither."""
    records = []
    client = await serve_web(auth=ana, settings=SecuritySettings(audit=records.append))
    await client.get("/who?secret=hunter2")
    async with client.stream("GET", "/events"):
        assert [record["path"] for record in records] == ["/who", "/events"]  # a stream, while it is open
    await client.get("/health")
    await client.post("/decide")
    await client.get("/who", headers={"Authorization": "Bearer bad"})
    told = [(each["event"], each["path"], each.get("subject"), each["status"]) for each in records]
    assert told == [
        ("read", "/who", "ana", 200),
        ("read", "/events", "ana", 200),
        ("decision", "/decide", "ana", 200),
        ("decision", "/who", None, 401),
    ]
    assert all(datetime.fromisoformat(each["at"]).tzinfo for each in records)
    assert "hunter2" not in str(records)
    assert len(lines()) == 2


async def test_what_a_sink_does_not_take_is_not_answered(serve_web):
    """A disk that is full gives away nothing unrecorded; once there is room, the service answers again."""
    is_full = True

    def sink(record: dict[str, Any]) -> None:
        if is_full:
            raise OSError("no space left on device")

    client = await serve_web(auth=ana, settings=SecuritySettings(audit=sink))
    refused = await client.get("/who")
    assert refused.status_code == 500
    assert "ana" not in refused.text
    is_full = False
    assert (await client.get("/who")).json()["subject"] == "ana"


def test_a_file_has_a_line_for_each_record(tmp_path):
    """Only its owner reads it. It is appended to, by several writers, and made anew after it was moved away."""
    path = tmp_path / "audit.jsonl"
    one, other = AuditFile(path), AuditFile(path)
    one({"n": 1, "path": "/ä\n\u2028"})
    other({"n": 2})
    path.rename(tmp_path / "audit.jsonl.1")
    one({"n": 3})
    other({"n": 4})
    moved, new = ((tmp_path / name).read_text().split("\n") for name in ("audit.jsonl.1", "audit.jsonl"))
    assert [json.loads(line).get("n") for line in moved[:-1] + new[:-1]] == [1, 2, 3, 4]
    assert (len(moved), len(new)) == (3, 3)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(DefinitionError, match="No such file"):
        AuditFile(tmp_path / "absent" / "audit.jsonl")
