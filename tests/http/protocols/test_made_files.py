"""Files that tools make, by every door that shows them: an address, a type and a name, within the rules of the run."""

import base64
import uuid
from types import SimpleNamespace

import pytest

from sojourn import Agent, App, Attachment, PlanResult, ToolCallMeta, Toolset, Turn
from sojourn.asgi import create_app
from sojourn.client.conversation_id import conversation_id
from sojourn.network import http_client
from sojourn.storage import FolderStorage
from tests.http.conftest import frames, listening
from tests.http.every_protocol import say
from tests.http.protocols.test_files import ANA, caller

tools = Toolset("post.makers")
CONTENT = b"\x89PNG\r\n\x1a\n" + bytes(200_000)


@tools.tool(read_only=True, open_world=True)
async def draw(meta: ToolCallMeta) -> Attachment:
    """Draw a chart."""
    return await meta.attach("chart 1.png", "image/png", CONTENT)


async def plan(turn: Turn) -> PlanResult:
    """Draw, and answer."""
    drawn = turn.messages[-1].role == "tool"
    return PlanResult.final("drawn") if drawn else PlanResult.calls(draw.call())


@pytest.fixture
async def post(serve, tmp_path):
    storage = FolderStorage(tmp_path / "storage")
    app = App(agents=[Agent("post.clerk", planner=plan, uses=[tools])], storage=storage)
    client = await serve(app, storage=storage)
    web, session = create_app(app, client=client, auth=caller), uuid.uuid4().hex
    async with listening(web) as url, http_client(base_url=url, timeout=60, headers=ANA) as http:

        async def ask(name: str):
            method, path, headers, body = say(name, "draw", agent_id="post.clerk", session_id=session)
            return await http.request(method, path, headers=headers, json=body)

        async def load(address: str) -> bytes:
            other = await http.get(address, headers={"Authorization": "Bearer eve@b"})
            assert other.status_code == 404
            return (await http.get(address)).content

        run_id = conversation_id("post.clerk", session, "a")
        yield SimpleNamespace(http=http, ask=ask, load=load, run_id=run_id, session=session)


async def test_the_api_names_and_serves_a_made_file(post):
    """The output has the artifact with the file's record and no claim; its id is the name of the download."""
    answer = (await post.ask("message")).json()
    (artifact,) = answer["output"]["artifacts"]
    file = artifact["attachment"]
    assert (file["name"], file["media_type"], file["claim"]) == ("chart 1.png", "image/png", {})
    assert await post.load(f"/v1/runs/{post.run_id}/attachments/{file['id']}") == CONTENT
    whole = await post.http.get(f"/v1/runs/{post.run_id}/artifacts/{artifact['ref'].partition('#')[2]}")
    assert whole.json()["attachment"] == file


async def test_a_copy_of_a_file_with_text_from_outside_has_the_mark_too(post):
    """A page that sends the file's address to another chat gives that one a file with its mark, whatever the page says of it."""
    answer = (await post.ask("message")).json()
    (artifact,) = answer["output"]["artifacts"]
    file = artifact["attachment"]
    assert file["tainted"] is True
    url = f"/v1/runs/{post.run_id}/attachments/{file['id']}"
    part = {"type": "file", "mediaType": file["media_type"], "filename": file["name"], "url": url}
    chat = uuid.uuid4().hex
    sent = {"id": "m-1", "role": "user", "parts": [part]}
    body = {"id": chat, "messages": [sent], "trigger": "submit-message"}
    copied = await post.http.post("/vercel/post.clerk", json=body)
    assert copied.status_code == 200, copied.text
    status = (await post.http.get(f"/v1/runs/{conversation_id('post.clerk', chat, 'a')}")).json()
    assert status["taint"]["sources"][0]["source"] == file["name"]


async def test_a_chat_of_the_ai_sdk_gets_a_file_part(post):
    """In the stream, and in the messages of a page that is loaded again."""
    method, path, headers, body = say("vercel", "draw", agent_id="post.clerk", session_id=post.session)
    async with post.http.stream(method, path, headers=headers, json=body) as answer:
        told = [frame.data async for frame in frames(_json_lines(answer.aiter_lines())) if frame.data]
    (chunk,) = [each for each in told if each["type"] == "file"]
    assert (chunk["mediaType"], await post.load(chunk["url"])) == ("image/png", CONTENT)
    messages = (await post.http.get(f"/vercel/post.clerk/{post.session}/messages")).json()
    (part,) = [part for each in messages for part in each["parts"] if part["type"] == "file"]
    assert part["url"] == chunk["url"]


async def _json_lines(lines):
    async for line in lines:
        if line != "data: [DONE]":
            yield line


async def test_a_page_of_agui_gets_an_event(post):
    """`sojourn.file` has id, name, type, size and address."""
    method, path, headers, body = say("agui", "draw", agent_id="post.clerk", session_id=post.session)
    async with post.http.stream(method, path, headers=headers, json=body) as answer:
        told = [frame.data async for frame in frames(answer.aiter_lines()) if frame.data]
    (event,) = [each for each in told if each.get("name") == "sojourn.file"]
    file = event["value"]
    assert (file["name"], file["media_type"], file["size"]) == ("chart 1.png", "image/png", len(CONTENT))
    assert await post.load(file["path"]) == CONTENT


async def test_a_task_of_a2a_has_the_file_by_its_address(post):
    """An artifact with the file's name, type and URL."""
    task = (await post.ask("a2a")).json()["result"]["task"]
    (made,) = [each for each in task["artifacts"] if each["name"] == "chart 1.png"]
    (part,) = made["parts"]
    assert (part["filename"], part["mediaType"]) == ("chart 1.png", "image/png")
    assert await post.load(part["url"]) == CONTENT


async def test_a_tool_of_mcp_links_to_the_file(post):
    """The link has name, type and size, and the resource the content."""
    answer = (await post.ask("mcp")).text
    method, path, headers, body = say("mcp", "draw", agent_id="post.clerk", session_id=post.session)
    body |= {"method": "resources/read"}
    uri = answer.partition('"uri":"')[2].partition('"')[0]
    assert '"name":"chart 1.png"' in answer
    assert f'"size":{len(CONTENT)}' in answer
    read = await post.http.request(method, path, headers=headers, json={**body, "params": {"uri": uri}})
    assert base64.b64encode(CONTENT).decode() in read.text
    assert '"mimeType":"image/png"' in read.text
