"""The page of a run: what its tree says, that it is live, and what can be done with the run from there."""

import asyncio
import html
import json
import re
import uuid
from urllib.parse import unquote

import pytest
from playwright.async_api import expect

from sojourn import Principal
from sojourn.asgi import create_app
from sojourn.contracts.principal import ROLES
from sojourn.errors import DefinitionError
from sojourn.network import http_client
from tests.console import desk_app
from tests.console.conftest import TEMPORAL_UI, decide
from tests.http.conftest import listening

WHY = "Why is site s-4 dark?"


def call(page, tool):
    """The last entry of a call of a tool."""
    return page.locator("#tree > .call", has=page.locator(".tool", has_text=tool)).last


async def test_an_id_is_copied_and_times_are_exact_on_demand(console, visit):
    """The run's id is one click away from a terminal, and the switch of the times is kept for the next page."""
    run = await console.start("hello")
    await run.result()
    page = await visit(f"{console.url}/runs/{run.id}")
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.locator("#head [data-copy]").click()
    await expect(page.locator("#head [data-copy]")).to_have_text("Copied")
    assert await page.evaluate("navigator.clipboard.readText()") == run.id
    await expect(page.locator("#head time").first).to_have_text(re.compile("ago|now"))
    await page.locator("#times").click()
    await expect(page.locator("#head time").first).to_have_text(
        re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$")
    )
    await page.goto(f"{console.url}/runs")
    await expect(page.locator(".run time").first).to_have_text(re.compile(r"^\d{4}-"))
    page = await visit(f"{console.url}/runs/{run.id}", script=False)
    await expect(page.locator("#head [data-copy]")).to_be_hidden()


@pytest.mark.parametrize(("size", "script"), [("phone", True), ("tablet", False)])
async def test_a_run_says_what_was_asked_and_all_that_happened(desk, visit, size, script):
    """On a small screen, with and without a script: who asked, the state, the cost, each call, what was wrong with one, and the answer."""
    run = await desk.ended(WHY, principal=Principal(subject="ana"), labels={"desk": "3"})
    page = await visit(f"{desk.url}/runs/{run.id}", size=size, script=script)
    head = page.locator("#head")
    for text in (WHY, "Completed", "ana", "ops.assistant", "$0.0609", "3"):
        await expect(head).to_contain_text(text)
    await expect(page.locator("#tree > .call")).to_have_count(6)
    wrong = page.locator("#tree > .is-state-failed")
    await expect(wrong).to_contain_text("`hours` must be at most 48")
    await expect(wrong).to_contain_text("Retried with new arguments")
    await wrong.locator("summary").first.click()
    await expect(wrong.locator(".repair")).to_contain_text("at most 48")
    await expect(wrong.locator(".repair")).to_contain_text("kWh, W")
    await expect(page.locator(".the-end td", has_text="18.4 kWh")).to_be_visible()
    await expect(page.locator(".the-end strong", has_text="Site s-4")).to_be_visible()
    await expect(page.locator("#tree").get_by_text("has two devices down")).to_have_count(1)


async def test_results_are_tables_pictures_and_fields(desk, visit):
    """A list of objects is a table, a picture is one, and an object is a list of fields."""
    run = await desk.ended(WHY)
    page = await visit(f"{desk.url}/runs/{run.id}", scheme="dark")
    await call(page, "devices.measure").locator("summary").first.click()
    inside = call(page, "devices.measure").locator(".inside")
    await expect(inside.locator("th", has_text="kW")).to_be_visible()
    assert await inside.locator("img").evaluate("picture => picture.naturalWidth") == 24
    await call(page, "devices.read").locator("summary").first.click()
    await expect(call(page, "devices.read").locator("dd", has_text="within the usual band")).to_be_visible()


async def test_a_child_run_opens_in_place_and_is_live_there(desk, visit):
    """Its tree is in the tree of its parent once somebody opens the call, grows there, and is a link without a script."""
    run = await desk.waiting("Fuse or gateway?")
    child = next(iter((await run.status()).child_awaits))
    page = await visit(f"{desk.url}/runs/{run.id}")
    await expect(page.locator("#head .status")).to_have_text("Waiting")
    await call(page, "advice.ask").locator("summary").first.click()
    inside = call(page, "advice.ask").locator(".child")
    await expect(inside).to_contain_text("Which fuse box")
    await desk.client.get_run(child).answer("the old one", by="eve")
    await expect(inside).to_contain_text("Answered by eve")
    await expect(inside).to_contain_text("Replace the gateway")
    await expect(page.locator("#head .status")).to_have_text("Completed")
    assert await call(page, "advice.ask").locator("details").first.evaluate("fold => fold.open")
    ids = await page.evaluate("[...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(ids) == len(set(ids))
    plain = await visit(f"{desk.url}/runs/{run.id}", script=False)
    await call(plain, "advice.ask").locator("summary").first.click()
    await plain.get_by_role("link", name="its own page").click()
    await expect(plain.locator("#head h1")).to_have_text("Is it the fuse?")


async def test_the_tree_is_live_and_keeps_what_somebody_does_in_it(desk, visit):
    """New calls, progress and answers appear; open folds, the text in a field and the scroll stay."""
    run = await desk.waiting("Delete the old work orders of s-4")
    page = await visit(f"{desk.url}/runs/{run.id}")
    await expect(page.locator("#connection")).to_have_text("Live")
    await expect(page.locator("#side .waits")).to_contain_text("Delete 412 work orders of s-4?")
    await call(page, "orders.delete").locator("summary").first.click()
    await page.locator("#act-pause summary").click()
    await page.locator("#pause-reason").fill("half a sen")
    await run.approve(by="eve", reason="they are old")
    await expect(page.locator("#head .status")).to_have_text("Completed")
    await expect(call(page, "orders.delete")).to_contain_text("Approved by eve")
    assert await call(page, "orders.delete").locator("details").first.evaluate("fold => fold.open")
    await expect(page.locator("#side .waits")).to_have_count(0)
    await expect(page.locator(".the-end")).to_contain_text("Done")


@pytest.mark.essential
@pytest.mark.parametrize("script", [True, False])
async def test_what_a_run_waits_for_is_answered_on_its_page(desk, visit, script):
    """A call is approved or denied as its arguments are shown, a question of a child run is answered, and the receipt leads back to the page of the run."""
    run = await desk.waiting("Delete the old work orders of s-4")
    page = await visit(f"{desk.url}/runs/{run.id}", script=script)
    side = page.locator("#side .waits")
    await expect(side.locator("pre")).to_contain_text('"count": 412')
    await side.get_by_label("Reason (optional").fill("they are old")
    await decide(side.get_by_role("button", name="Approve", exact=True))
    await expect(page.locator(".receipt")).to_contain_text("Approved by local")
    await page.get_by_role("link", name="Back to the run").click()
    await expect(page).to_have_url(f"{desk.url}/runs/{run.id}")
    await desk.status_when(run, lambda status: status.status == "completed")
    await page.goto(f"{desk.url}/runs/{run.id}")
    await expect(call(page, "orders.delete")).to_contain_text("Approved by local")
    parent = await desk.waiting("Fuse of s-9")
    await page.goto(f"{desk.url}/runs/{parent.id}")
    await side.get_by_label("Answer").fill("the old one")
    await decide(side.get_by_role("button", name="Answer", exact=True))
    await page.get_by_role("link", name="Back to the run").click()
    await expect(page).to_have_url(f"{desk.url}/runs/{parent.id}")
    await desk.status_when(parent, lambda status: status.status == "completed")


async def test_a_call_that_has_changed_is_not_approved_from_the_page_of_its_run(desk, visit):
    """What was shown is what is decided on: another digest is refused, and the page of the wait says so."""
    run = await desk.waiting("Delete the old work orders of s-4")
    page = await visit(f"{desk.url}/runs/{run.id}", script=False)
    wait = (await run.status()).awaits[0]
    form = {"do": "approve", "digest": "0" * 64, "back": run.id}
    async with http_client(base_url=desk.url, headers={"Origin": desk.url}) as http:
        answer = await http.post(f"/inbox/{run.id}/{wait.id}", data=form)
    assert (answer.status_code, "changed after you saw it" in answer.text) == (409, True)
    await expect(page.locator("#side .waits")).to_have_count(1)
    assert (await run.status()).awaits


async def test_what_a_planner_writes_and_a_call_does_is_seen_at_once(desk, visit):
    """The text of a plan that is being made is there before the plan is, and a call says how far it is."""
    writing, rolling = await desk.waiting("Write to me"), await desk.start("Roll out to s-2")
    page = await visit(f"{desk.url}/runs/{writing.id}")
    other = await visit(f"{desk.url}/runs/{rolling.id}")
    await expect(page.locator("#connection")).to_have_text("Live")
    await writing.answer("now")
    await expect(page.locator(".draft")).to_contain_text("The site is")
    await expect(other.locator("#tree progress")).to_have_attribute("value", "11.0")
    await expect(other.locator("#tree .call")).to_contain_text("11 of 24 devices")
    desk_app.gate.set()
    await expect(page.locator(".the-end")).to_contain_text("The site is dark.")
    await expect(page.locator(".draft")).to_have_count(0)
    await expect(other.locator("#head .status")).to_have_text("Completed")


@pytest.mark.parametrize("script", [True, False])
async def test_an_operator_pauses_resumes_and_cancels(desk, visit, script):
    """Each by a form on the page, with who and why in the tree."""
    run = await desk.waiting("Which meter?")
    page = await visit(f"{desk.url}/runs/{run.id}", script=script)
    await page.locator("#act-pause summary").click()
    await page.locator("#pause-reason").fill("lunch")
    await page.get_by_role("button", name="Pause", exact=True).click()
    await desk.status_when(run, lambda status: status.paused == "lunch")
    await page.goto(f"{desk.url}/runs/{run.id}")
    await expect(page.locator("#head .status")).to_have_text("Paused")
    await expect(page.locator("#tree")).to_contain_text("lunch")
    await page.locator("#act-resume summary").click()
    await page.get_by_role("button", name="Resume", exact=True).click()
    await desk.status_when(run, lambda status: status.paused is None)
    await page.goto(f"{desk.url}/runs/{run.id}")
    await page.locator("#act-cancel summary").click()
    await page.locator("#cancel-reason").fill("no longer needed")
    await page.get_by_role("button", name="Cancel the run").click()
    await desk.status_when(run, lambda status: status.status == "canceled")
    await asyncio.sleep(0.6)  # a page is shown for half a second as it was read
    await page.goto(f"{desk.url}/runs/{run.id}")
    await expect(page.locator(".the-end")).to_contain_text("no longer needed (by local)")


@pytest.mark.parametrize("script", [True, False])
async def test_a_run_is_forked_with_another_result(desk, visit, script):
    """From a call's page: the result is edited, the new run goes on with it, and says where it comes from."""
    run = await desk.ended(WHY)
    page = await visit(f"{desk.url}/runs/{run.id}", script=script)
    await call(page, "devices.read").locator("summary").first.click()
    await call(page, "devices.read").get_by_role("link", name="Fork from here").click()
    field = page.get_by_label("The result, as JSON")
    assert json.loads(await field.input_value())["total"] == 18.4
    await field.fill("no JSON")
    await page.get_by_role("button", name="Start the fork").click()
    await expect(page.get_by_role("alert")).to_contain_text("is no JSON")
    await expect(page.get_by_label("The result, as JSON")).to_have_value("no JSON")
    await page.get_by_label("The result, as JSON").fill('{"total": 0}')
    await page.get_by_role("button", name="Start the fork").click()
    await expect(page.locator("#head")).to_contain_text(f"Fork of {run.id}")
    await expect(page.locator("main")).to_contain_text('Changed: result of ops.devices.read: {"total": 0}')
    forked = page.url.rpartition("/")[2]
    await desk.status_when(desk.client.get_run(forked), lambda status: status.closed_at)
    results = [
        part.result.result
        for message in await desk.client.get_run(forked).transcript()
        for part in message.parts
        if part.type == "tool_result"
    ]
    assert {"total": 0} in results


async def test_a_call_is_made_again_with_other_arguments(desk, visit):
    """They are edited as JSON, in a fork that makes the call by them."""
    run = await desk.ended(WHY)
    page = await visit(f"{desk.url}/runs/{run.id}", size="phone")
    await call(page, "devices.read").locator("summary").first.click()
    await call(page, "devices.read").get_by_role("link", name="Open call").click()
    await page.get_by_role("link", name="Fork from here").click()
    await page.get_by_label("Run the call again with different arguments").check()
    field = page.get_by_label("The arguments, as JSON")
    assert json.loads(await field.input_value()) == {"device": "d-3", "hours": 48, "unit": "kWh"}
    await field.fill('{"device": "d-6", "hours": 24, "unit": "W"}')
    await page.get_by_role("button", name="Start the fork").click()
    await expect(page.locator("#head")).to_contain_text(f"Fork of {run.id}")
    await expect(call(page, "devices.read").locator("summary")).to_contain_text(
        "device: d-6, hours: 24, unit: W"
    )


async def test_on_a_phone_the_tab_that_is_shown_is_in_sight(desk, visit):
    """Where the tabs have no room beside each other."""
    run = await desk.ended("Break at once")
    page = await visit("about:blank", size="phone")
    for tab in ("", "/timeline", "/events", "/policy"):
        await page.goto(f"{desk.url}/runs/{run.id}{tab}")
        box = await page.locator(".tabs [aria-current]").bounding_box()
        assert box["x"] >= 0, tab
        assert box["x"] + box["width"] <= 390, tab


async def test_a_failed_run_is_taken_up_again(desk, visit):
    """Retry starts a fork without a change; the failed run says why it failed."""
    run = await desk.ended("Break at once")
    page = await visit(f"{desk.url}/runs/{run.id}")
    await expect(page.locator(".the-end")).to_contain_text("the price list has no column")
    await page.get_by_role("button", name="Retry").click()
    await expect(page.locator("#head")).to_contain_text(f"Fork of {run.id}")


def made_in(page):
    """What tells the form of a fork from others."""
    return re.search('name="made" value="([0-9a-f]{32})"', page)[1]


def sender(desk):
    """Sends forms as a page of the console does."""
    return http_client(base_url=desk.url, headers={"Origin": desk.url}, timeout=60)


async def test_a_form_that_is_sent_twice_is_one_fork(desk):
    """The same form makes one fork, also at the same time; another change in it, and another form, make another one."""
    run = await desk.ended(WHY)
    async with sender(desk) as http:
        path = f"/runs/{run.id}/fork"
        made = made_in((await http.get(path)).text)
        asked = {"change": "message", "message": "Only d-3", "at": "", "made": made}
        answers = await asyncio.gather(*(http.post(path, data=asked) for _ in range(3)))
        (place,) = {answer.headers["location"] for answer in answers}
        assert {answer.status_code for answer in answers} == {303}
        other = await http.post(path, data={**asked, "message": "Only d-6"})
        third = await http.post(path, data={**asked, "made": made_in((await http.get(path)).text)})
        assert len({place, other.headers["location"], third.headers["location"]}) == 3


async def test_a_fork_of_a_conversation_that_is_asked_for_twice_is_one_session(desk):
    """The fork of a conversation is a session of its own, and the same one where the form is sent again."""
    session = desk.client.session("ops.assistant", f"twice-{uuid.uuid4().hex[:6]}")
    async with sender(desk) as http:
        await session.send("Echo hello")
        run_id = session.run.id
        await desk.status_when(session.run, lambda status: status.turns)
        asked = {"change": "message", "message": "Echo again", "made": "0" * 32}
        path = f"/runs/{run_id}/fork"
        places = {(await http.post(path, data=asked)).headers["location"] for _ in range(2)}
        assert len(places) == 1
        assert re.search(rf"/{re.escape(run_id)}-fork-[0-9a-f]{{8}}$", unquote(places.pop()))


async def test_two_people_who_retry_a_run_have_one_fork(desk):
    """As with bulk retries: the second one goes to the run that continues it, whoever began that; a run that answered is not retried."""
    asking = Principal(subject="ana", tenant="acme", roles=list(ROLES))
    broken, answered = [await desk.ended(text, principal=asking) for text in ("Break at once", "Echo hello")]
    subject = ["ana"]

    async def who(_):
        return asking.model_copy(update={"subject": subject[0]})

    web = create_app(desk_app.app, client=desk.client, auth=who)
    async with (
        listening(web) as url,
        http_client(base_url=url, headers={"Origin": url}, timeout=60) as http,
    ):
        places: list[str] = []
        for subject[0] in ("ana", "ben", "ana"):
            places.append((await http.post(f"/runs/{broken.id}/retry")).headers["location"])
        assert len({*places}) == 1
        assert (await http.get(places[0])).status_code == 200
        refused = await http.post(f"/runs/{answered.id}/retry")
        assert (refused.status_code, "did not fail, it is completed" in refused.text) == (422, True)


async def test_two_people_who_send_the_same_form_have_a_fork_each(desk):
    """The fork of a form is that of whoever sends it, also where a tenant's ids begin with its name."""
    asking = Principal(subject="ana", tenant="acme", roles=list(ROLES))
    run = await desk.ended("Echo hello", principal=asking)
    subject = ["ana"]

    async def who(_):
        return asking.model_copy(update={"subject": subject[0]})

    web = create_app(desk_app.app, client=desk.client, auth=who)
    asked = {"change": "message", "message": "Echo again", "made": "0" * 32}
    async with (
        listening(web) as url,
        http_client(base_url=url, headers={"Origin": url}, timeout=60) as http,
    ):
        places: list[str] = []
        for subject[0] in ("ana", "ana", "ben"):
            places.append((await http.post(f"/runs/{run.id}/fork", data=asked)).headers["location"])
            assert (await http.get(places[-1])).status_code == 200
    assert places[0] == places[1] != places[2]


async def test_two_quick_clicks_start_one_fork(desk, visit):
    """The button of a fork's form is away while the form is sent, and there again for who comes back."""
    run = await desk.ended(WHY)
    page = await visit(f"{desk.url}/runs/{run.id}/fork")
    sent = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    await page.get_by_label("The message").fill("Only d-3")
    button = page.get_by_role("button", name="Start the fork")
    await button.evaluate(
        "button => { button.click(); button.click(); setTimeout(() => button.click(), 20); }"
    )
    await expect(page.locator("#head")).to_contain_text(f"Fork of {run.id}")
    assert len(sent) == 1
    await page.go_back()
    await expect(page.get_by_role("button", name="Start the fork")).to_be_enabled()


async def test_the_form_of_a_call_without_a_result_chooses_no_result(desk):
    """Of a call that failed or was denied, nothing is changed unless somebody says so, and no result is written there."""
    run = await desk.waiting("Delete the old work orders of s-4")
    await run.deny(None, "no", by="ben")
    async with sender(desk) as http:
        (end, *_) = [
            each async for each in run.events() if each.type == "tool_end" and each.result.error is not None
        ]
        form = (await http.get(f"/runs/{run.id}/fork", params={"at": end.event_id})).text
        whole = (await http.get(f"/runs/{run.id}/fork")).text
    assert re.search(r'id="change-nothing" checked', form)
    assert re.search(r"Fork this run from <b[^>]*><bdi>ops\.orders\.delete</bdi></b>, <time", form)
    assert "from its end" in whole
    assert 'choose "Fork from here"' in whole
    assert re.search(r'<textarea id="result"[^>]*>\s*</textarea>', form)


async def test_what_cannot_be_forked_is_told_in_the_form(desk):
    """A mistake is told at its field, with all that was typed, and starts nothing."""
    run = await desk.ended(WHY)
    (end, *_) = [each async for each in run.events(follow=False) if each.type == "tool_end"]
    async with sender(desk) as http:
        for change, text, told in (
            ("arguments", '{"device": <b>', "no JSON"),
            ("arguments", "[1]", "the arguments are an object"),
            ("arguments", '{"device": 3}', "`device`"),
            ("result", "[" * 100_000, "no JSON"),
            ("message", " ", "the message is empty"),
        ):
            asked = {"at": end.event_id, "change": change, change: text, "made": "1" * 32}
            answer = await http.post(f"/runs/{run.id}/fork", data=asked)
            assert answer.status_code == 422
            assert f'id="{change}-fault" role="alert"' in answer.text
            assert told in answer.text
            assert text in html.unescape(answer.text)
            assert made_in(answer.text) == "1" * 32


async def test_a_place_that_is_none_breaks_no_page(desk, visit):
    """Whatever stands after the # of an address, the rest of the page's script is there."""
    page = await visit(f"{desk.url}/runs#%E0%A4%A")
    await page.keyboard.press("/")
    await expect(page.locator("[data-key='/']")).to_be_focused()


@pytest.mark.parametrize("script", [True, False])
async def test_every_view_and_every_event_has_a_url(desk, visit, script):
    """Timeline, transcript, events and policy are links; a call and an event open alone, whole."""
    run = await desk.ended(WHY)
    page = await visit(f"{desk.url}/runs/{run.id}", script=script)
    tabs = page.get_by_role("navigation", name="Of this run")
    await tabs.get_by_role("link", name="Timeline").click()
    await expect(page.locator(".timeline .row")).to_have_count(1 + 5 + 6)
    await expect(page.locator(".timeline")).to_contain_text("ops.devices.ping")
    await tabs.get_by_role("link", name="Transcript").click()
    await expect(page.locator(".message")).to_have_count(10)
    await tabs.get_by_role("link", name="Policy").click()
    await expect(page.locator("main")).to_contain_text("max_tool_calls")
    await tabs.get_by_role("link", name="Events").click()
    await page.get_by_label("Kind").select_option("tool_end")
    await page.get_by_role("button", name="Show", exact=True).click()
    await expect(page.locator(".events tbody tr")).to_have_count(6)
    await page.locator(".events tbody tr .id").last.click()
    await expect(page.locator("pre")).to_contain_text('"type": "tool_end"')
    await expect(page).to_have_url(f"{page.url}")


async def test_a_message_is_set_aside(desk, visit, until):
    """Without a script: from the page of the message; the transcript says who did it, and an ended run offers it no more."""
    run = await desk.waiting("Delete the old work orders of s-4")
    page = await visit(f"{desk.url}/runs/{run.id}/transcript", script=False)
    await page.locator("#message-0").get_by_role("link", name="Set aside…").click()
    await page.get_by_label("Why").fill("spoils it")
    await page.get_by_role("button", name="Set aside").click()
    await expect(page.locator("#message-0")).to_contain_text("set it aside: spoils it.")
    await expect(page.locator("#message-0").get_by_role("link", name="Set aside…")).to_have_count(0)
    await expect(page.locator("#messages")).to_contain_text("Message 0 was set aside by")
    await run.deny(by="eve")
    await desk.status_when(run, lambda status: status.closed_at)

    async def is_offered_no_more():
        await page.reload()
        return await page.get_by_role("link", name="Set aside…").count() == 0

    await until(is_offered_no_more)


async def test_a_result_is_set_aside_on_the_page_of_its_call(desk, visit):
    """Without a script, while the run goes on; the transcript then names the call."""
    run = await desk.waiting("Delete the old work orders of s-4")
    call = next(call for call in (await run.status()).calls if call.state == "done")
    page = await visit(f"{desk.url}/runs/{run.id}/calls/{call.tool_call_id}", script=False)
    await page.get_by_text("Set the result aside").click()
    await page.get_by_label("Why").fill("too long")
    await page.get_by_role("button", name="Set aside").click()
    await expect(page.locator("#messages")).to_contain_text("Planners no longer read the result of")
    await expect(page.locator("#messages")).to_contain_text(f"The result of {call.tool_call_id} in message 2")
    await run.deny(by="eve")


async def test_the_head_links_to_all_that_belongs_to_a_run(desk, visit, until):
    """Parent and child runs, session, the origin of a fork and the forks of a run, and the execution in Temporal's UI are links."""
    run = await desk.waiting("Fuse or gateway?", session_id="fuses")
    child = next(iter((await run.status()).child_awaits))
    forks = [await desk.client.fork(run.id, new_run_id=f"{run.id}-f{n}") for n in range(4)]

    async def are_listed():
        return len([each async for each in desk.client.list_runs(fork_of=run.id)]) == 4

    await until(are_listed)
    described = await desk.client.temporal.get_workflow_handle(run.id).describe()
    page = await visit(f"{desk.url}/runs/{run.id}", script=False)
    links = {
        await each.get_attribute("href"): await each.inner_text()
        for each in await page.locator("#head .facts a").all()
    }
    assert "/runs?session=fuses" in links
    assert f"/runs/{child}" in links
    assert len({f"/runs/{fork.id}" for fork in forks} & set(links)) == 3
    assert links[f"/runs?fork_of={run.id}"] == "all forks"
    place = f"{TEMPORAL_UI}/namespaces/default/workflows/{run.id}/{described.run_id}"
    assert links[place] == "Open in Temporal"
    await page.get_by_role("link", name="all forks").click()
    await expect(page.locator(".run")).to_have_count(4)
    await page.goto(f"{desk.url}/runs/{forks[0].id}")
    await expect(page.locator("#head .facts").get_by_role("link", name=run.id)).to_be_visible()
    await page.goto(f"{desk.url}/runs/{child}")
    await expect(page.locator("#head .over").get_by_role("link", name=run.id)).to_be_visible()
    below = page.locator("#head").get_by_role("link", name="Open in Temporal")
    assert f"/workflows/{child.replace('/', '%2F')}/" in await below.get_attribute("href")


async def test_only_who_sees_the_deployment_is_sent_to_temporal(desk):
    """Somebody with a tenant, and a console that was not told where Temporal's UI is, have no link; what is no address is refused at the start."""
    for tenant, told, is_linked in (("acme", TEMPORAL_UI, False), ("", TEMPORAL_UI, True), ("", None, False)):

        async def who(_, tenant=tenant):
            return Principal(subject="eve", tenant=tenant, roles=list(ROLES))

        web = create_app(desk_app.app, client=desk.client, auth=who, temporal_ui=told)
        async with listening(web) as url, http_client(base_url=url, timeout=60) as http:
            run = await desk.ended("Echo hello", principal=Principal(subject="ana", tenant=tenant))
            answer = await http.get(f"/runs/{run.id}")
            assert (answer.status_code, "Open in Temporal" in answer.text) == (200, is_linked)
    for wrong in ("javascript:alert(1)", "temporal.example.org", "https://", "https://a/?b=c"):
        with pytest.raises(DefinitionError, match="the address of Temporal's UI"):
            create_app(desk_app.app, temporal_ui=wrong)
