"""Files by every protocol: data beyond the bound of other bodies, addresses in their histories, and refusals that clients read."""

import asyncio
import hashlib
import json
import shutil
import uuid
from types import SimpleNamespace

import httpx
import pytest

from sojourn import Agent, App, Attachment, AttachmentLimits, PlanResult, Principal, RunPolicy, Toolset, Turn
from sojourn.asgi import create_app
from sojourn.client.conversation_id import conversation_id
from sojourn.http.protocols.reply_token import ReplyToken
from sojourn.network import http_client
from sojourn.storage import FolderStorage
from tests.http.conftest import frames, listening
from tests.http.every_protocol import PROTOCOLS, File, say

tools = Toolset("post.doors")

PICTURE = File("lamp.png", "image/png", b"\x89PNG\r\n\x1a\n" + bytes(3_000_000))
DOORS = [name for name in PROTOCOLS if name != "message"]


@tools.tool(read_only=True)
async def weigh(file: Attachment) -> str:
    """Return the name, type, size and digest of a file."""
    digest = hashlib.sha256(await file.read()).hexdigest()
    return f"{file.name} {file.media_type} {file.size} {digest[:8]}"


async def plan(turn: Turn) -> PlanResult:
    """Ask a question if the message says so, or weigh the newest file."""
    last = turn.messages[-1]
    if last.role == "tool":
        return PlanResult.final(str(turn.tool_results[0].result))
    if last.text == "ask":
        return PlanResult.ask("Which one?")
    files = [file for message in turn.messages for file in message.attachments]
    return PlanResult.calls(weigh.call(file=files[-1].id)) if files else PlanResult.final("no file")


async def caller(request):
    """`Authorization: Bearer ana@a` is Ana of the tenant a."""
    name, _, tenant = request.headers.get("authorization", "").removeprefix("Bearer ").partition("@")
    return Principal(subject=name, tenant=tenant, roles=["user", "viewer"]) if name else None


ANA = {"Authorization": "Bearer ana@a"}


@pytest.fixture
async def post(serve, tmp_path):
    """The service of an app with storage, and files of at most 4 MB."""
    storage = FolderStorage(tmp_path / "storage")
    limits = AttachmentLimits(max_bytes=4_000_000)
    policy = RunPolicy(interrupts_allowed=True)
    agents = [Agent("post.clerk", planner=plan, uses=[tools], policy=policy)]
    app = App(agents=agents, storage=storage, attachments=limits)
    client = await serve(app, storage=storage, attachment_limits=limits)
    web = create_app(app, client=client, auth=caller)
    async with listening(web) as url, http_client(base_url=url, timeout=60, headers=ANA) as http:
        yield SimpleNamespace(http=http, client=client, url=url)


async def ask(post, name: str, text: str = "weigh it", **fields):
    """Send a message by a protocol; the answer, as text."""
    method, path, headers, body = say(name, text, agent_id="post.clerk", **fields)
    return await post.http.request(method, path, headers=headers, json=body)


def weight_of(file: File, name: str = "") -> str:
    """What the tool says of a file."""
    digest = hashlib.sha256(file.content).hexdigest()[:8]
    return f"{name or file.name} {file.media_type} {len(file.content)} {digest}"


@pytest.mark.parametrize("name", DOORS)
async def test_a_file_beyond_the_bound_of_other_bodies(post, name):
    """A picture of 3 MB in the JSON of a protocol is read by a tool, and the history keeps its record."""
    answer = await ask(post, name, files=[PICTURE], session_id=(session := uuid.uuid4().hex))
    assert answer.status_code == 200, answer.text
    assert weight_of(PICTURE) in answer.text, answer.text[:2_000]
    run = post.client.get_run(conversation_id("post.clerk", session, "a"))
    history = await post.client.temporal.get_workflow_handle(run.id).fetch_history()
    assert sum(event.ByteSize() for event in history.events) < 100_000


@pytest.mark.parametrize("name", DOORS)
async def test_a_file_that_is_too_large_is_refused_while_the_client_sends(post, name):
    """A file of 5 MB, and a body of 100 MB: a client that sends all of it first reads the answer."""
    method, path, headers, body = say(
        name, "weigh it", agent_id="post.clerk", files=[File("a.bin", "image/png", bytes(5_000_000))]
    )
    huge = b" " * 100_000_000

    def send(content: bytes) -> httpx.Response:
        with httpx.Client(
            timeout=60, headers={**ANA, **headers, "Content-Type": "application/json"}
        ) as client:
            return client.request(method, post.url + path, content=content)

    for content, detail in ((json.dumps(body).encode(), "4,000,000 bytes"), (huge, "the body has more")):
        if content is huge and name not in ("agui", "mcp"):
            continue
        answer = await asyncio.to_thread(send, content)
        assert (answer.status_code, "too_large" in answer.text) == (413, True)
        assert detail in answer.text


NODE = """
import { readFileSync } from "node:fs";
const [url, path] = process.argv.slice(1);
const headers = { "content-type": "application/json", authorization: "Bearer ana@a" };
const seen = [];
for (const body of [readFileSync(path), Buffer.alloc(100_000_000, 0x20)]) {
  const answer = await fetch(url, { method: "POST", body, headers });
  seen.push([answer.status, (await answer.json()).code]);
}
console.log(JSON.stringify(seen));
"""


@pytest.mark.usefixtures("processes")
async def test_a_client_in_node_reads_why_its_file_is_too_large(post, tmp_path):
    """A file of 5 MB, and a body of 100 MB: `fetch` returns the answer."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    _, path, _, body = say(
        "vercel", "weigh it", agent_id="post.clerk", files=[File("a.bin", "image/png", bytes(5_000_000))]
    )
    (tmp_path / "body.json").write_text(json.dumps(body))
    program = await asyncio.create_subprocess_exec(
        *(node, "--input-type=module", "-e", NODE, post.url + path, str(tmp_path / "body.json")),
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await program.communicate()
    assert json.loads(told) == [[413, "too_large"]] * 2


async def test_a_client_that_asks_first_learns_whether_to_send(post):
    """With `Expect: 100-continue` a body that may have a file is asked for, and one that is too large is refused unread."""
    address = httpx.URL(post.url)
    for size, line in ((5_000_000, b"HTTP/1.1 100"), (100_000_000, b"HTTP/1.1 413")):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        head = (
            f"POST /agui/post.clerk HTTP/1.1\r\nHost: localhost\r\nAuthorization: {ANA['Authorization']}\r\n"
        )
        writer.write(f"{head}Content-Length: {size}\r\nExpect: 100-continue\r\n\r\n".encode())
        assert (await asyncio.wait_for(reader.readline(), 60)).startswith(line)
        writer.close()


async def test_data_is_taken_only_from_parts_of_messages(post):
    """Base64 elsewhere in a body counts as text; a mark that a client writes, and data that is none, are refused."""
    large = "A" * 3_000_000
    method, path, headers, body = say("vercel", "weigh it", agent_id="post.clerk")
    result = {"type": "tool-x", "toolCallId": "c", "state": "output-available", "output": {"url": large}}
    body["messages"].append({"id": "answer-x", "role": "assistant", "parts": [result]})
    answer = await post.http.request(method, path, headers=headers, json=body)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    method, path, headers, body = say("agui", "weigh it", agent_id="post.clerk")
    result = {"id": "r", "role": "tool", "toolCallId": "c", "content": [{"data": large}]}
    answer = await post.http.request(
        method, path, headers=headers, json={**body, "messages": [*body["messages"], result]}
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")
    for data in (f"sojourn-file:{'0' * 64}:5", "A" * 2_999_999 + "?"):
        part = {"type": "binary", "mimeType": "image/png", "data": data}
        body["messages"][0]["content"] = [part]
        answer = await post.http.request(method, path, headers=headers, json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input"), answer.text


async def test_a_page_that_is_loaded_again_loads_the_file(post):
    """The histories of both protocols of pages have an address; another tenant gets nothing, and the page may send it back."""
    desk = uuid.uuid4().hex
    note = File("note.csv", "text/csv", b"a;b\n" * 2_000)
    for file in (PICTURE, note):
        await ask(post, "vercel", files=[file], session_id=desk, message_id=file.name)
    path = f"/vercel/post.clerk/{desk}/messages"
    messages = (await post.http.get(path)).json()
    shown = [part for each in messages for part in each["parts"] if part["type"] == "file"]
    assert [(part["mediaType"], part["filename"]) for part in shown] == [
        ("image/png", "lamp.png"),
        ("text/csv", "note.csv"),
    ]
    for part, file in zip(shown, (PICTURE, note), strict=True):
        assert (await post.http.get(part["url"])).content == file.content
        other = await post.http.get(part["url"], headers={"Authorization": "Bearer eve@b"})
        assert other.status_code == 404
    # The same message with its address is the same message; in another chat it is the same file.
    body = {"id": desk, "messages": messages[:1], "trigger": "submit-message"}
    again = await post.http.post("/vercel/post.clerk", json=body)
    assert (again.status_code, weight_of(PICTURE) in again.text) == (200, True)
    for whose, status in (
        (ANA, 200),
        ({"Authorization": "Bearer ben@a"}, 200),
        ({"Authorization": "Bearer eve@b"}, 404),
    ):
        chat = uuid.uuid4().hex
        copied = await post.http.post("/vercel/post.clerk", json={**body, "id": chat}, headers=whose)
        assert copied.status_code == status, copied.text
        assert (weight_of(PICTURE) in copied.text) is (status == 200)


async def test_a_thread_shows_addresses_in_place_of_data(post):
    """A thread that is opened again, and the snapshot for a page that has its file as data, have the file's address."""
    method, path, headers, body = say("agui", "weigh it", agent_id="post.clerk", files=[PICTURE])

    async def snapshots(body) -> list:
        async with post.http.stream(method, path, headers=headers, json=body) as answer:
            told = [frame.data async for frame in frames(answer.aiter_lines()) if frame.data]
        return [each["messages"] for each in told if each["type"] == "MESSAGES_SNAPSHOT"]

    assert await snapshots(body) == []
    (thread,) = await snapshots({**body, "messages": []})
    (_, file) = thread[0]["content"]
    address = file["source"]["value"]
    assert file == {"type": "image", "source": {"type": "url", "value": address, "mimeType": "image/png"}}
    assert (await post.http.get(address)).content == PICTURE.content
    own = {**body, "messages": [*body["messages"], *thread[1:]]}
    (snapshot,) = await snapshots(own)
    assert snapshot[0]["content"][1]["source"]["value"] == address


async def test_a_chat_goes_on_after_a_message_with_a_file(post):
    """A chat without a name sends its file again with the answer to a question, which the run recognizes."""
    messages = say("chat", "ask", files=[File("a.txt", "text/plain", b"x" * 9_000)]).body["messages"]
    path = "/openai/v1/chat/completions"
    asked = (await post.http.post(path, json={"model": "post.clerk", "messages": messages})).json()
    question = asked["choices"][0]["message"]
    assert question["content"].startswith("Which one?")
    messages = [*messages, question, {"role": "user", "content": "this"}]
    done = (await post.http.post(path, json={"model": "post.clerk", "messages": messages})).json()
    assert done["choices"][0]["message"]["content"].startswith("a.txt text/plain 9000")
    tokens = [ReplyToken.parse(each["id"].removeprefix("chatcmpl-")) for each in (asked, done)]
    assert tokens[0].run_id == tokens[1].run_id
