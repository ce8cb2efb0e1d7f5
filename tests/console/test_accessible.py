"""The pages of rich runs, looked at by axe, and what a keyboard does; `test_manners` has a page of each kind."""

from playwright.async_api import expect

from tests.console.axe import violations_for_all

WHY = "Why is site s-4 dark?"


async def test_axe_finds_nothing(desk, visit):
    """On every page of a run with pictures, repairs and child runs, one that waits and one that failed, with folds open."""
    done, asks = await desk.ended(WHY), await desk.waiting("Delete the old work orders of s-4")
    failed = await desk.ended("Break at once")
    paths = [f"/runs/{run.id}" for run in (done, asks, failed)]
    paths += [f"/runs/{done.id}/{view}" for view in ("timeline", "transcript", "events", "policy", "fork")]
    found = []
    page = await visit(f"{desk.url}/sign-in")
    for path in paths:
        await page.goto(desk.url + path)
        await page.evaluate(
            "document.querySelectorAll('details:not(.menu)').forEach(each => { each.open = true })"
        )
        if path == f"/runs/{done.id}":
            await expect(page.locator(".child .tree")).to_have_count(1)
        found += [f"{path}: {each}" for each in await violations_for_all(page)]
    assert found == [], "\n".join(found)


async def test_the_keyboard_reaches_and_does_everything(desk, visit):
    """The first key skips to the content, a slash goes to the search, and folds open by Enter."""
    run = await desk.ended(WHY)
    page = await visit(f"{desk.url}/runs")
    await page.keyboard.press("Tab")
    await expect(page.locator(":focus")).to_have_text("To the content")
    await page.keyboard.press("Escape")
    await page.keyboard.press("/")
    await expect(page.locator("[name=q]")).to_be_focused()
    await page.goto(f"{desk.url}/runs/{run.id}")
    await page.locator("#tree > .call summary").first.focus()
    await page.keyboard.press("Enter")
    await expect(page.locator("#tree > .call .inside").first).to_be_visible()


async def test_the_theme_that_somebody_chooses_stays(desk, visit):
    """It is that of the system until the switch is used, and then of the choice, on every page."""
    page = await visit(f"{desk.url}/runs", scheme="light")
    light = await page.evaluate("getComputedStyle(document.body.parentElement).backgroundColor")
    await page.locator("#theme").click()
    dark = await page.evaluate("getComputedStyle(document.body.parentElement).backgroundColor")
    assert light != dark
    await page.reload()
    assert await page.evaluate("getComputedStyle(document.body.parentElement).backgroundColor") == dark
