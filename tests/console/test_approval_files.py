"""The files of a call to approve: the API and every page that asks for the decision show them."""

import pytest
from playwright.async_api import expect

from sojourn import Agent, App, Attachment, PlanResult, RunPolicy, Toolset, Turn
from sojourn.asgi import create_app
from sojourn.network import http_client
from tests.console.test_talk import PICTURE
from tests.http.conftest import listening

tools = Toolset("post.files")


@tools.tool(destructive=True, confirmation="Publish them?")
async def publish(picture: Attachment, text: Attachment) -> str:
    """Publish two files."""
    return f"{picture.name} and {text.name}"


async def plan(turn: Turn) -> PlanResult:
    """Publish the files of the message."""
    if turn.messages[-1].role == "tool":
        return PlanResult.final(str(turn.tool_results[0].result))
    picture, text = (file.id for file in turn.messages[-1].attachments)
    return PlanResult.calls(publish.call(picture=picture, text=text))


@pytest.fixture
async def post(serve, status_when, tmp_path):
    """The URL of the service of an agent that publishes files, and a run that waits for approval."""
    agent = Agent("post.clerk", planner=plan, uses=[tools], policy=RunPolicy(interrupts_allowed=True))
    app = App(agents=[agent])
    client = await serve(app)
    (tmp_path / "dot.png").write_bytes(PICTURE)
    (tmp_path / "a <b>.html").write_text("<script>hacked = 1</script>")
    run = await client.start(
        agent.id, "publish them", attachments=[tmp_path / "dot.png", tmp_path / "a <b>.html"]
    )
    await status_when(run, lambda status: status.awaits)
    async with listening(create_app(app, client=client)) as url:
        yield url, run


@pytest.mark.parametrize("script", [True, False])
async def test_an_approver_sees_the_files_of_a_call(post, visit, script):
    """The inbox and the page of the run show the picture and a link to the other file; each leads to the content."""
    url, run = post
    (wait,) = (await run.status()).awaits
    page = await visit("about:blank", script=script)
    for path in (f"/inbox/{run.id}/{wait.id}", f"/runs/{run.id}"):
        await page.goto(f"{url}{path}")
        files = page.locator(".attached li")
        await expect(files).to_have_count(2)
        await expect(files.first).to_contain_text("dot.png")
        await expect(files.nth(1)).to_contain_text("a b.html")
        await expect(files.nth(1)).to_contain_text("text/html, 27 bytes")
        if script:
            await expect(files.first.locator("img")).to_have_js_property("naturalWidth", 1)
        async with http_client() as http:
            link = await files.nth(1).locator("a").get_attribute("href")
            found = await http.get(f"{url}{link}")
        assert found.text == "<script>hacked = 1</script>"
        assert found.headers["content-type"] == "application/octet-stream"


async def test_the_api_names_the_files_of_a_call(post, until):
    """`/v1/waits` and the status of the run have id, name, type, size and path of each, and no claim."""
    url, run = post
    async with http_client(base_url=url) as http:

        async def listed() -> list[dict]:
            waits = (await http.get("/v1/waits")).json()["waits"]
            return [each for each in waits if each["run_id"] == run.id]

        (wait,) = await until(listed)
        (shown,) = (await http.get(f"/v1/runs/{run.id}")).json()["awaits"]
        assert wait["attachments"] == shown["attachments"]
        picture, text = wait["attachments"]
        assert sorted(text) == ["id", "media_type", "name", "path", "size"]
        assert [picture["id"], text["id"]] == [wait["payload"]["picture"], wait["payload"]["text"]]
        assert (text["name"], text["media_type"], text["size"]) == ("a b.html", "text/html", 27)
        assert (await http.get(picture["path"])).content == PICTURE
