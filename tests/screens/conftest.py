"""Fixtures: a Temporal server with its UI, a real browser, and a run's pages and metadata."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from datetime import timedelta
from urllib.parse import quote

import pytest
from playwright.async_api import BrowserContext, Page
from temporalio.api.sdk.v1 import WorkflowMetadata

from sojourn import Run
from sojourn.server import Server
from tests.browsers import browser_with
from tests.layers import watched

ELSEWHERE = "elsewhere.invalid"
"""The host to which links and images in hostile text lead."""


@pytest.fixture(scope="session")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    """A server with a UI, in place of the tests' usual one."""
    folder = tmp_path_factory.mktemp("temporal")
    server = Server(log_filename=folder / "temporal.log", port=0, ui_port=0, attach=False)
    with asyncio.Runner() as runner:
        with watched(refuses=False):
            runner.run(server.start())
        yield server
        runner.run(server.stop(grace=timedelta(0)))


@pytest.fixture(scope="session")
def temporal_address(temporal_server: Server) -> str:
    """The address of this server; the usual fixture of this name may already have been made, for the usual server."""
    return temporal_server.address


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[BrowserContext]:
    """A browser with one context, which caches the UI's code for all pages."""
    async with browser_with(patience=60) as browser:
        yield await browser.new_context(viewport={"width": 1400, "height": 1400})


Look = Callable[..., Awaitable[Page]]


@pytest.fixture
async def look(browser: BrowserContext, temporal_server: Server) -> AsyncIterator[Look]:
    """Open a page of a run, `look(run, "user-metadata")`, or a URL; fails if a page opens a dialog or requests `ELSEWHERE`."""
    page = await browser.new_page()
    effects: list[str] = []

    async def opened(dialog) -> None:
        effects.append(dialog.message)
        await dialog.dismiss()

    page.on("dialog", opened)
    page.on(
        "request", lambda request: effects.append(request.url) if _host(request.url) == ELSEWHERE else None
    )

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
    assert effects == []


def _host(url: str) -> str:
    return url.split("/")[2] if "//" in url else ""


@pytest.fixture
def metadata() -> Callable[[Run], Awaitable[WorkflowMetadata]]:
    """Query a run's metadata: its current details, signals, queries and updates."""

    async def ask(run: Run) -> WorkflowMetadata:
        handle = run.client.temporal.get_workflow_handle(run.id)
        return await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)

    return ask
