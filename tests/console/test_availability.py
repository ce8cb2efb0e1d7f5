"""A Temporal server that does not answer: pages say so, live ones too, and go on where it answers again."""

import psutil
from playwright.async_api import expect

from sojourn.asgi import create_app
from sojourn.network import http_client
from sojourn.server import Server
from tests.http.conftest import listening

SILENT = "Temporal does not respond"


async def test_a_silent_server_is_told_until_it_answers_again(shop, serve, visit, status_when):
    """Open pages say so in place of "Live" and go on by themselves; a page that is asked for says why it cannot be shown."""
    async with Server(port=0, ui=False, attach=False) as server:
        client = await serve(shop.app, address=server.address)
        run = await client.start("shop.clerk", "ask me")
        await status_when(run, lambda status: status.awaits)
        async with listening(create_app(shop.app, client=client)) as url:
            opened = [await visit(f"{url}/{path}") for path in (f"runs/{run.id}", "runs", "inbox")]
            for page in opened:
                await expect(page.locator("#connection")).to_have_text("Live")
            psutil.Process(server.pid).suspend()
            for page in opened:
                await expect(page.locator("#connection")).to_have_text(SILENT)
            async with http_client(base_url=url, timeout=60) as http:
                answer = await http.get("/inbox")
            assert answer.status_code == 503
            assert "the Temporal server does not answer" in answer.text
            psutil.Process(server.pid).resume()
            for page in opened:
                await expect(page.locator("#connection")).to_have_text("Live")
            await run.answer("the second")
            await expect(opened[0].locator("#head .status")).to_have_text("Completed")
            for page in opened:
                await page.close()
