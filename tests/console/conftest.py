"""Fixtures: one real browser, the console of the shop's app before a real worker, and what a page must never do."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from sojourn import Client
from sojourn.asgi import create_app
from tests.browsers import browser_with
from tests.console import desk_app
from tests.http.conftest import listening, shop

__all__ = ["shop"]  # a fixture, which is used here as it is there

SIZES = {"phone": (390, 844), "tablet": (820, 1180), "desk": (1600, 1000)}

TEMPORAL_UI = "https://temporal.example.org/ui"
"""Where Temporal's UI is, as the desk's console is told."""

Visit = Callable[..., Awaitable[Page]]


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    """The browser of all tests of the console."""
    async with browser_with(patience=60) as browser:
        yield browser


async def resize(page: Page, size: str) -> None:
    """Show a page on a screen of another size."""
    width, height = SIZES[size]
    await page.set_viewport_size({"width": width, "height": height})


async def decide(button: Locator) -> None:
    """Click a button of a wait's form once it can be clicked.

    It is inert for a moment, and a click that is tried again scrolls, which makes it inert anew.
    """
    await expect(button.locator("xpath=ancestor::form[not(@data-arming)]")).to_be_attached()
    await button.click()


@dataclass
class Console:
    """The console, and a client of the runs that it shows."""

    url: str
    client: Client
    web: Any
    status_when: Callable[..., Awaitable[Any]]
    agent_id: str = "shop.clerk"

    async def start(self, text: str, **options: Any) -> Any:
        """Start a run."""
        return await self.client.start(self.agent_id, text, **options)

    async def ended(self, text: str, **options: Any) -> Any:
        """Start a run, and wait until it has ended."""
        run = await self.start(text, **options)
        await self.status_when(run, lambda status: status.closed_at)
        return run

    async def waiting(self, text: str, **options: Any) -> Any:
        """Start a run, and wait until somebody is waited for."""
        run = await self.start(text, **options)
        await self.status_when(run, lambda status: status.awaits or status.child_awaits)
        return run


@pytest.fixture
async def console(serve, shop, status_when) -> AsyncIterator[Console]:
    """The console of the shop's app, with a worker."""
    client = await serve(shop.app)
    web = create_app(shop.app, client=client)
    async with listening(web) as url:
        yield Console(url, client, web, status_when)


@pytest.fixture
async def desk(serve, status_when) -> AsyncIterator[Console]:
    """The console of the operations desk, with a worker."""
    desk_app.gate.clear()
    client = await serve(desk_app.app)
    web = create_app(desk_app.app, client=client, temporal_ui=TEMPORAL_UI)
    async with listening(web) as url:
        yield Console(url, client, web, status_when, "ops.assistant")
    desk_app.gate.set()


@pytest.fixture
def short_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the page of decisions read the newest ten runs: it reads the history of each, and the server has those of other tests."""
    monkeypatch.setattr("sojourn.console.routes.decisions.RUNS", 10)


@pytest.fixture
def patient_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pages wait for all that they show: without a script they get nothing of it later."""
    for name in ("reader.reader", "console.routes.home"):
        monkeypatch.setattr(f"sojourn.{name}.PATIENCE", 60.0)
    monkeypatch.setattr("sojourn.reader.waiting_lists.FIRST", 60.0)
    monkeypatch.setattr("sojourn.console.routes.inbox.HURRY", 60.0)


@pytest.fixture
async def visit(browser: Browser) -> AsyncIterator[Visit]:
    """Open a URL in a context of its own, `visit(url, size="phone", scheme="dark", script=False)`; fails for what no page may do.

    No page may break its own policy, log an error, open a dialog, or be wider than the screen.
    """
    faults: list[str] = []
    async with AsyncExitStack() as stack:

        async def open_page(
            url: str, *, size: str = "desk", scheme: str = "light", script: bool = True, context: Any = None
        ) -> Page:
            width, height = SIZES[size]
            if context is None:
                context = await browser.new_context(
                    viewport={"width": width, "height": height},
                    color_scheme=scheme,
                    java_script_enabled=script,
                )
                stack.push_async_callback(context.close)
                page = await context.new_page()
            else:
                page = await context.new_page()
                stack.push_async_callback(page.close)
                await resize(page, size)

            async def opened(dialog: Any) -> None:
                faults.append(f"a dialog: {dialog.message}")
                await dialog.dismiss()

            page.on("dialog", opened)
            page.on("pageerror", lambda error: faults.append(f"an error of a script: {error}"))
            page.on(
                "console",
                lambda said: (
                    faults.append(f"{page.url}: {said.text}")
                    if said.type in ("error", "warning") and "status of 4" not in said.text
                    else None
                ),
            )
            await page.goto(url)
            if script:
                wide = await page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, f"{url} is {wide} wide on a screen of {width}"
            return page

        yield open_page
    assert faults == []
