"""Files that tools make, on the page of a run and in a conversation; and a form whose file is refused."""

import itertools
import uuid

import httpx2
import pytest
from playwright.async_api import expect

from sojourn import Agent, App, Attachment, AttachmentLimits, PlanResult, ToolCallMeta, Toolset, Turn
from sojourn.asgi import create_app
from sojourn.network import http_client
from sojourn.storage import FolderStorage
from tests.console.test_talk import PICTURE
from tests.http.conftest import listening

tools = Toolset("post.made")


@tools.tool(read_only=True)
async def draw(meta: ToolCallMeta) -> Attachment:
    """Draw a picture, and write a page."""
    await meta.attach("page.html", "text/html", b"<script>hacked = 1</script>")
    return await meta.attach("dot.png", "image/png", PICTURE)


async def plan(turn: Turn) -> PlanResult:
    """Draw, and answer."""
    drawn = turn.messages[-1].role == "tool"
    return PlanResult.final("drawn") if drawn else PlanResult.calls(draw.call())


@pytest.fixture
async def post(serve, tmp_path):
    """The URL of the service of an agent that draws, and a client."""
    storage = FolderStorage(tmp_path / "storage")
    limits = AttachmentLimits(max_bytes=100_000, media_types=["image/*"])
    app = App(agents=[Agent("post.clerk", planner=plan, uses=[tools])], storage=storage, attachments=limits)
    client = await serve(app, storage=storage, attachment_limits=limits)
    async with listening(create_app(app, client=client)) as url:
        yield url, client


async def test_files_that_a_tool_made_are_shown(post, visit):
    """A picture and a link, in the conversation without a click and in the call of the run's page; the page runs nothing."""
    url, client = post
    session = client.session("post.clerk", uuid.uuid4().hex)
    await (await session.send("draw")).result()
    page = await visit("about:blank")
    for path, opens in ((f"/talk/post.clerk/{session.session_id}", False), (f"/runs/{session.run.id}", True)):
        await page.goto(f"{url}{path}")
        if opens:
            await page.locator("details", has_text="draw").first.locator("summary").first.click()
        files = page.locator(".attached li")
        await expect(files).to_have_count(2)
        await expect(files.first).to_contain_text("page.html")
        await expect(files.nth(1).locator("img")).to_have_js_property("naturalWidth", 1)
        async with http_client() as http:
            found = await http.get(f"{url}{await files.first.locator('a').get_attribute('href')}")
        assert found.headers["content-type"] == "application/octet-stream"


async def test_a_form_whose_file_is_refused_keeps_its_text(post, subtests: pytest.Subtests):
    """The page says why, and has the text, whether it stood before the file or after it."""
    url, client = post
    known = client.session("post.clerk", uuid.uuid4().hex)
    await (await known.send("hello")).result()
    fields = {"agent": "post.clerk", "session": "s-1", "do": "send"}
    parts = [*((field, (None, value)) for field, value in fields.items())]
    text = ("text", (None, "a long <text>"))
    paths = ("/talk/new", "/start", f"/talk/post.clerk/{known.session_id}")
    refused = [
        (("large.png", bytes(1_000_000), "image/png"), 413, "100,000 bytes"),
        (("a.exe", b"MZ", "application/x-msdownload"), 415, "are not accepted"),
    ]
    async with httpx2.AsyncClient(base_url=url, headers={"Origin": url}, timeout=60) as http:
        for path, (content, status, told) in itertools.product(paths, refused):
            file = ("file", content)
            for order in ([text, file], [file, text]):
                with subtests.test(path=path, status=status, first=order[0][0]):
                    answer = await http.post(path, files=[*parts, *order])
                    assert answer.status_code == status, answer.text
                    assert "a long &lt;text&gt;</textarea>" in answer.text
                    assert told in answer.text
