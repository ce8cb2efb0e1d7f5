"""The inbox: what it lists and says of each wait, and how it is answered, by hand and by keys, with and without a script."""

import asyncio
import re
import time
import uuid
from urllib.parse import quote

import pytest
from playwright.async_api import expect

from sojourn import Client
from sojourn.asgi import create_app
from sojourn.http import ApiKeys
from sojourn.http.security.keys import create_key
from sojourn.network import http_client
from tests.console import office as the_office
from tests.console.axe import violations_for_all
from tests.console.conftest import decide
from tests.console.office import office
from tests.http.conftest import listening

__all__ = ["office"]


def row(page, run):
    """The row of a run in the list."""
    return page.locator(f"#list li[id^='wait-{run.id}-']")


async def read(page):
    """Wait until what is newly shown has been there long enough for keys."""
    await expect(page.locator("#open form.answer:not([data-arming])")).to_be_attached()


async def with_clock(visit, url):
    """Open a page whose time `stop` stops."""
    page = await visit("about:blank")
    await page.clock.install()
    await page.goto(url)
    return page


async def stop(page):
    """Stop the time of a page until `page.clock.run_for`, since a busy machine may take any time between two clicks."""
    await page.clock.pause_at(time.time() + 60)


def label():
    """A label that only one test has, and the part of a URL that filters by it."""
    value = uuid.uuid4().hex[:8]
    return {"test": value}, f"label=test%3D{value}"


@pytest.mark.essential
@pytest.mark.usefixtures("patient_pages")
@pytest.mark.parametrize(("size", "script"), [("phone", True), ("tablet", False)])
async def test_an_approval_shows_what_it_would_do_and_runs_after_two_clicks(office, visit, size, script):
    """The list says what is asked; the page has the arguments, the consequences, what led to it and what the tool says; a click approves."""
    run, _ = await office.asks("refund Ana", labels=(own := label())[0])
    page = await visit(f"{office.url}/inbox?{own[1]}", size=size, script=script)
    await expect(row(page, run)).to_contain_text("Refund 12.5 EUR for order 7314?")
    await expect(row(page, run)).to_contain_text("order: 7314, amount: 12.5, note: broken · refund Ana")
    await row(page, run).locator("a").click()
    opened = page.locator("#open")
    await expect(opened.get_by_role("heading", name="Refund 12.5 EUR for order 7314?")).to_be_visible()
    for text in (
        "Destructive: can delete or overwrite data.",
        "Reaches external systems.",
        "It cannot be taken back.",
    ):
        await expect(opened).to_contain_text(text)
    await expect(opened.locator("tr", has_text="order").first).to_contain_text('"7314"')
    await expect(opened.locator("tr", has_text="amount")).to_contain_text("In euros")
    await expect(opened.locator(".steps")).to_contain_text("office.orders.find")
    approve = opened.get_by_role("button", name="Approve", exact=False).first
    red = await opened.locator(".is-danger").first.evaluate("each => getComputedStyle(each).color")
    await expect(approve).to_have_css("background-color", red)
    await decide(approve)
    await expect(page.locator("#said")).to_contain_text("Approved")
    await office.asked(run, but="")
    status = await run.status()
    assert [call.state for call in status.calls[:2]] == ["done", "done"]


@pytest.mark.usefixtures("short_decisions")
@pytest.mark.parametrize(("size", "script"), [("phone", False), ("desk", True)])
async def test_a_call_is_approved_with_edited_arguments(office, visit, size, script):
    """The form has the arguments; a fault is at its field and changes nothing; the receipt and the decisions say what was changed."""
    run, wait = await office.asks("refund Ana")
    page = await visit(office.page_of(run, wait), size=size, script=script)
    edit = page.locator("#open details.edit")
    await edit.locator("summary").click()
    await expect(edit.get_by_label("Order")).to_have_value("7314")
    await expect(edit.get_by_label("Amount")).to_have_value("12.5")
    await decide(edit.get_by_role("button", name="Approve with changes"))
    await expect(page.locator("#open .problem")).to_contain_text("Nothing was changed.")
    await edit.get_by_label("Order").fill("")
    await decide(edit.get_by_role("button", name="Approve with changes"))
    await expect(edit.locator(".fault:has-text('required')")).to_be_visible()
    assert [each.id for each in (await run.status()).awaits] == [wait.id]
    await edit.get_by_label("Order").fill("7314")
    await edit.get_by_label("Amount").fill("9.75")
    await decide(edit.get_by_role("button", name="Approve with changes"))
    await expect(page.locator("#said")).to_contain_text("Approved with changes")
    await expect(page.locator("#open .fate")).to_contain_text("amount: 12.5 → 9.75")
    ended = [event async for event in run.events(follow=False) if event.type == "tool_end"][1]
    assert ended.result.result == "refunded 9.75"
    await page.goto(f"{office.url}/decisions?tool=refund")
    await expect(page.locator(".decision").first).to_contain_text("amount: 12.5 → 9.75")


async def test_a_call_is_edited_on_the_page_of_its_run(office, visit):
    """The form is there too; one that was opened before the tool's arguments were changed decides nothing."""
    run, wait = await office.asks("refund Ana")
    page = await visit(f"{office.url}/runs/{run.id}")
    edit = page.locator("#side details.edit")
    await edit.locator("summary").click()
    await edit.get_by_label("Amount").fill("9.75")
    await edit.locator("input[name=shape]").evaluate("field => field.value = '0123456789abcdef'")
    await decide(edit.get_by_role("button", name="Approve with changes"))
    await expect(page.locator("#open .problem")).to_contain_text("nothing was decided")
    assert (await run.status()).awaits == [wait]
    await page.goto(f"{office.url}/runs/{run.id}")
    await edit.locator("summary").click()
    await edit.get_by_label("Amount").fill("9.75")
    await decide(edit.get_by_role("button", name="Approve with changes"))
    await expect(page.locator("#said")).to_contain_text("Approved with changes")
    await office.asked(run, but=wait.id)
    ended = [event async for event in run.events(follow=False) if event.type == "tool_end"][1]
    assert ended.result.result == "refunded 9.75"


async def test_what_differs_from_the_last_approved_call_is_shown(office, visit):
    """The second call of a tool is compared with the one that somebody approved: values, new ones and those that are missing."""
    run, first = await office.asks("refund Ana")
    await run.approve(first, by="ben")
    second = await office.asked(run, but=first.id)
    page = await visit(office.page_of(run, second))
    arguments = page.locator("#open .arguments")
    await expect(arguments).to_contain_text("2 differ from the call that ben approved")
    await expect(arguments.locator("tr.is-changed")).to_contain_text("was 12.5")
    await expect(arguments.locator("tr.is-changed")).to_contain_text("1250.0")
    await expect(arguments.locator("tr", has_text="note")).to_contain_text("broken")


async def test_the_inbox_is_answered_by_keys_alone(office, visit):
    """J and k choose, a and d go to a button and do it when pressed again, / goes to the filter and ? says so."""
    labels, query = label()
    runs = [(await office.asks("refund Ana", labels=labels))[0] for _ in range(3)]
    # A page that has not read the waits yet opens none of them.
    page = await visit(f"{office.page_of(runs[0], await office.asked(runs[0]))}?{query}")
    await expect(page.locator("#list .row")).to_have_count(3)
    press = page.keyboard.press
    await expect(row(page, runs[1]).locator("a")).to_have_attribute("data-key", "j")
    await press("j")
    await expect(row(page, runs[1]).locator("a")).to_have_attribute("aria-current", "true")
    await expect(page).to_have_url(re.compile(re.escape(runs[1].id)))
    await expect(row(page, runs[0]).locator("a")).to_have_attribute("data-key", "k")
    await press("k")
    await expect(row(page, runs[0]).locator("a")).to_have_attribute("aria-current", "true")
    await expect(row(page, runs[1]).locator("a")).to_have_attribute("data-key", "j")
    await press("j")
    await expect(page.locator("#open")).to_contain_text(runs[1].id)
    await read(page)
    await press("d")
    await expect(page.get_by_role("button", name="Deny")).to_be_focused()
    assert (await runs[1].status()).awaits, "nobody has decided yet"
    await press("d")
    await expect(page.locator("#said")).to_contain_text("Denied")
    await expect(page.locator("#open .receipt")).to_contain_text("Denied by local")
    await press("j")
    await expect(page.locator("#open")).to_contain_text(runs[2].id)
    await read(page)
    await press("a")
    await press("a")
    await expect(page.locator("#said")).to_contain_text("Approved")
    assert "denied" in (await runs[1].result()).text
    await press("/")
    await expect(page.get_by_label("Tool")).to_be_focused()
    await press("Escape")
    await press("?")
    await expect(page.locator(".help .sheet")).to_be_visible()


async def test_who_keeps_pressing_decides_on_nothing_that_came_meanwhile(office, visit):
    """After an approval nothing else is open; keys go to the next wait only after a pause, and those pressed before it do nothing."""
    labels, query = label()
    runs = [(await office.asks("refund Ana", labels=labels))[0] for _ in range(3)]
    page = await with_clock(visit, f"{office.page_of(runs[0], await office.asked(runs[0]))}?{query}")
    await read(page)
    await page.keyboard.press("a")
    await page.keyboard.press("a")
    await expect(page.locator("#open .receipt")).to_contain_text("Approved by local")
    await stop(page)
    await page.keyboard.press("j")
    await expect(page.locator("#open .meta")).to_contain_text(runs[1].id)
    for _ in range(12):
        await page.keyboard.press("a", delay=20)
        await page.clock.run_for(100)
    await expect(page.locator("#open form.answer[data-arming]")).to_be_attached()
    for run in runs[1:]:
        assert [wait.payload["amount"] for wait in (await run.status()).awaits] == [12.5]
    await page.clock.run_for(800)
    await read(page)
    await page.keyboard.press("a")
    await expect(page.get_by_role("button", name="Approve", exact=False).first).to_be_focused()


async def centre_of(button) -> tuple[float, float]:
    """Where a pointer is on a button."""
    box = await button.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.parametrize("script", [True, False])
async def test_a_decision_leads_to_its_receipt_and_clicks_after_it_approve_nothing(office, visit, script):
    """The page says what was approved, with what, by whom and when; clicks at the same place, 0.1 to 1.5 s later, decide nothing else."""
    labels, query = label()
    runs = [(await office.asks("refund Ana", labels=labels))[0] for _ in range(3)]
    first = await office.asked(runs[0])
    page = await visit(f"{office.page_of(runs[0], first)}?{query}", script=script)
    if script:
        await read(page)
    approve = page.get_by_role("button", name="Approve", exact=False).first
    at = await centre_of(approve)
    await page.mouse.click(*at)
    for pause in (100, 100, 200, 300, 400, 400):
        await page.wait_for_timeout(pause)
        await page.mouse.click(*at)
    receipt = page.locator("#open .receipt")
    for text in ("Approved by local", "Refund an order", "office.orders.refund"):
        await expect(receipt).to_contain_text(text)
    await expect(receipt.locator("time").last).to_contain_text("UTC")
    await expect(page.locator("#open .arguments")).to_contain_text("12.5")
    await expect(page.get_by_role("button", name="Approve", exact=False)).to_have_count(0)
    for run in runs[1:]:
        assert [wait.payload["amount"] for wait in (await run.status()).awaits] == [12.5]
    await page.get_by_role("link", name="Next").click()
    await expect(page.locator("#open .meta")).to_contain_text(runs[1].id)


async def test_the_mouse_is_armed_like_the_keys(office, visit):
    """A click on a wait that has just appeared does nothing; one that comes when it could be read approves what was shown."""
    labels, query = label()
    runs = [(await office.asks("refund Ana", labels=labels))[0] for _ in range(2)]
    page = await with_clock(visit, f"{office.page_of(runs[0], await office.asked(runs[0]))}?{query}")
    approve = page.get_by_role("button", name="Approve", exact=False).first
    await expect(page.locator("#list .row")).to_have_count(2)
    await read(page)
    at = await centre_of(approve)
    await stop(page)
    await page.keyboard.press("j")
    await expect(page.locator("#open .meta")).to_contain_text(runs[1].id)
    for _ in range(6):  # each click that comes too early starts the pause anew
        await page.mouse.click(*at)
        await page.clock.run_for(150)
    await expect(page.locator("#open form.answer[data-arming]")).to_be_attached()
    assert [wait.payload["amount"] for wait in (await runs[1].status()).awaits] == [12.5]
    await page.clock.run_for(800)
    await read(page)
    await page.mouse.click(*await centre_of(approve))
    await expect(page.locator("#said")).to_contain_text("Approved")


async def test_an_approval_that_changes_under_an_open_page_is_armed_anew(office, visit):
    """On the page of a run the next approval takes the place of one that somebody else has given, and a click meant for that one does nothing."""
    run, first = await office.asks("refund Ana")
    page = await with_clock(visit, f"{office.url}/runs/{run.id}")
    form = page.locator("#side form.settle[data-wait]:not([data-arming])")
    await expect(page.locator("#connection")).to_have_text("Live")
    await expect(form).to_be_attached()
    approve = page.locator("#side").get_by_role("button", name="Approve", exact=True)
    await page.evaluate(
        """() => new MutationObserver(() => {
            const shown = document.querySelector("#side pre")?.textContent ?? "";
            if (!shown.includes("1250") || window.pressed) return;
            document.body.dataset.pressed = "";
            window.pressed = document.querySelector("#side button[value=approve]");
            setTimeout(() => window.pressed.click(), 100);
            setTimeout(() => window.pressed.click(), 600);
        }).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true })"""
    )
    await stop(page)
    await run.approve(first, by="ben")
    second = await office.asked(run, but=first.id)
    await expect(page.locator("body[data-pressed]")).to_be_attached()
    await page.clock.run_for(700)
    assert [wait.id for wait in (await run.status()).awaits] == [second.id]
    await page.clock.resume()
    await decide(approve)
    await expect(page.locator("#open .receipt")).to_contain_text("Approved by local")
    await expect(page.locator("#open .arguments")).to_contain_text("1250")
    await page.get_by_role("link", name="Back to the run").click()
    await expect(page).to_have_url(f"{office.url}/runs/{run.id}")


async def test_what_was_done_is_said_only_where_it_is_so(office):
    """A link that says a call was approved says nothing of one that is open, or of one that was denied."""
    labels, _ = label()
    run, wait = await office.asks("refund Ana", labels=labels)
    other, denied = await office.asks("refund Ana", labels=labels)
    await other.deny(denied)
    async with http_client(base_url=office.url, timeout=60) as http:
        for of in (f"{run.id}/{wait.id}", f"{other.id}/{denied.id}"):
            answer = await http.get(f"/inbox/{of}", params={"done": "approve"})
            assert answer.status_code == 200
            assert "<p>Approved." not in answer.text
        answer = await http.get(f"/inbox/{other.id}/{denied.id}", params={"done": "deny"})
        assert "<p>Denied." in answer.text


async def test_a_long_question_is_whole_and_what_is_cut_says_where_all_of_it_is(office):
    """The longest question of a planner is shown whole; of what the run was asked, if it is longer still, the beginning, with a link to all of it."""
    run, wait = await office.asks("which " + "x" * 7_900)
    other, approval = await office.asks("refund " + "y" * 30_000)
    async with http_client(base_url=office.url, timeout=60) as http:
        answer = await http.get(office.page_of(run, wait))
        assert "x" * 7_900 in answer.text.partition('class="prose"')[2]
        assert "Full text:" not in answer.text
        answer = await http.get(office.page_of(other, approval))
        place = re.search('Full text: <a href="([^"]*)"', answer.text)[1]
        assert "y" * 30_000 not in answer.text.partition('aria-label="Context"')[2]
        assert place == f"/runs/{other.id}/transcript"
        assert "y" * 30_000 in (await http.get(place, params={"message": "0"})).text


@pytest.mark.parametrize("script", [True, False])
async def test_a_form_is_made_from_the_schema_and_keeps_what_was_typed(office, visit, script):
    """A field of each kind; what does not fit is told at its field by the service, with everything else as it was typed."""
    run, wait = await office.asks("pickup")
    page = await visit(office.page_of(run, wait), script=script)
    form = page.locator("form.answer")
    parcels = form.get_by_label("Parcels")
    assert await parcels.get_attribute("max") == "20"
    await form.get_by_label("Address").fill("Storgatan 1")
    await form.get_by_label("Day").fill("2026-12-24")
    await form.get_by_label("Yes").check()
    await form.get_by_label("Carrier").select_option("Cycle")
    await parcels.fill("99")
    await parcels.evaluate("field => field.removeAttribute('max')")  # as another browser may
    await decide(form.get_by_role("button", name="Answer", exact=True))
    await expect(page.locator("#open .fault", has_text="Must be at most 20")).to_be_visible()
    await expect(form.get_by_label("Parcels")).to_have_attribute("aria-invalid", "true")
    await expect(form.get_by_label("Address")).to_have_value("Storgatan 1")
    await expect(form.get_by_label("Yes")).to_be_checked()
    await form.get_by_label("Parcels").fill("3")
    await decide(form.get_by_role("button", name="Answer", exact=True))
    await expect(page.locator("#said")).to_contain_text("Answered")
    text = (await run.result()).text
    for each in ('"parcels": 3', '"day": "2026-12-24"', '"express": true', '"carrier": "Cycle"'):
        assert each in text


@pytest.mark.parametrize("script", [True, False])
async def test_a_question_is_answered_in_words_or_declined(office, visit, script):
    """A question without a form takes words; another is declined, without filling in what would be required."""
    labels, query = label()
    one, wait = await office.asks("which 1. this 2. that", labels=labels)
    other, _ = await office.asks("which", labels=labels)
    page = await visit(office.page_of(one, wait) + f"?{query}", script=script)
    while await page.locator("#list .row").count() < 2:  # a page does not wait for all that it lists
        await page.reload()
    await expect(page.locator("#open .prose")).to_contain_text("1. this 2. that")
    await page.locator("form.answer textarea").fill("the <b>second</b>")
    await decide(page.get_by_role("button", name="Answer", exact=True))
    await expect(page.locator("#open .receipt")).to_contain_text("Answered by local")
    await page.get_by_role("link", name="Next (1)").click()
    await expect(page.locator("#open")).to_contain_text(other.id)
    await decide(page.get_by_role("button", name="Skip"))
    await expect(page.locator("#said")).to_contain_text("Declined")
    assert (await one.result()).text == "the <b>second</b>"


@pytest.mark.parametrize("script", [True, False])
async def test_a_result_from_outside_is_checked_field_by_field(office, visit, script):
    """The result of a call from outside has a form of the tool's result, and what its schema refuses is told at the field."""
    run, wait = await office.asks("weigh")
    page = await visit(office.page_of(run, wait), script=script)
    form = page.locator("form.answer")
    await expect(form).to_contain_text("As on its label")
    await form.get_by_label("Scale").fill("b")
    await form.get_by_label("Grams").fill("40000")
    await form.evaluate("form => form.noValidate = true")
    await decide(form.get_by_role("button", name="Send the result"))
    await expect(page.locator("#open .fault", has_text="30000")).to_be_visible()
    await expect(form.get_by_label("Scale")).to_have_value("b")
    await form.get_by_label("Grams").fill("1200")
    await decide(form.get_by_role("button", name="Send the result"))
    await expect(page.locator("#said")).to_contain_text("Sent")
    assert "1200" in (await run.result()).text


@pytest.mark.parametrize("script", [True, False])
async def test_there_may_be_no_result(office, visit, script):
    """Why there is none is sent in place of the fields, which are empty; the planner is told."""
    run, wait = await office.asks("weigh")
    page = await visit(office.page_of(run, wait), script=script)
    await page.get_by_text("Report a failure").click()
    await page.get_by_label("What went wrong").fill("the scale is broken")
    await decide(page.get_by_role("button", name="Send the result"))
    await expect(page.locator("#said")).to_contain_text("Sent")
    assert "the scale is broken" in (await run.result()).text


@pytest.mark.parametrize("script", [True, False])
async def test_results_are_given_in_parts(office, visit, script):
    """One of two results is sent alone, with what its fields begin with left as it is in the other; then that one."""
    run, wait = await office.asks("both")
    page = await visit(office.page_of(run, wait), script=script)
    second = page.locator("form.answer fieldset.of-call").nth(1)
    await second.get_by_label("Grams").fill("700")
    await second.get_by_label("Scale").fill("b")
    await decide(page.get_by_role("button", name="Send the results"))
    await expect(page.locator("#said")).to_contain_text("Saved. Waiting for the other results")
    calls = page.locator("form.answer fieldset.of-call")
    await expect(calls).to_have_count(1)
    await calls.get_by_label("Grams").fill("800")
    await decide(page.get_by_role("button", name="Send the result"))
    await expect(page.locator("#open .fault", has_text="required")).to_be_visible()
    await calls.get_by_label("Scale").fill("a")
    await decide(page.get_by_role("button", name="Send the result"))
    await expect(page.locator("#said")).to_contain_text("Sent")
    text = (await run.result()).text
    assert text.index("800") < text.index("700"), "in the order of the calls"


async def test_a_value_without_a_known_shape_is_json_and_checked_while_it_is_written(office, visit):
    """A text area takes JSON, says at once what is none, and the schema's faults come back with what was written."""
    run, wait = await office.asks("read")
    page = await visit(office.page_of(run, wait))
    area, fault = page.locator("form.answer textarea[data-json]"), page.locator("#open .fault").first
    await area.fill('{"a": [1, 2')
    await expect(fault).to_contain_text("Not valid JSON")
    await area.fill('{"a": ["a"]}')
    await expect(fault).to_have_text("")
    await decide(page.get_by_role("button", name="Send the result"))
    await expect(fault).to_contain_text("/a/0")
    await expect(area).to_have_value('{"a": ["a"]}')
    await area.fill('{"a": [1]}')
    await decide(page.get_by_role("button", name="Send the result"))
    await expect(page.locator("#said")).to_contain_text("Sent")
    assert "[1]" in (await run.result()).text


async def test_an_answer_given_elsewhere_is_told_and_leaves_the_list_at_once(office, visit):
    """Who looks at a wait is told who has answered it and cannot answer any more; a new wait comes by itself."""
    labels, query = label()
    run, wait = await office.asks("refund Ana", labels=labels)
    page = await visit(office.page_of(run, wait) + f"?{query}")
    await expect(page.locator("#connection")).to_have_text("Live")
    await page.locator(".answer [name=reason]").fill("half a thought")
    another, _ = await office.asks("which", labels=labels)
    await expect(row(page, another)).to_be_visible()
    await expect(page.locator(".answer [name=reason]")).to_have_value("half a thought")
    await run.deny(wait, "not now", by="ben")
    await expect(page.locator("#fate")).to_contain_text("Denied by ben")
    await expect(page.locator("#fate")).to_contain_text("not now")
    await expect(row(page, run)).to_have_count(0)
    await expect(page.get_by_role("button", name="Approve", exact=False).first).to_be_hidden()


@pytest.mark.parametrize("script", [True, False])
async def test_who_answers_too_late_is_told_who_was_first(office, visit, script):
    """A form that is sent after somebody else has decided changes nothing, and the page says how it was decided."""
    run, wait = await office.asks("refund Ana")
    page = await visit(office.page_of(run, wait), script=script)
    if script:
        await page.evaluate("document.getElementById('live').remove()")  # who has not been told
    await run.deny(wait, "no", by="ben")
    await decide(page.get_by_role("button", name="Approve", exact=False).first)
    await expect(page.locator("#open")).to_contain_text("Denied by ben")
    await expect(page.get_by_role("button", name="Approve", exact=False)).to_have_count(0)
    assert "denied" in (await run.result()).text


async def test_a_form_that_is_sent_again_has_succeeded(office):
    """The same decision of the same person is told as made already; another one is refused with how it was decided."""
    run, wait = await office.asks("refund Ana")
    async with http_client(base_url=office.url, headers={"Origin": office.url}, timeout=60) as http:
        at, form = f"/inbox/{run.id}/{wait.id}", {"do": "deny", "digest": wait.payload_digest}
        for told in ("<p>Denied.", "<p>Already denied."):
            answer = await http.post(at, data=form, follow_redirects=True)
            assert (answer.status_code, told in answer.text) == (200, True)
        other = await http.post(at, data={**form, "do": "approve"})
        assert (other.status_code, "Denied by <bdi>local" in other.text) == (409, True)


@pytest.mark.parametrize("await_id", ["a\nb", "a\r\nb", "a@/c0", "a/b?#%", "a\u2028b"])
async def test_a_question_of_any_id_has_a_page(office, await_id):
    """Its form answers it, whatever a planner calls it."""
    run, wait = await office.asks(f"odd {await_id}")
    async with http_client(base_url=office.url, headers={"Origin": office.url}, timeout=60) as http:
        at = f"/inbox/{run.id}/{quote(wait.id, safe='')}"
        assert "Which one?" in (await http.get(at)).text
        answer = await http.post(at, data={"do": "answer", "answer": "this"}, follow_redirects=True)
        assert (answer.status_code, "<p>Answered." in answer.text) == (200, True)


@pytest.mark.parametrize("script", [True, False])
async def test_a_decision_on_other_arguments_is_refused_and_shows_those_that_are_so_now(
    office, visit, script
):
    """A digest that is not that of the call is refused in words, nothing runs, and the page has the call as it is, with the reason that was typed."""
    run, wait = await office.asks("refund Ana")
    page = await visit(office.page_of(run, wait), script=script)
    await page.locator(".answer [name=digest]").evaluate("field => field.value = 'f'.repeat(64)")
    await page.locator(".answer [name=reason]").fill("fine")
    await decide(page.get_by_role("button", name="Approve", exact=False).first)
    await expect(page.get_by_role("alert")).to_contain_text("changed after you saw it")
    await expect(page.locator("#open .arguments")).to_contain_text("12.5")
    await expect(page.locator(".answer [name=reason]")).to_have_value("fine")
    assert (await run.status()).awaits
    await decide(page.get_by_role("button", name="Approve", exact=False).first)
    await expect(page.locator("#said")).to_contain_text("Approved")


async def test_approving_and_not_being_asked_again(office, visit):
    """With the scope of the tool, its next call runs without a question."""
    run, wait = await office.asks("refund Ana")
    page = await visit(office.page_of(run, wait))
    await decide(page.get_by_role("button", name="Approve all calls of this tool"))
    await expect(page.locator("#said")).to_contain_text("not asked again for now")
    assert "refunded 1250.0" in (await run.result()).text


async def test_the_inbox_is_filtered_by_tool_kind_agent_and_label(office, visit):
    """What is filtered by is in the URL and in the form; what does not fit is not listed."""
    labels, query = label()
    money, _ = await office.asks("refund Ana", labels=labels)
    words, _ = await office.asks("which", labels=labels)
    page = await visit("about:blank")
    for more, there, gone in (
        ("tool=REFUND", money, words),
        ("kind=question", words, money),
        ("kind=approval&agent=office.clerk", money, words),
    ):
        await page.goto(f"{office.url}/inbox?{query}&{more}")
        await expect(row(page, there)).to_be_visible()
        await expect(row(page, gone)).to_have_count(0)
        await page.reload()  # a wait that comes to a page that is open is not opened by itself
        await expect(page.locator("#open")).to_contain_text(there.id)
    await page.goto(f"{office.url}/inbox?agent=office.nobody")
    await expect(page.get_by_text("No matching items")).to_be_visible()


async def test_hostile_texts_stay_texts(office, visit):
    """Markup in a message, an argument and a question runs nothing, and hidden characters of an argument are written out."""
    text = "<img src=x onerror=alert(1)><script>alert(2)</script>\u202eevil\u202c {{7*7}} \x1b[31m"
    run, wait = await office.asks(f"hostile {text}")
    page = await visit(office.page_of(run, wait))
    value = page.locator("#open .arguments tr", has_text="order").locator("td")
    await expect(value).to_contain_text("<script>alert(2)</script>")
    await expect(value).to_contain_text("\\u202e")
    await expect(value).to_contain_text("{{7*7}}")
    assert await page.locator("#main img, #main script").count() == 0


async def test_roles_and_tenants_decide_what_a_visitor_sees_and_does(
    office, temporal_address, tmp_path, visit
):
    """A viewer of the same tenant reads and has no form, and a form of its own is refused; another tenant has no such wait."""
    path = tmp_path / "keys.json"
    keys = {name: create_key(path, name, tenant=tenant, roles=roles)[1] for name, tenant, roles in (
        ("vera", "", ["viewer"]), ("olaf", "other", ["user", "approver"]),
    )}  # fmt: skip
    run, wait = await office.asks("refund Ana")
    web = create_app(the_office.app, client=await Client.connect(temporal_address), auth=ApiKeys(path))
    async with listening(web) as url, http_client(base_url=url) as http:

        def asking(name: str) -> dict[str, str]:
            return {"Authorization": f"Bearer {keys[name]}", "Origin": url}

        at = f"/inbox/{run.id}/{wait.id}"
        seen = await http.get(at, headers=asking("vera"))
        assert (seen.status_code, "Refund 12.5 EUR" in seen.text, '<form class="answer"' in seen.text) == (
            200,
            True,
            False,
        )
        form = {"do": "approve", "digest": wait.payload_digest}
        assert (await http.post(at, data=form, headers=asking("vera"))).status_code == 403
        for answer in (
            await http.get(at, headers=asking("olaf")),
            await http.post(at, data=form, headers=asking("olaf")),
        ):
            assert (answer.status_code, "Refund" in answer.text) == (404, False)
        assert run.id not in (await http.get("/inbox", headers=asking("olaf"))).text
        assert (
            await http.get(f"/live/inbox?run={run.id}&wait={wait.id}", headers=asking("olaf"))
        ).status_code in (200, 404)
    assert (await run.status()).awaits


async def test_nothing_keeps_anybody_out(office, visit):
    """Axe finds nothing in an empty inbox, an approval, a form, a result from outside, or what was decided."""
    paths = ["/inbox?agent=office.nobody"]
    for word in ("refund Ana", "pickup", "weigh"):
        run, wait = await office.asks(word)
        paths.append(f"/inbox/{run.id}/{wait.id}")
    run, wait = await office.asks("refund Ana")
    await run.deny(wait, "no", by="ben")
    paths.append(f"/inbox/{run.id}/{wait.id}")
    page = await visit("about:blank")
    for path in paths:
        await page.goto(office.url + path)
        assert await violations_for_all(page) == [], path


async def test_a_form_that_does_not_fit_is_told_and_changes_nothing(office):
    """A form of another kind of wait, one without anything in it, and one with too much in it; and a wait that no run has."""
    run, wait = await office.asks("which")
    async with http_client(base_url=office.url, headers={"Origin": office.url}) as http:
        at = f"/inbox/{run.id}/{wait.id}"
        for form in ({"do": "approve"}, {"do": "answer", "answer": "x" * 200_000}):
            assert (await http.post(at, data=form)).status_code == 422, form["do"]
        for text in ("", " \n"):
            empty = await http.post(at, data={"do": "answer", "answer": text})
            assert (empty.status_code, "This is required." in empty.text) == (422, True)
        for path in ("/inbox/none/none", "/inbox/none", f"/inbox/{run.id}/none"):
            assert (await http.get(path)).status_code == 404, path
    assert (await run.status()).awaits


async def test_a_form_that_fails_is_told(office, browser):
    """Whoever refuses it, and where nobody answers at all, the page says so, and nothing is decided."""
    run, _ = await office.asks("refund Ana", labels=(own := label())[0])
    page = await browser.new_page()
    await page.goto(f"{office.url}/inbox?{own[1]}")
    await row(page, run).locator("a").click()
    approve = page.locator("#open").get_by_role("button", name="Approve", exact=False).first

    failing = [
        (foreign, "may not use this service"),
        (lambda route: route.fulfill(status=502, body="<h1>bad gateway</h1>"), "That didn't work (502)."),
        (lambda route: route.abort(), "The service does not respond."),
    ]
    for fail, told in failing:
        await page.route(lambda url: "/inbox" in url, only_posts(fail))
        await decide(approve)
        await expect(page.locator("#notice")).to_contain_text(told)
        await page.unroute_all()
    assert (await run.status()).awaits
    await page.close()


async def test_who_goes_on_before_the_answer_came_is_told_and_not_taken_away(office, browser):
    """What becomes of a decision is said also where another wait has been opened meanwhile, which stays open."""
    own = label()
    runs = [(await office.asks("refund Ana", labels=own[0]))[0] for _ in range(3)]
    page = await browser.new_page()
    await page.goto(f"{office.url}/inbox?{own[1]}")
    opened = page.locator("#open .meta")

    async def deny_and_go_on(run, to, answer):
        sent, held = asyncio.Event(), asyncio.Event()

        async def late(route):
            sent.set()
            await held.wait()
            await answer(route)

        await page.route(lambda url: "/inbox" in url, only_posts(late))
        await row(page, run).locator("a").click()
        await expect(opened).to_contain_text(run.id)
        await decide(page.get_by_role("button", name="Deny"))
        await sent.wait()
        await row(page, to).locator("a").click()
        await expect(opened).to_contain_text(to.id)
        held.set()

    await deny_and_go_on(runs[0], runs[2], lambda route: route.continue_())
    await expect(page.locator("#said")).to_contain_text("Denied")
    await expect(row(page, runs[0])).to_have_count(0)
    await page.unroute_all()
    await deny_and_go_on(runs[1], runs[2], foreign)
    await expect(page.locator("#notice")).to_contain_text("may not use this service")
    assert (await runs[1].status()).awaits
    await expect(opened).to_contain_text(runs[2].id)
    await expect(page).to_have_url(re.compile(re.escape(runs[2].id)))
    await page.close()


async def foreign(route):
    """Send a form as another site would."""
    headers = {**route.request.headers, "origin": "http://elsewhere.example"}
    await route.fulfill(response=await route.fetch(headers=headers))


def only_posts(fail):
    """Let a form fail so, and nothing else."""

    async def on(route):
        await (fail(route) if route.request.method == "POST" else route.continue_())

    return on
