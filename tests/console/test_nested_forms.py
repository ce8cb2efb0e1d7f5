"""Forms with objects, lists and alternatives: filled in on a phone and a desk, with and without a script."""

import json

import pytest
from playwright.async_api import expect

from tests.console.conftest import decide
from tests.console.office import office

__all__ = ["office"]


@pytest.mark.parametrize(("size", "script"), [("phone", True), ("desk", False)])
async def test_a_nested_form_is_filled_in_by_its_fields(office, visit, size, script):
    """Rows are added and removed with all texts kept, a fault is at its field, and the values come as typed."""
    run, wait = await office.asks("tour")
    page = await visit(office.page_of(run, wait), size=size, script=script)
    form = page.locator("#open form")
    start = form.get_by_role("group", name="start")
    await start.get_by_label("City").fill("Bonn")
    stops = form.locator("fieldset:has(> [name='field1-rows'])")
    await stops.get_by_label("City").nth(0).fill("Köln")
    await stops.get_by_label("City").nth(1).fill("Aachen")
    await stops.get_by_role("button", name="Add a row").click()
    await expect(stops.get_by_label("City")).to_have_count(3)
    await expect(stops.get_by_label("City").nth(1)).to_have_value("Aachen")
    await stops.get_by_label("City").nth(2).fill("Trier")
    await stops.get_by_role("button", name="Remove row 2").click()
    await expect(stops.get_by_label("City")).to_have_count(2)
    await expect(stops.get_by_label("City").nth(1)).to_have_value("Trier")
    await stops.get_by_label("Postcode").nth(1).fill("54290")
    await form.get_by_label("Tags", exact=True).nth(0).fill("new")
    tell = form.locator(".union")
    await tell.get_by_text("ByPhone", exact=True).first.click()
    await expect(tell.get_by_label("Address")).to_be_hidden()
    await tell.get_by_label("Number").fill("1")
    await tell.get_by_label("Number").evaluate("field => field.removeAttribute('minlength')")
    await form.get_by_label("Speed").select_option("fast")
    await decide(form.get_by_role("button", name="Answer", exact=False).first)
    await expect(form.locator(".fault:has-text('at least 3')")).to_be_visible()
    await expect(stops.get_by_label("City").nth(1)).to_have_value("Trier")
    await tell.get_by_label("Number").fill("110")
    await decide(form.get_by_role("button", name="Answer", exact=False).first)
    await expect(page.locator("#said")).to_contain_text("Answered")
    assert json.loads((await run.result()).text) == {
        "start": {"city": "Bonn"},
        "stops": [{"city": "Köln"}, {"city": "Trier", "postcode": "54290"}],
        "tags": ["new"],
        "tell": {"by": "phone", "number": "110"},
        "speed": "fast",
    }
