"""Fixtures: a Temporal server with its UI, a real browser, and what Temporal's screens are asked for."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from datetime import timedelta
from urllib.parse import quote

import pytest
from playwright.async_api import BrowserContext, Page, async_playwright, expect
from temporalio.api.sdk.v1 import WorkflowMetadata

from sojourn import Run
from sojourn.server import Server

ELSEWHERE = "elsewhere.invalid"
"""Where hostile text would have a browser look."""


@pytest.fixture(scope="session")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    """In place of the tests' usual one: it has a UI."""
    folder = tmp_path_factory.mktemp("temporal")
    server = Server(log_filename=folder / "temporal.log", port=0, ui_port=0, attach=False)
    with asyncio.Runner() as runner:
        runner.run(server.start())
        yield server
        runner.run(server.stop(grace=timedelta(0)))


@pytest.fixture(scope="session")
def temporal_address(temporal_server: Server) -> str:
    """Of that one: the usual fixture of this name may have been asked before, and then has the usual server's."""
    return temporal_server.address


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[BrowserContext]:
    """The Chromium of this machine, which reaches nothing but this machine; it keeps the UI's code from page to page."""
    chromium = shutil.which("chromium")
    if chromium is None:
        reason = "there is no Chromium on this machine: apt-get install chromium"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    expect.set_options(timeout=30_000)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium, args=["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
        )
        yield await browser.new_context(viewport={"width": 1400, "height": 1400})
        await browser.close()


Look = Callable[..., Awaitable[Page]]


@pytest.fixture
async def look(browser: BrowserContext, temporal_server: Server) -> AsyncIterator[Look]:
    """Open a page of a run in Temporal's UI, `look(run, "user-metadata")`, or any other; nothing it shows may come alive."""
    page = await browser.new_page()
    alive: list[str] = []

    async def opened(dialog) -> None:
        alive.append(dialog.message)
        await dialog.dismiss()

    page.on("dialog", opened)
    page.on("request", lambda request: alive.append(request.url) if _host(request.url) == ELSEWHERE else None)

    async def look(run: Run | str, tab: str = "") -> Page:
        url = run
        if isinstance(run, Run):
            described = await run.client.temporal.get_workflow_handle(run.id).describe()
            name = f"{quote(run.id, safe='')}/{described.run_id}"
            url = f"{temporal_server.ui_url}/namespaces/default/workflows/{name}/{tab}"
        await page.goto(url)
        return page

    yield look
    await page.close()
    assert alive == []


def _host(url: str) -> str:
    return url.split("/")[2] if "//" in url else ""


@pytest.fixture
def metadata() -> Callable[[Run], Awaitable[WorkflowMetadata]]:
    """What a run says of itself at this moment: current details, and how it can be reached."""

    async def ask(run: Run) -> WorkflowMetadata:
        handle = run.client.temporal.get_workflow_handle(run.id)
        return await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)

    return ask
