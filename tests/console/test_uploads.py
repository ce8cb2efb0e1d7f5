"""Files that a person sends: how far they are, and the small pictures of them that the pages show."""

import io
import uuid
from types import SimpleNamespace

import pytest
from playwright.async_api import expect

from sojourn import Agent, App, AttachmentLimits, PlanResult, Turn
from sojourn.asgi import create_app
from sojourn.http import ApiKeys
from sojourn.http import files as files_module
from sojourn.http.security.keys import create_key
from sojourn.network import http_client
from sojourn.storage import FolderStorage
from tests.http.conftest import listening


class CountingStorage(FolderStorage):
    """Counts what is read of it."""

    reads = 0

    async def retrieve(self, context, claims):
        self.reads += 1
        return await super().retrieve(context, claims)


async def plan(turn: Turn) -> PlanResult:
    """Tell the sizes of the files."""
    sizes = [file.size for message in turn.messages for file in message.attachments]
    return PlanResult.final(f"got {sizes}")


@pytest.fixture
async def post(serve, tmp_path):
    """The service of an agent that counts bytes, with keys for two tenants or without any."""
    storage = CountingStorage(tmp_path / "storage")
    limits = AttachmentLimits(max_bytes=5_000_000, media_types=["image/*"])
    app = App(agents=[Agent("post.clerk", planner=plan)], storage=storage, attachments=limits)
    client = await serve(app, storage=storage, attachment_limits=limits)
    keys = {}
    for tenant in ("a", "b"):
        _, text = create_key(tmp_path / "keys.json", tenant, tenant=tenant, roles=["user", "viewer"])
        keys[tenant] = {"Authorization": f"Bearer {text}"}
    web = create_app(app, client=client, auth=ApiKeys(tmp_path / "keys.json"))
    async with listening(create_app(app, client=client)) as url, listening(web) as locked:
        yield SimpleNamespace(url=url, locked=locked, keys=keys, client=client, storage=storage)


async def send_file(page, name: str, media_type: str, size: int) -> None:
    """Send a text and a file by the first form of a page."""
    form = page.locator("form[data-compose]").first
    await form.locator("textarea[name=text]").fill("see this")
    file = {"name": name, "mimeType": media_type, "buffer": bytes(size)}
    await form.locator("input[type=file]").set_input_files([file])
    await form.locator("button.primary").click()


async def expect_refusal(page, place, why: str) -> None:
    """The page says why, and the text can be sent again."""
    await expect(place).to_contain_text(why)
    await expect(page.locator("textarea[name=text]")).to_have_value("see this")
    await expect(page.locator("button.primary")).to_be_enabled()


@pytest.mark.parametrize("path", ["/talk/post.clerk/KNOWN", "/talk/new", "/start"])
async def test_a_form_shows_how_much_is_sent(post, visit, path):
    """A bar grows while a file of 3 MB is on its way, and the message is there afterwards."""
    known = post.client.session("post.clerk", uuid.uuid4().hex)
    await (await known.send("hello")).result()
    page = await visit(post.url + path.replace("KNOWN", known.session_id))
    network = await page.context.new_cdp_session(page)
    slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 1_500_000}
    await network.send("Network.emulateNetworkConditions", slow)
    bar = page.locator(".uploading")
    await send_file(page, "photo.png", "image/png", 3_000_000)
    await expect(bar).to_contain_text("of 3.0 MB")
    await expect(page.get_by_text("got [3000000]").first).to_be_visible()
    await expect(bar).to_have_count(0)


@pytest.mark.parametrize("path", ["/talk/new", "/start"])
async def test_a_file_that_is_refused_leaves_the_form(post, visit, path):
    """The page says why, and has the text."""
    page = await visit(post.url + path)
    await send_file(page, "a.pdf", "application/pdf", 9_000)
    await expect_refusal(page, page.locator("main"), "files of type application/pdf are not accepted")


async def test_a_proxy_that_refuses_the_files_leaves_the_form(post, visit):
    """A page of its own takes the place of nothing, and the text can be sent again."""
    page = await visit(post.url + "/start")

    async def refuse(route):
        if route.request.method == "POST":
            await route.fulfill(status=413, content_type="text/html", body="<h1>Too large</h1>")
        else:
            await route.continue_()

    await page.route("**/start", refuse)
    await send_file(page, "photo.png", "image/png", 9_000)
    await expect_refusal(page, page.get_by_role("alert"), "The upload was interrupted")


async def test_a_page_shows_a_small_picture_that_is_made_once(post, monkeypatch):
    """Of 640 pixels, for whoever may see the run; bytes that are no picture, and too many bytes, are sent as they are."""
    image = pytest.importorskip("PIL.Image", reason="an environment from before Pillow was pinned")
    made = io.BytesIO()
    image.effect_noise((2_000, 1_000), 50).save(made, "PNG")
    junk = b"\x89PNG\r\n\x1a\n" + bytes(200_000)
    async with http_client(base_url=post.locked, timeout=30) as http:
        form = {"agent_id": "post.clerk", "input": "see"}
        files = [
            ("file", (f"{at}.png", data, "image/png")) for at, data in enumerate([made.getvalue(), junk])
        ]
        started = await http.post("/v1/runs", data=form, files=files, headers=post.keys["a"])
        run_id = started.json()["run_id"]
        (message, *_) = (await http.get(f"/v1/runs/{run_id}/transcript", headers=post.keys["a"])).json()
        large, broken = (part["attachment"]["id"] for part in message["parts"][1:])
        path = f"/runs/{run_id}/attachments/{large}?size=small"
        for page in (f"/runs/{run_id}", f"/runs/{run_id}/transcript"):
            shown = (await http.get(page, headers=post.keys["a"])).text
            assert f'<a href="{path.partition("?")[0]}"' in shown, page
            assert f'<img src="{path}" alt="0.png"' in shown, page
        reads = []
        for _ in range(2):
            before = post.storage.reads
            small = await http.get(path, headers=post.keys["a"])
            reads.append(post.storage.reads - before)
            assert image.open(io.BytesIO(small.content)).size == (640, 320)
            assert small.headers["content-type"] == "image/jpeg"
            assert "sandbox" in small.headers["content-security-policy"]
        assert reads[1] < reads[0]
        assert (await http.get(path, headers=post.keys["b"])).status_code == 404
        whole = await http.get(path.replace(large, broken), headers=post.keys["a"])
        assert (whole.content, whole.headers["content-type"]) == (junk, "image/png")
        shown = await http.get(f"/runs/{run_id}/attachments/{large}", headers=post.keys["a"])
        assert shown.content == made.getvalue()
        assert "Cookie" in shown.headers["vary"]
        monkeypatch.setattr(files_module, "MAX_PICTURE_BYTES", 150_000)
        unread = await http.get(path, headers=post.keys["a"])
        assert (unread.content, unread.headers["content-type"]) == (made.getvalue(), "image/png")
