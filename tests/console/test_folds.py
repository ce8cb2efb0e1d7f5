"""A call that somebody reads stays open when it goes into a fold."""

import asyncio

from playwright.async_api import expect

from sojourn import Agent, App, PlanResult, Toolset, Turn
from sojourn.asgi import create_app
from tests.http.conftest import listening

ALONE = 2
"""Calls that end before the test lets the others go on."""


async def test_a_call_that_is_read_stays_open_in_its_fold(serve, visit):
    """Two calls have rows of their own, one of which is opened; with the third they fold, and the opened one is still shown, with no other."""
    gate = asyncio.Event()
    tools = Toolset("folds.tools", description="Work")

    @tools.tool
    async def sync(site: int) -> str:
        """Synchronize a site."""
        if site > ALONE:
            await gate.wait()
        return f"site {site} is in sync"

    async def plan(turn: Turn) -> PlanResult:
        done = sum(message.role == "tool" for message in turn.messages)
        if done == 2 * ALONE:
            return PlanResult.final("all are in sync")
        return PlanResult.calls(sync.call(site=done + 1))

    app = App(agents=[Agent("folds.agent", planner=plan, uses=[tools])])
    client = await serve(app)
    async with listening(create_app(app, client=client)) as url:
        run = await client.start("folds.agent", "all sites")
        page = await visit(f"{url}/runs/{run.id}")
        await expect(page.locator("#connection")).to_have_text("Live")
        calls = page.locator("#tree > .call")
        await expect(calls).to_have_count(ALONE + 1)
        await expect(page.locator("#tree > .fold")).to_have_count(0)
        await calls.nth(1).locator("summary").first.click()
        await expect(calls.nth(1).locator(".inside")).to_contain_text("site 2 is in sync")
        gate.set()
        await expect(page.locator("#head .status")).to_have_text("Completed")
        await expect(calls).to_have_count(1)
        inside = page.locator("#tree > .fold .tree > .call")
        await expect(inside).to_have_count(2 * ALONE)
        await expect(inside.nth(1).locator(".inside")).to_be_visible()
        await expect(inside.nth(0).locator(".inside")).to_be_hidden()
