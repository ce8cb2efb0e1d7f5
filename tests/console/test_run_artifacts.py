"""Artifacts that are not in what a run's page has read: those in external storage, and those of child runs."""

import base64
import os
import struct
import zlib

import pytest
from playwright.async_api import expect

from sojourn import Agent, AgentTool, App, Client, PlanResult, Toolset, Turn, WithArtifacts
from sojourn.asgi import create_app
from sojourn.console.views.values import MOST_SHOWN
from sojourn.network import http_client
from sojourn.storage import FolderStorage
from tests.console.axe import violations
from tests.console.conftest import Console
from tests.http.conftest import listening

KINDS = {"table": list, "picture": dict, "drawing": dict, "tree": dict, "page": str, "events": dict}

surveys = Toolset("art.surveys")


def _png() -> bytes:
    """A picture of 600 by 500, of noise, so that it is large."""
    rows = b"".join(b"\0" + os.urandom(3 * 600) for _ in range(500))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 600, 500, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows, 0))
        + chunk(b"IEND", b"")
    )


def _data(kind: str) -> object:
    pad = "x" * 900_000
    return {
        "table": [{"hour": n, "kW": 3 + n % 7} for n in range(60_000)],
        "picture": {"media_type": "image/png", "data": base64.b64encode(_png()).decode()},
        "drawing": {
            "media_type": "image/svg+xml",
            "data": base64.b64encode(b"<svg onload='hacked=1'/>").decode(),
            "pad": pad,
        },
        "tree": {"leaf": {"depth": 1}, "pad": pad},
        "page": f"<script>window.hacked=1</script><img src=x onerror=hacked=1>{pad}",
        "events": {"rows": "y" * (MOST_SHOWN + 1)},
    }[kind]


@surveys.tool(artifacts=KINDS)
async def survey(kind: str) -> WithArtifacts[str]:
    """Survey."""
    return WithArtifacts(f"a {kind}", **{kind: _data(kind)})


@surveys.tool(artifacts={"curve": list})
async def sketch() -> WithArtifacts[str]:
    """Sketch."""
    return WithArtifacts("a curve", curve=[{"x": n, "y": n * n} for n in range(3)])


async def plan_below(turn: Turn) -> PlanResult:
    """Sketch, and survey a tree."""
    if turn.messages[-1].role == "user":
        return PlanResult.calls(sketch.call(), survey.call(kind="tree"))
    return PlanResult.final("sketched")


painter = Agent("art.painter", planner=plan_below, uses=[surveys])
painting = painter.export("art.painting", tools=[AgentTool("paint", args=dict, user="paint")])


async def plan(turn: Turn) -> PlanResult:
    """Survey what the message names, or let the painter."""
    first = turn.messages[0].text
    if turn.messages[-1].role != "user":
        return PlanResult.final("done")
    if first == "paint":
        return PlanResult.calls(painting.tools["paint"].call({}))
    return PlanResult.calls(*[survey.call(kind=kind) for kind in first.split()])


surveyor = Agent("art.surveyor", planner=plan, uses=[surveys, painting])


@pytest.fixture
async def gallery(serve, status_when, tmp_path):
    """The console of an app whose large artifacts are in a folder."""
    storage = FolderStorage(tmp_path)
    app = App(agents=[surveyor, painter], storage=storage)
    client = await serve(app, storage=storage)
    async with listening(create_app(app, client=client)) as url:
        yield Console(url, client, None, status_when, "art.surveyor")


def section(page, kind):
    """The part of a call about one artifact."""
    return page.locator("section[id*='-artifact-']", has=page.locator("h3", has_text=kind)).last


async def test_stored_artifacts_are_shown_when_their_call_is_opened(gallery, visit):
    """A table is one, a picture is one, and JSON is JSON; nothing is read before, and what a tool calls a page or a drawing is text."""
    run = await gallery.ended("table picture tree page drawing")
    page = await visit(f"{gallery.url}/runs/{run.id}")
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/artifacts/" in request.url else None)
    await expect(page.locator("#tree > .call")).to_have_count(5)
    assert asked == []
    for fold in await page.locator("#tree > .call > details > summary").all():
        await fold.click()
    table = section(page, "table")
    await expect(table.locator("th", has_text="kW")).to_be_visible()
    await expect(table).to_contain_text("60,000 rows in all")
    picture = section(page, "picture").locator("img")
    await expect(picture).to_be_visible()
    assert await picture.evaluate("picture => picture.naturalWidth") == 600
    await expect(section(page, "tree").locator("dd").first).to_have_text('{"depth": 1}')
    await expect(section(page, "page").locator("pre")).to_contain_text("<script>window.hacked=1</script>")
    await expect(section(page, "drawing").locator("img")).to_have_count(0)
    assert not await page.evaluate("window.hacked")
    assert len(asked) == 5
    assert await violations(page) == []
    await page.goto(f"{gallery.url}/runs/{run.id}/calls/{(await first_call(run))}")
    await expect(section(page, "table").locator("th", has_text="kW")).to_be_visible()


async def first_call(run) -> str:
    """The id of the first call of a run."""
    return next(iter([e.tool_call_id async for e in run.events(follow=False) if e.type == "tool_start"]))


async def test_a_stored_artifact_is_a_link_without_a_script(gallery, visit):
    """It has a page of its own, with more of it, and a file to keep."""
    run = await gallery.ended("tree")
    page = await visit(f"{gallery.url}/runs/{run.id}", script=False, size="phone")
    await page.locator("#tree > .call > details > summary").click()
    await page.get_by_role("link", name="Show it").click()
    await expect(page.locator("h2")).to_contain_text("tree")
    await expect(page.locator(".fields dd").first).to_have_text('{"depth": 1}')
    link = await page.get_by_role("link", name="Download as JSON").get_attribute("href")
    async with http_client(base_url=gallery.url) as http:
        answer = await http.get(link)
    assert answer.json() == _data("tree")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["content-disposition"] == 'attachment; filename="tree.json"'
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_what_is_larger_than_a_page_is_not_read_for_one(gallery, visit, tmp_path):
    """The page says how large it is and offers a file, though its kind is the word of another page, and its data is gone by now."""
    run = await gallery.ended("events")
    page = await visit(f"{gallery.url}/runs/{run.id}")
    await page.locator("#tree > .call > details > summary").click()
    part = section(page, "events")
    await expect(part).to_contain_text("2.1 MB")
    link = await part.get_by_role("link", name="Download it as JSON").get_attribute("href")
    async with http_client(base_url=gallery.url) as http:
        assert (await http.get(link)).json() == _data("events")
        for file in [each for each in tmp_path.rglob("*") if each.is_file()]:
            file.unlink()
        alone = await http.get(link.partition("?")[0])
        assert (alone.status_code, "Too large to show here" in alone.text) == (200, True)
        gone = await http.get(link)
    assert (gone.status_code, "artifact_not_found" in gone.text) == (404, True)


async def test_an_artifact_of_a_child_run_is_shown_with_the_call_that_started_it(gallery, visit):
    """Whether the history of the child run has its data or the storage does."""
    run = await gallery.ended("paint")
    page = await visit(f"{gallery.url}/runs/{run.id}")
    await page.locator("#tree > .call > details > summary").click()
    mine = page.locator("#tree > .call > details > .inside > section")
    curve = mine.filter(has=page.locator("h3", has_text="curve")).first
    await expect(curve.locator("th", has_text="y")).to_be_visible()
    tree = mine.filter(has=page.locator("h3", has_text="tree")).first
    await expect(tree.locator("dd").first).to_have_text('{"depth": 1}')


async def test_a_console_without_the_storage_says_what_it_lacks(gallery, visit, no_storage, temporal_address):
    """An artifact that cannot be read, or is not there, is a problem in words, in the place of the artifact or on a page."""
    run = await gallery.ended("tree")
    client = await Client.connect(temporal_address, task_queue=gallery.client.task_queue)
    async with listening(create_app(App(agents=[surveyor, painter]), client=client)) as url:
        page = await visit(f"{url}/runs/{run.id}")
        await page.locator("#tree > .call > details > summary").click()
        await expect(section(page, "tree").get_by_role("alert")).to_contain_text("storage of its workers")
        async with http_client(base_url=url) as http:
            answer = await http.get(f"/runs/{run.id}/calls/{await first_call(run)}/artifacts/none")
    assert (answer.status_code, "artifact_not_found" in answer.text) == (404, True)
