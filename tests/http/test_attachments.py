"""Files over HTTP: forms, uploads by reference, downloads, and refusals that clients read."""

import asyncio
import hashlib
import json
from datetime import timedelta
from types import SimpleNamespace

import httpx
import psutil
import pytest
from starlette.requests import Request

from sojourn import Agent, App, Attachment, AttachmentLimits, PlanResult, Principal, Toolset, Turn
from sojourn.asgi import create_app
from sojourn.http import ApiKeys
from sojourn.http.files import read_files
from sojourn.http.problems import Problem
from sojourn.http.security.keys import create_key
from sojourn.network import http_client
from tests.http.conftest import listening
from tests.http.every_protocol import File, say
from tests.storage.away import AwayStorage

tools = Toolset("post.files")


@tools.tool(read_only=True)
async def weigh(file: Attachment) -> str:
    """Return the name, size and digest of a file."""
    digest = hashlib.sha256()
    async for chunk in file.chunks():
        digest.update(chunk)
    return f"{file.name} {file.media_type} {file.size} {digest.hexdigest()[:8]}"


async def plan(turn: Turn) -> PlanResult:
    """Weigh the newest file."""
    if turn.messages[-1].role == "tool":
        return PlanResult.final(str(turn.tool_results[0].result))
    files = [file for message in turn.messages for file in message.attachments]
    return PlanResult.calls(weigh.call(file=files[-1].id)) if files else PlanResult.final("no file")


@pytest.fixture
async def post(serve, tmp_path):
    """The service of an app with storage, with a key for each of three people of two tenants."""
    storage = AwayStorage(tmp_path / "storage")
    app = App(
        agents=[Agent("post.clerk", planner=plan, uses=[tools])],
        storage=storage,
        attachments=AttachmentLimits(
            max_bytes=25_000_000, max_count=3, media_types=["image/*", "text/*", "application/pdf"]
        ),
    )
    client = await serve(app, storage=storage, attachment_limits=app.attachment_limits)
    keys = {}
    for name, tenant in (("ana", "a"), ("ben", "a"), ("eve", "b")):
        _, text = create_key(tmp_path / "keys.json", name, tenant=tenant, roles=["user", "viewer"])
        keys[name] = {"Authorization": f"Bearer {text}"}
    web = create_app(app, client=client, auth=ApiKeys(tmp_path / "keys.json"))
    async with listening(web) as url, http_client(base_url=url, timeout=40) as http:
        yield SimpleNamespace(http=http, url=url, keys=keys, ana=keys["ana"], client=client, storage=storage)


PDF = b"%PDF-1.7 " * 2_300_000
"""About 20 MB."""


async def answer_of(post, run_id: str) -> str:
    found = await post.http.get(f"/v1/runs/{run_id}/output", params={"wait": 30}, headers=post.ana)
    return found.json()["output"]["text"]


async def test_a_run_starts_with_the_files_of_a_form(post):
    """One request has the message and its files; a tool reads them, and whoever sees the run downloads them."""
    content = b"\x89PNG\r\n\x1a\n" + bytes(3_000_000)
    form = {"agent_id": "post.clerk", "input": "weigh it"}
    made = await post.http.post(
        "/v1/runs", data=form, files={"file": ("../a lamp.png", content, "image/png")}, headers=post.ana
    )
    assert made.status_code == 201, made.text
    run_id = made.json()["run_id"]
    digest = hashlib.sha256(content).hexdigest()[:8]
    assert await answer_of(post, run_id) == f"a lamp.png image/png 3000008 {digest}"
    (message, *_) = (await post.http.get(f"/v1/runs/{run_id}/transcript", headers=post.ana)).json()
    record = message["parts"][1]["attachment"]
    assert record["claim"] == {}
    found = await post.http.get(f"/v1/runs/{run_id}/attachments/{record['id']}", headers=post.keys["ben"])
    assert found.content == content
    assert found.headers["content-type"] == "image/png"
    assert (
        found.headers["content-disposition"]
        == "inline; filename=\"a lamp.png\"; filename*=UTF-8''a%20lamp.png"
    )
    assert found.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in found.headers["content-security-policy"]
    for other, id in (("eve", record["id"]), ("ana", "att_0000000000000000"), ("ana", "..%2F..%2Fx")):
        absent = await post.http.get(f"/v1/runs/{run_id}/attachments/{id}", headers=post.keys[other])
        assert absent.status_code == 404, absent.text


async def test_a_conversation_gets_files_by_form_and_by_reference(post):
    """A form sends a message with files; an upload is sent later by its reference, and a repeated message is the same one."""
    path = "/v1/sessions/post.clerk/desk-1/messages"
    body = json.dumps({"text": "weigh it", "message_id": "m1"})
    for status in (201, 200):
        sent = await post.http.post(
            path,
            params={"wait": 30},
            data={"body": body},
            files={"file": ("a.txt", b"abc" * 2_000, "text/plain")},
            headers=post.ana,
        )
        assert sent.status_code == status, sent.text
        assert sent.json()["output"]["text"].startswith("a.txt text/plain 6000")
    uploaded = await post.http.post(
        "/v1/attachments", files={"file": ("b.txt", b"b" * 700, "text/plain")}, headers=post.ana
    )
    assert uploaded.status_code == 201, uploaded.text
    (upload,) = uploaded.json()["attachments"]
    assert (upload["name"], upload["size"]) == ("b.txt", 700)
    again = {"attachments": [upload["reference"]]}
    sent = await post.http.post(path, params={"wait": 30}, json=again, headers=post.ana)
    assert sent.json()["output"]["text"].startswith("b.txt text/plain 700")
    both = await post.http.post(
        "/v1/runs",
        data={"agent_id": "post.clerk", "input": "weigh it", "attachments": upload["reference"]},
        files={"file": ("c.txt", b"c", "text/plain")},
        headers=post.ana,
    )
    assert both.status_code == 201, both.text
    (message, *_) = (
        await post.http.get(f"/v1/runs/{both.json()['run_id']}/transcript", headers=post.ana)
    ).json()
    assert [part["attachment"]["name"] for part in message["parts"][1:]] == ["b.txt", "c.txt"]
    for other in ("ben", "eve"):
        refused = await post.http.post(path, json=again, headers=post.keys[other])
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")


async def test_a_client_cannot_write_a_record_by_hand(post):
    """A message with a claim of the client's own is refused, whatever it refers to."""
    record = {"id": "att_0123456789abcdef", "name": "a", "media_type": "a/b", "size": 1, "sha256": "0" * 64}
    part = {"type": "document", "media_type": "a/b", "attachment": record}
    body = {"agent_id": "post.clerk", "input": {"role": "user", "parts": [part]}}
    refused = await post.http.post("/v1/runs", json=body, headers=post.ana)
    assert refused.status_code == 422
    assert "attachments" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("name", "content", "kind", "status", "code"),
    [
        ("a.png", bytes(26_000_000), "image/png", 413, "too_large"),
        ("a.png", bytes(70_000_000), "image/png", 413, "too_large"),
        ("a.exe", bytes(20_000_000), "application/x-msdownload", 415, "media_type"),
    ],
    ids=["file", "form", "type"],
)
async def test_a_refusal_is_read_by_a_client_that_still_sends(post, name, content, kind, status, code):
    """Too large a file or form, and a type that is not accepted: a client that sends all first reads the answer."""

    def send() -> httpx.Response:
        with httpx.Client(timeout=60, headers=post.ana) as client:
            return client.post(f"{post.url}/v1/attachments", files={"file": (name, content, kind)})

    answer = await asyncio.to_thread(send)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_too_many_files_and_broken_forms_are_refused(post):
    """More files than the app takes, a form that is cut off, one without a file, and no form."""
    files = [("file", (f"{n}.txt", b"x", "text/plain")) for n in range(4)]
    many = await post.http.post("/v1/attachments", files=files, headers=post.ana)
    assert (many.status_code, many.json()["code"]) == (400, "bad_request")
    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\nabc'
    cut = await post.http.post("/v1/attachments", content=head, headers={**post.ana, **kind})
    assert (cut.status_code, cut.json()["code"]) == (400, "bad_request")
    twice = '{"agent_id": "post.other", "agent_id": "post.clerk", "input": "x"}'
    for fields in ({"body": twice}, {"body": '{"agent_id": "post.clerk", "input": "x"}', "input": "y"}):
        refused = await post.http.post("/v1/runs", data=fields, files={"file": files[0][1]}, headers=post.ana)
        assert (refused.status_code, refused.json()["code"]) == (400, "duplicate_name"), refused.text
    none = await post.http.post("/v1/attachments", files={"x": (None, b"y")}, headers=post.ana)
    assert none.status_code == 422
    plain = await post.http.post("/v1/attachments", json={}, headers=post.ana)
    assert plain.status_code == 415
    stranger = await post.http.post("/v1/attachments", files=files)
    assert stranger.status_code == 401


async def test_memory_stays_bounded(post):
    """A PDF of 20 MB that is uploaded, weighed and downloaded takes the process less memory than its size twice."""
    await post.http.post("/v1/attachments", files={"file": ("s.txt", b"x", "text/plain")}, headers=post.ana)
    process, highest = psutil.Process(), 0
    before = process.memory_info().rss

    async def watch() -> None:
        nonlocal highest
        while True:
            highest = max(highest, process.memory_info().rss)
            await asyncio.sleep(0.005)

    watching = asyncio.create_task(watch())
    answer = await post.http.post(
        "/v1/runs",
        data={"agent_id": "post.clerk", "input": "weigh it"},
        files={"file": ("a.pdf", PDF, "application/pdf")},
        headers=post.ana,
    )
    assert answer.status_code == 201, answer.text
    assert (await answer_of(post, answer.json()["run_id"])).startswith(f"a.pdf application/pdf {len(PDF)}")
    watching.cancel()
    print(f"memory grew by {(highest - before) / 1e6:.1f} MB")
    assert highest - before < 2 * len(PDF)  # the client of this process holds the form, too


async def test_a_storage_that_is_away_is_no_missing_file(post):
    """An upload, a message with one, and a download are asked for again (503), and the answer does not say where the storage is."""
    file = {"file": ("a.txt", b"abc" * 2_000, "text/plain")}
    stored = await post.http.post("/v1/attachments", files=file, headers=post.ana)
    (upload,) = stored.json()["attachments"]
    start = {"agent_id": "post.clerk", "input": "weigh it", "attachments": [upload["reference"]]}
    started = await post.http.post("/v1/runs", json=start, headers=post.ana)
    run_id = started.json()["run_id"]
    await answer_of(post, run_id)
    requests = (
        ("POST", "/v1/attachments", {"files": file}),
        ("POST", "/v1/runs", {"json": start}),
        ("GET", f"/v1/runs/{run_id}/attachments/{upload['id']}", {}),
    )
    for method, path, content in requests:
        post.storage.failing_reads = post.storage.failing_writes = 1
        found = await post.http.request(method, path, headers=post.ana, **content)
        assert (found.status_code, found.json()["code"]) == (503, "storage_unavailable")
        assert found.headers["retry-after"]
        assert "secret-bucket" not in found.text
        post.storage.failing_reads = post.storage.failing_writes = 0
        again = await post.http.request(method, path, headers=post.ana, **content)
        assert again.status_code in (200, 201), again.text
        if path == "/v1/runs":
            await answer_of(post, again.json()["run_id"])  # its tool reads too


async def test_a_file_whose_content_is_gone_is_not_found(post, tmp_path):
    """A chunk that a lifecycle rule has deleted is a 404, and not an answer that breaks off."""
    form = {"agent_id": "post.clerk", "input": "weigh it"}
    content = b"abc" * 2_000
    made = await post.http.post(
        "/v1/runs", data=form, files={"file": ("a.txt", content, "text/plain")}, headers=post.ana
    )
    run_id = made.json()["run_id"]
    await answer_of(post, run_id)
    (message, *_) = (await post.http.get(f"/v1/runs/{run_id}/transcript", headers=post.ana)).json()
    (chunk,) = (
        path for path in (tmp_path / "storage").rglob("*") if path.is_file() and content in path.read_bytes()
    )
    chunk.unlink()
    path = f"/v1/runs/{run_id}/attachments/{message['parts'][1]['attachment']['id']}"
    found = await post.http.get(path, headers=post.ana)
    assert (found.status_code, found.json()["code"]) == (404, "artifact_not_found")


async def test_long_names_and_hostile_ones_are_sent(post):
    """A name that is cut is one that the run accepts; no name reaches a header as more than a name."""
    names = [
        "a" * 198 + " b.txt",
        "x" * 4_000 + ".pdf",
        "a\r\nSet-Cookie: x=1.txt",
        "\u202efdp.exe",
        '";x="',
        "é" * 300,
    ]
    for name in names:
        file = {"file": (name, b"abc", "text/plain")}
        form = {"agent_id": "post.clerk", "input": "weigh it"}
        made = await post.http.post("/v1/runs", data=form, files=file, headers=post.ana)
        assert made.status_code == 201, (name, made.text)
        run_id = made.json()["run_id"]
        await answer_of(post, run_id)
        (message, *_) = (await post.http.get(f"/v1/runs/{run_id}/transcript", headers=post.ana)).json()
        id = message["parts"][1]["attachment"]["id"]
        found = await post.http.get(f"/v1/runs/{run_id}/attachments/{id}", headers=post.ana)
        assert found.content == b"abc"
        assert "set-cookie" not in found.headers
        assert found.headers["content-disposition"].startswith('attachment; filename="')
        assert found.headers["content-type"] == "application/octet-stream"


async def test_a_picture_is_saved_as_one(post):
    """A page that is sent as a picture does not become a page on the disk of the person who saves it."""
    page = b"<script>alert(1)</script>"
    form = {"agent_id": "post.clerk", "input": "weigh it"}
    made = await post.http.post(
        "/v1/runs", data=form, files={"file": ("page.html", page, "image/png")}, headers=post.ana
    )
    run_id = made.json()["run_id"]
    await answer_of(post, run_id)
    (message, *_) = (await post.http.get(f"/v1/runs/{run_id}/transcript", headers=post.ana)).json()
    path = f"/v1/runs/{run_id}/attachments/{message['parts'][1]['attachment']['id']}"
    found = await post.http.get(path, headers=post.ana)
    assert found.headers["content-disposition"].startswith('inline; filename="page.html.png"')


async def test_a_fork_of_a_schedules_run_has_its_files(post, tmp_path, until):
    """Also a fork of the fork, for whoever may see the runs."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"abc" * 2_000)
    ana = Principal(subject="ana", tenant="a")
    daily = await post.client.schedule(
        "post.clerk", "weigh it", every=timedelta(days=1), principal=ana, attachments=[path]
    )
    try:
        await daily.trigger()

        async def started() -> str:
            last = (await daily.status()).last
            return last[0].id if last else ""

        run_id = await until(started)
    finally:
        await daily.delete()
    assert (await answer_of(post, run_id)).startswith("a.txt text/plain 6000")
    for _ in range(2):
        run_id = (await post.client.fork(run_id, principal=ana)).id
        (message, *_) = (await post.http.get(f"/v1/runs/{run_id}/transcript", headers=post.ana)).json()
        address = f"/v1/runs/{run_id}/attachments/{message['parts'][1]['attachment']['id']}"
        found = await post.http.get(address, headers=post.keys["ben"])
        assert found.content == path.read_bytes()
        assert (await post.http.get(address, headers=post.keys["eve"])).status_code == 404


async def test_too_many_files_are_refused_before_one_is_stored(post):
    """Each file would be two objects of the storage, where nothing is deleted."""
    files = [File(f"{at}.pdf", "application/pdf", b"%PDF-" + bytes([at]) * 9_000) for at in range(10)]
    for door in ("agui", "chat", "a2a", "mcp"):
        method, path, headers, body = say(
            door, "weigh them", agent_id="post.clerk", session_id=f"many-{door}", files=files
        )
        answer = await post.http.request(method, path, headers={**headers, **post.ana}, json=body)
        assert "a message has at most 3" in answer.text, door
    assert post.storage.writes == 0


async def test_a_client_that_goes_away_is_no_failure_of_the_service():
    """A form that stops halfway is cut off: it was an error in the log, with a trace."""
    begin = b'--B\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + bytes(9_000)
    messages = iter([{"type": "http.request", "body": begin, "more_body": True}, {"type": "http.disconnect"}])

    async def receive():
        return next(messages)

    headers = [(b"content-type", b"multipart/form-data; boundary=B")]
    scope = {"type": "http", "method": "POST", "path": "/v1/attachments", "headers": headers}
    with pytest.raises(Problem, match="the client has gone"):
        await read_files(Request(scope, receive), AttachmentLimits())
