"""Several approvals on one page: each is shown whole, chosen by itself, and decided by itself."""

import re

import pytest
from playwright.async_api import expect

from tests.console.axe import violations_for_all
from tests.console.office import office
from tests.console.test_inbox import label, row

__all__ = ["office"]


def card(page, run):
    """The place of a run's call on the page."""
    return page.locator("article.wait", has_text=run.id)


@pytest.mark.usefixtures("patient_pages")
@pytest.mark.parametrize(("size", "script"), [("phone", False), ("desk", True)])
async def test_chosen_approvals_are_decided_each_by_itself(office, visit, size, script):
    """Approved with its own tick, denied, left open, decided by another, changed meanwhile: the page says each."""
    labels, query = label()
    runs = [(await office.asks("refund Ana", labels=labels))[0] for _ in range(5)]
    approved, denied, left, late, unticked = runs
    page = await visit(f"{office.url}/inbox?{query}", size=size, script=script)
    for run in runs:
        await row(page, run).get_by_role("checkbox").check()
    await page.get_by_role("button", name="Review the chosen approvals").click()
    await expect(page.get_by_role("heading", name="Review 5 approvals")).to_be_visible()
    for run in runs:
        await expect(card(page, run)).to_contain_text("12.5")
        await expect(card(page, run).get_by_role("radio", name="Leave open")).to_be_checked()
    if script:
        assert await violations_for_all(page) == []
    await card(page, approved).get_by_role("radio", name="Approve").check()
    await card(page, approved).get_by_label("I have read").check()
    await card(page, denied).get_by_role("radio", name="Deny").check()
    await card(page, denied).get_by_label("Reason").fill("not today")
    await card(page, late).get_by_role("radio", name="Deny").check()
    await card(page, unticked).get_by_role("radio", name="Approve").check()
    await late.approve(await office.asked(late), by="kim")
    await page.get_by_role("button", name="Send the decisions").click()
    await expect(card(page, approved)).to_contain_text("Approved by local")
    await expect(card(page, denied)).to_contain_text("Denied by local")
    await expect(card(page, late)).to_contain_text("Approved by kim")
    await expect(card(page, unticked)).to_contain_text("Tick that you have read what it can destroy")
    await expect(card(page, unticked).get_by_role("radio", name="Approve")).to_be_checked()
    await expect(card(page, left)).to_have_count(1)
    assert "denied: not today" in (await denied.result()).text
    for run in (left, unticked):
        assert [wait.payload["amount"] for wait in (await run.status()).awaits] == [12.5]
    for run in (approved, late):
        assert (await office.asked(run)).payload["amount"] == 1250.0
    await card(page, unticked).get_by_label("I have read").check()
    await page.get_by_role("button", name="Send the decisions").click()
    await expect(card(page, unticked)).to_contain_text("Approved by local")


async def test_a_call_that_changed_is_not_decided(office, visit):
    """The page shows the call that is asked about now, and says that nothing was decided on it."""
    run, first = await office.asks("refund Ana")
    page = await visit(f"{office.url}/review?wait={run.id}+{first.id}")
    digest = page.locator("input[name$=-digest]")
    await digest.evaluate("field => field.value = '0'.repeat(64)")
    await page.get_by_role("radio", name="Deny").check()
    await page.get_by_role("button", name="Send the decisions").click()
    await expect(page.get_by_role("alert")).to_contain_text("nothing was decided on it")
    await expect(digest).to_have_value(first.payload_digest)
    assert (await run.status()).awaits


async def test_the_page_has_only_what_can_be_decided_there(office, visit):
    """A question, and a wait that is not there, have no place; the rest of many comes after the first twenty."""
    run, wait = await office.asks("which")
    other, approval = await office.asks("refund Ana")
    more = "".join(f"&wait=no-such-run-{n}+w" for n in range(25))
    page = await visit(f"{office.url}/review?wait={run.id}+{wait.id}&wait={other.id}+{approval.id}{more}")
    await expect(page.locator("article.wait")).to_have_count(1)
    await expect(page.get_by_role("link", name="7 more of those you chose")).to_have_attribute(
        "href", re.compile("no-such-run-24")
    )
    empty = await visit(f"{office.url}/review")
    await expect(empty.get_by_text("Nothing to review")).to_be_visible()
