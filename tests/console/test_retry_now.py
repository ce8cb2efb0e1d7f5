"""Retry now on the page of a run that waits for its next attempt."""

from datetime import timedelta

import pytest
from playwright.async_api import expect

from sojourn import Agent, App, PlanResult, Turn
from sojourn.asgi import create_app
from tests.http.conftest import listening


class BusyError(Exception):
    """A provider that says when to come back."""

    retry_after = timedelta(minutes=10)


@pytest.mark.parametrize(("size", "script"), [("phone", False), ("desk", True)])
async def test_a_plan_is_retried_without_the_rest_of_its_backoff(serve, visit, until, size, script):
    """The page says when the next attempt is due and why the last failed, has the button only then, and the run goes on at once."""
    attempts = list[int]()

    async def plan(_: Turn) -> PlanResult:
        attempts.append(1)
        if len(attempts) == 1:
            raise BusyError("the model is busy")
        return PlanResult.final("done")

    app = App(agents=[Agent("busy.agent", planner=plan)])
    client = await serve(app)
    async with listening(create_app(app, client=client)) as url:
        run = await client.start("busy.agent", "hello")

        async def is_due() -> bool:
            return bool((await run.status()).hints)

        await until(is_due)
        page = await visit(f"{url}/runs/{run.id}", size=size, script=script)
        button = page.get_by_role("button", name="Retry now")
        await expect(page.locator("main")).to_contain_text("the model is busy")
        await button.click()
        assert (await run.result()).text == "done"
        await page.goto(f"{url}/runs/{run.id}")
        await expect(page.locator("#head .status")).to_have_text("Completed")
        await expect(button).to_have_count(0)
