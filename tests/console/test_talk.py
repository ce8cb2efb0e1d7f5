"""The pages of conversations: what they list, how a talk goes on live and without a script, and what is answered in it."""

import asyncio
import json
import re
import uuid
from collections import Counter

import httpx2
import pytest
from playwright.async_api import expect

from sojourn import Principal
from sojourn.asgi import create_app
from sojourn.console.page import Visit
from sojourn.errors import RunError
from sojourn.network import http_client
from sojourn.reader import live_timeline, read_conversation
from tests.console.conftest import decide
from tests.console.office import office
from tests.http.conftest import listening
from tests.workflows.test_message_answers import Planner, app_of
from workflows import history_budget

__all__ = ["office"]

PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)


@pytest.fixture
def desk() -> str:
    """A session that does not exist yet."""
    return f"desk-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def talk(console, desk):
    """A conversation with the clerk; called with texts, it says them, one turn each."""
    session = console.client.session("shop.clerk", desk)

    async def say(*texts: str):
        for text in texts:
            await (await session.send(text, by="ana")).result()
        return session

    say.url = f"{console.url}/talk/shop.clerk/{desk}"
    say.session = session
    return say


async def press(page, button, *, script: bool) -> None:
    """Press a button; without a script, wait for the page that is the form's answer: it would be lost to a reload."""
    if script:
        await button.click()
        return
    async with page.expect_navigation():
        await button.click()


async def send(page, text: str, *, script: bool = True) -> None:
    """Send a message."""
    await page.locator("#write").fill(text)
    await press(page, page.locator("#send"), script=script)


@pytest.mark.essential
@pytest.mark.parametrize(("size", "script"), [("phone", False), ("desk", True)])
async def test_a_conversation_is_begun_and_goes_on(console, visit, desk, size, script):
    """From the list, by a form: the first message starts it, and the second is answered on the same page; with and without a script."""
    page = await visit(f"{console.url}/talk", size=size, script=script)
    await page.get_by_role("link", name="New conversation").first.click()
    await page.get_by_role("link", name="shop.clerk").click()
    await expect(page.get_by_text("Does what the first word says.")).to_be_visible()
    await page.get_by_label("Message").fill("hello there")
    await page.get_by_label("Session").fill(desk)
    await page.get_by_label("Labels").fill("desk=3")
    await page.get_by_role("button", name="Send").click()
    await expect(page).to_have_url(f"{console.url}/talk/shop.clerk/{desk}")
    session = console.client.session("shop.clerk", desk)
    await console.status_when(session.run, lambda status: status.turns == 1)
    if not script:
        await page.goto(page.url)
    await expect(page.locator(".turn .prose")).to_have_text("hello there")
    await send(page, "and again", script=script)
    await console.status_when(session.run, lambda status: status.turns == 2)
    if not script:
        await page.reload()
    await expect(page.locator(".turn .prose")).to_have_text(["hello there", "and again"])
    await expect(page.locator(".turn .said .words")).to_have_text(["hello there", "and again"])
    await expect(page.locator("#write")).to_have_value("")


async def test_what_is_said_elsewhere_comes_by_itself(console, visit, talk):
    """A message from another program, its calls and its answer are on the page without reloading; a call has its arguments and result."""
    session = await talk("hello")
    page = await visit(talk.url)
    await expect(page.locator("#connection")).to_have_text("Live")
    await (await session.send("rounds 1", by="bo")).result()
    await expect(page.locator(".turn")).to_have_count(2)
    last = page.locator(".turn").last
    await expect(last.locator(".call")).to_have_count(2)
    await expect(last.locator(".call summary").first).to_contain_text("a: 0, b: 1")
    await last.locator(".call summary").first.click()
    await expect(last.locator(".call").first.locator("pre").last).to_have_text("1")
    await expect(last.locator(".facts-line")).to_contain_text("2 calls")


async def test_text_is_shown_while_it_is_written(console, shop, visit, talk):
    """What a planner writes is on the page before it has ended, and once, as the answer, afterwards."""
    shop.gate.clear()
    await talk("hello")
    page = await visit(talk.url)
    await expect(page.locator("#connection")).to_have_text("Live")
    await send(page, "talk to me")
    await expect(page.locator(".draft .prose")).to_have_text("The site is")
    shop.gate.set()
    await expect(page.locator(".turn").last.locator(".answer:not(.draft) .prose")).to_have_text(
        "The site is dark."
    )
    await expect(page.locator(".draft")).to_have_count(0)


@pytest.mark.parametrize("script", [True, False])
async def test_an_approval_is_decided_in_its_place(console, visit, talk, script):
    """A call shows what it does and with what; approving it goes on with the turn, and says who did."""
    await talk("hello")
    await talk.session.send("wipe", by="ana")
    await console.status_when(talk.session.run, lambda status: status.awaits)
    page = await visit(talk.url, script=script)
    ask = page.locator(".ask")
    await expect(ask).to_contain_text("Wipe disk a?")
    await expect(ask).to_contain_text('"disk": "a"')
    await ask.get_by_label("Reason (optional").fill("it is old")
    await press(page, ask.get_by_role("button", name="Approve", exact=True), script=script)
    await console.status_when(talk.session.run, lambda status: status.status == "idle")
    if not script:
        await expect(page.locator(".receipt")).to_contain_text("Approved by local")
        await page.get_by_role("link", name="Back to the conversation").click()
    await expect(page.locator(".ask .outcome")).to_contain_text("Approved by local")
    await expect(page.locator(".ask pre")).to_contain_text('"disk": "a"')
    await expect(page.locator(".turn").last.locator(".prose")).to_have_text("wiped a")


async def test_a_message_is_answered_above_the_open_approval(serve, status_when, visit):
    """The page says that messages are answered meanwhile; the answer is above the card, which still decides on the call."""
    app = app_of(Planner())
    client = await serve(app)
    session = client.session("test.agent", "asked", principal=Principal(subject="local"))
    await session.send("wipe")
    await status_when(session.run, lambda status: status.awaits)
    async with listening(create_app(app, client=client)) as url:
        page = await visit(f"{url}/talk/test.agent/asked")
        await expect(page.locator(".ask .hint").first).to_have_text(
            "Messages of the person who began this turn are answered meanwhile, and decide nothing. Messages of others wait."
        )
        await send(page, "why?")
        turn = page.locator(".turn")
        await expect(turn.locator(".prose")).to_have_text("on why?")
        await expect(turn.locator(".said, .answer, .ask")).to_have_text(
            [re.compile("wipe"), re.compile(r"why\?"), re.compile(r"on why\?"), re.compile("disk")]
        )
        await decide(page.get_by_role("button", name="Approve", exact=True))
        await expect(turn.locator(".prose").last).to_contain_text("why? | on why?")
        await expect(page.locator(".ask .outcome")).to_contain_text("Approved by local")


async def test_a_call_that_was_changed_is_refused_with_its_digest(console, talk):
    """An approval of other arguments than those that are asked about is refused, and says to look again."""
    await talk("hello")
    await talk.session.send("wipe", by="ana")
    status = await console.status_when(talk.session.run, lambda status: status.awaits)
    form = {"do": "approve", "await_id": status.awaits[0].id, "digest": "0" * 64}
    async with http_client(headers={"Origin": console.url}) as http:
        answer = await http.post(talk.url, data=form)
        assert (answer.status_code, "changed after you saw it" in answer.text) == (409, True)
        answer = await http.post(talk.url, data={**form, "digest": ""})
        assert answer.status_code == 422
        answer = await http.post(
            f"{console.url}/talk/shop.clerk/{talk.session.session_id}", data={**form, "run_id": "another"}
        )
        assert answer.status_code == 422
    assert (await talk.session.status()).awaits


@pytest.mark.essential
@pytest.mark.parametrize("script", [True, False])
async def test_a_question_is_answered_in_its_place(console, visit, talk, script):
    """A question takes a text, and one with a form its fields; what is no number is told, and nothing is lost."""
    await talk("hello")
    await talk.session.send("ask", by="ana")
    await console.status_when(talk.session.run, lambda status: status.awaits)
    page = await visit(talk.url, script=script)
    await expect(page.locator(".ask .lead")).to_contain_text("Which one?")
    await page.locator(".ask textarea").fill("the second")
    await decide(page.get_by_role("button", name="Answer", exact=True))
    await console.status_when(talk.session.run, lambda status: status.status == "idle")
    await page.goto(talk.url)
    await expect(page.locator(".ask .outcome")).to_contain_text("Answered by local: the second")
    await talk.session.send("form", by="ana")
    await console.status_when(talk.session.run, lambda status: status.awaits)
    await page.goto(talk.url)
    first, second = (page.get_by_label(re.compile(f"^{each} ?required$")) for each in "AB")
    await first.evaluate("field => field.type = 'text'")  # as another browser may
    await first.fill("two")
    await second.fill("3")
    await decide(page.get_by_role("button", name="Answer", exact=True))
    await expect(page.locator(".ask .fault", has_text="This is no number.")).to_be_visible()
    await expect(first).to_have_attribute("aria-invalid", "true")
    await expect(first).to_have_value("two")
    await expect(second).to_have_value("3")
    if script:
        await talk.session.run.pause("a moment")
        await expect(page.locator(".turn .note")).to_contain_text("paused: a moment")
        await expect(second).to_have_value("3")
        await talk.session.run.resume()
    await first.fill("2")
    await decide(page.get_by_role("button", name="Answer", exact=True))
    await console.status_when(talk.session.run, lambda status: status.status == "idle")


@pytest.mark.parametrize("script", [True, False])
async def test_the_composer_answers_the_open_question(console, visit, talk, script):
    """What is typed where one types is the answer to what was asked, also below; once it is closed, it is a message again."""
    await talk.session.send("below", by="ana")
    await console.status_when(talk.session.run, lambda status: status.child_awaits)
    page = await visit(talk.url, script=script)
    await page.locator("#write").fill("that one")
    await page.locator("#send").click()
    await console.status_when(talk.session.run, lambda status: status.status == "idle")
    await page.goto(talk.url)
    await expect(page.locator(".turn").last.locator(".prose")).to_have_text("that one")
    await talk.session.send("ask", by="ana")
    await console.status_when(talk.session.run, lambda status: status.awaits)
    await page.goto(talk.url)
    await expect(page.locator("#modes .hint")).to_have_text("Question: Which one?")
    await expect(page.get_by_label("Answer the question")).to_be_checked()
    await page.locator("#write").fill("the second")
    await page.locator("#send").click()
    await console.status_when(talk.session.run, lambda status: status.status == "idle")
    await page.goto(talk.url)
    await expect(page.locator(".ask .outcome").last).to_contain_text("Answered by local: the second")
    await expect(page.locator("#queue .said")).to_have_count(0)
    await expect(page.get_by_label("Answer the question")).to_have_count(0)


async def test_a_text_that_was_begun_stays_with_what_it_was_begun_for(console, visit, talk):
    """A text typed for one question is no answer to the next one, and no message; one typed as a message is no answer."""
    await talk("hello")
    await talk.session.send("ask", by="ana")
    first = (await console.status_when(talk.session.run, lambda status: status.awaits)).awaits[0]
    page = await visit(talk.url)
    await expect(page.get_by_label("Answer the question")).to_be_checked()
    await page.locator("#write").press_sequentially("yes")
    await talk.session.send("ask", by="ana")
    await talk.session.run.answer(first.id, "no")
    again = await console.status_when(
        talk.session.run, lambda status: status.awaits and status.awaits[0].id != first.id
    )
    await expect(page.locator(".turn")).to_have_count(3)
    await page.locator("#write").press("Enter")
    await expect(page.locator("#notice")).to_contain_text("was already answered at")
    assert (await talk.session.run.status()).awaits == again.awaits
    await expect(page.locator("#write")).to_have_value("yes")
    await expect(page.get_by_label("After this turn")).to_be_checked()
    await page.goto(talk.url)
    await page.get_by_label("After this turn").check()
    await page.locator("#write").press_sequentially("later")
    await page.locator("#write").press("Enter")
    await expect(page.locator("#queue .words")).to_have_text("later")
    assert (await talk.session.run.status()).awaits == again.awaits


async def test_another_answer_under_the_same_id_is_refused(console, talk):
    """The text that a form had when it was first sent is the answer; another one is not lost in silence."""
    await talk("hello")
    await talk.session.send("ask", by="ana")
    status = await console.status_when(talk.session.run, lambda status: status.awaits)
    form = {"do": "send", "mode": "answer", "message_id": uuid.uuid4().hex}
    form |= {"run_id": status.run_id, "await_id": status.awaits[0].id}
    async with http_client(headers={"Origin": console.url}) as http:
        sent = [await http.post(talk.url, data={**form, "text": text}) for text in ("red", "red", "blue")]
    assert [answer.status_code for answer in sent] == [303, 303, 409]


async def test_an_answer_to_a_question_that_is_closed_is_kept_and_not_sent(console, visit, talk):
    """Somebody else was quicker: the text stays in the composer, and is no message of which nobody said so."""
    await talk("hello")
    await talk.session.send("ask", by="ana")
    status = await console.status_when(talk.session.run, lambda status: status.awaits)
    form = {
        "do": "send",
        "mode": "answer",
        "text": "mine",
        "run_id": status.run_id,
        "await_id": status.awaits[0].id,
    }
    await talk.session.run.answer(status.awaits[0].id, "theirs")
    await console.status_when(talk.session.run, lambda status: status.status == "idle")
    page = await visit(talk.url)
    answer = await page.request.post(talk.url, multipart=form, headers={"Origin": console.url})
    assert answer.status == 409
    html = await answer.text()
    assert "was already answered at" in html
    assert "mine</textarea>" in html
    assert (await talk.session.run.status()).turns == 2


async def test_a_question_of_a_child_run_is_answered_here(console, visit, talk):
    """What a run below asks stands under the turn, with a link to that run, and is answered there."""
    await talk.session.send("below", by="ana")
    status = await console.status_when(talk.session.run, lambda status: status.child_awaits)
    (child,) = status.child_awaits
    page = await visit(talk.url)
    ask = page.locator("#below .ask")
    await expect(ask).to_contain_text("Below: which one?")
    await expect(page.locator("#below .child a")).to_have_attribute("href", f"/runs/{child}")
    await ask.locator("textarea").fill("that one")
    await ask.locator("textarea").press("Enter")
    await expect(page.locator(".turn").last.locator(".prose")).to_have_text("that one")
    await expect(page.locator("#below .ask")).to_have_count(0)


async def test_results_from_outside_are_sent_here(console, visit, talk):
    """A call that a program outside carries out can be answered by hand."""
    await talk("hello")
    await talk.session.send("weigh", by="ana")
    await console.status_when(talk.session.run, lambda status: status.awaits)
    page = await visit(talk.url)
    await page.locator(".ask").get_by_label("Result").fill("2.5")
    await decide(page.get_by_role("button", name="Send the result"))
    await expect(page.locator(".turn").last.locator(".prose")).to_have_text("2.5")


async def test_a_message_waits_steers_or_interrupts(console, visit, talk):
    """While a turn is under way a message waits for its turn, and is shown so; one that interrupts ends the turn."""
    await talk("hello")
    page = await visit(talk.url)
    await expect(page.locator("#modes")).to_be_hidden()
    await send(page, "hang")
    await expect(page.locator("#modes")).to_be_visible()
    await send(page, "first")
    await expect(page.locator("#queue .words")).to_have_text("first")
    await page.get_by_label("Add to this turn").check()
    await send(page, "look here")
    await expect(page.locator("#queue .said").last).to_contain_text("steers")
    await page.get_by_label("Stop and replace").check()
    await send(page, "second")
    await expect(page.locator(".turn")).to_have_count(4)
    await expect(page.locator(".turn").nth(1)).to_contain_text("Stopped")
    await expect(page.locator("#queue .said")).to_have_count(0)


async def test_what_is_written_while_two_messages_are_on_their_way_stays(console, visit, talk):
    """The answer to the second one replaces a form that nobody has sent, and what is in it is not lost."""
    await talk("hello")
    page = await visit(talk.url)
    await send(page, "hang")
    await expect(page.locator("#modes")).to_be_visible()
    may_answer = {"first": asyncio.Event(), "second": asyncio.Event()}

    async def held(route) -> None:
        answer = await route.fetch()
        await next(event for text, event in may_answer.items() if text in route.request.post_data).wait()
        await route.fulfill(response=answer)

    await page.route(talk.url, held)
    await send(page, "first")
    await expect(page.locator("#queue .words")).to_have_text("first")
    await send(page, "second")
    may_answer["first"].set()
    await expect(page.locator("#queue .words")).to_have_text(["first", "second"])
    await page.get_by_label("Add to this turn").check()
    await page.locator("#write").fill("third")
    await page.locator("#composer").evaluate("form => form.classList.add('is-second')")
    may_answer["second"].set()
    await expect(page.locator("#composer.is-second")).to_have_count(0)
    await expect(page.locator("#write")).to_have_value("third")
    await expect(page.get_by_label("Add to this turn")).to_be_checked()


@pytest.mark.parametrize("script", [True, False])
async def test_a_message_is_edited_and_the_branches_are_switched(console, visit, talk, until, script):
    """The turns after it give way to its new answer; the arrows show the other answers, and the next message comes after the one shown."""
    await talk("one", "two", "three")
    page = await visit(talk.url, script=script)

    async def shown(*texts: str) -> None:
        if not script:
            await console.status_when(talk.session.run, lambda status: status.status == "idle")
            await page.goto(talk.url)
        await expect(page.locator(".turn .said .words")).to_have_text(texts)

    async def is_switched() -> bool:
        return (await talk.session.timeline()).branches == 2

    second = page.locator(".turn").nth(1)
    await second.get_by_text("Edit", exact=True).click()
    await second.get_by_label("Message").fill("TWO")
    await press(page, second.get_by_role("button", name="Send"), script=script)
    await console.status_when(talk.session.run, lambda status: status.turns == 4 and status.status == "idle")
    await shown("one", "TWO")
    await expect(second.locator(".siblings")).to_contain_text("2 / 2")
    await press(page, second.get_by_role("button", name="Previous answer"), script=script)
    await until(is_switched)
    await shown("one", "two", "three")
    await expect(second.locator(".siblings")).to_contain_text("1 / 2")
    third = page.locator(".turn").nth(2)
    await press(page, third.get_by_role("button", name="Regenerate"), script=script)
    await console.status_when(talk.session.run, lambda status: status.turns == 5 and status.status == "idle")
    await shown("one", "two", "three")
    await expect(third.locator(".siblings")).to_contain_text("2 / 2")
    await send(page, "four", script=script)
    await shown("one", "two", "three", "four")


async def test_earlier_parts_show_the_present_branch_and_how_to_reach_the_others(console, talk):
    """A page of earlier turns has those of the present branch, with arrows; the run's page folds the turns that were left."""
    session = await talk("one", "two", "three")
    _, second, _ = (await session.timeline()).turns
    for text in ("TWO", "2"):
        await (await session.edit(second.messages[0].message_id, text)).result()
    await talk("four")
    last = (await session.timeline()).turns[-1]
    async with http_client() as http:
        earlier = (await http.get(talk.url, params={"before": last.key})).text
        run = (await http.get(f"{console.url}/runs/{session.run.id}", params={"before": last.key})).text
        left = (
            await http.get(f"{console.url}/runs/{session.run.id}", params={"before": "1-000000-00000"})
        ).text
    said = re.findall(r'class="words"[^>]*>(?:<[^>]*>|\s)*([^<]*)', earlier)
    assert [text.strip() for text in said] == ["one", "2"]
    assert ("3 / 3" in earlier, "of another branch" in run) == (True, False)
    folded = left.partition("of another branch")
    said = [[f"<p>{text}</p>" in part for text in ("one", "two", "three")] for part in folded[::2]]
    assert said == [[True, False, False], [False, True, True]]


@pytest.mark.parametrize("script", [True, False])
async def test_a_turn_is_stopped_and_a_conversation_closed(console, visit, talk, script):
    """The buttons end the present turn, and then the conversation; the page of one that is over says how to go on."""
    await talk("hello")
    await talk.session.send("hang", by="ana")
    await console.status_when(talk.session.run, lambda status: status.calls)
    page = await visit(talk.url, script=script)
    await page.get_by_role("button", name="Stop this turn").click()
    await console.status_when(talk.session.run, lambda status: status.status == "idle")
    await page.goto(talk.url)
    await expect(page.locator(".turn").last).to_contain_text("Stopped")
    await page.get_by_text("Close the conversation").click()
    await page.get_by_role("button", name="Close").click()
    await console.status_when(talk.session.run, lambda status: status.status == "completed")
    await page.goto(talk.url)
    await expect(page.get_by_text("This conversation has ended")).to_be_visible()
    await expect(page.locator("form#composer")).to_have_count(0)


async def test_a_conversation_that_is_closed_elsewhere_is_over_here(console, visit, talk):
    """Where another program closes it, the page says so, offers no message any more, and does not come back for news."""
    session = await talk("hello")
    page = await visit(talk.url)
    await expect(page.locator("#connection")).to_have_text("Live")
    await session.close("done")
    await expect(page.get_by_text("This conversation has ended")).to_be_visible()
    await expect(page.locator("#write")).to_have_count(0)
    await expect(page.locator("#state .status")).to_have_text("Completed")
    await expect(page.locator("#connection")).to_have_attribute("data-state", "ended")


async def test_a_form_that_is_sent_twice_is_one_message(console, visit, talk):
    """A double click, going back and a resend deliver the message of a form once."""
    await talk("hello")
    page = await visit(talk.url, script=False)
    form = {"do": "send", "text": "once", "message_id": await page.locator("#message-id").input_value()}
    async with http_client(headers={"Origin": console.url}) as http:
        sent = await asyncio.gather(*(http.post(talk.url, data=form) for _ in range(3)))
    assert [answer.status_code for answer in sent] == [303, 303, 303]
    await console.status_when(talk.session.run, lambda status: status.turns == 2 and status.status == "idle")
    await page.reload()
    await expect(page.locator(".turn")).to_have_count(2)


def field(html: str, name: str) -> str:
    """The value of a hidden field of the composer, which comes after the turns."""
    found = re.findall(rf'name="{name}" value="([^"]*)"', html)
    assert found, name
    return found[-1]


async def test_a_form_with_another_text_is_refused_and_can_be_sent_again(console, talk):
    """Under the id of a message that was accepted, another text is refused, and kept with a new id; the same message is accepted again."""
    await talk("hello")
    form = {"do": "send", "text": "first", "message_id": uuid.uuid4().hex}
    async with http_client(headers={"Origin": console.url}) as http:
        assert (await http.post(talk.url, data=form)).status_code == 303
        edited = {**form, "text": "edited"}
        refused = await http.post(talk.url, data=edited)
        assert refused.status_code == 409
        assert "this message was sent before with another text" in refused.text
        assert re.search(r"<textarea[^>]*>edited</textarea>", refused.text)
        part = await http.post(talk.url, data=edited, headers={"HX-Request": "true"})
        assert (part.status_code, "sent before with another text" in part.text) == (409, True)
        ids = {form["message_id"], field(refused.text, "message_id"), field(part.text, "message_id")}
        assert len(ids) == 3
        again = {**edited, "message_id": field(refused.text, "message_id")}
        for _ in range(2):
            assert (await http.post(talk.url, data=form)).status_code == 303
            assert (await http.post(talk.url, data=again)).status_code == 303
        with_file = {**form, "message_id": uuid.uuid4().hex}
        files = {"files": ("notes.txt", b"a line", "text/plain")}
        for _ in range(2):
            assert (await http.post(talk.url, data=with_file, files=files)).status_code == 303
        assert (await http.post(talk.url, data=with_file)).status_code == 409
    await console.status_when(talk.session.run, lambda status: status.turns == 4 and status.status == "idle")
    said = [each.text for each in await talk.session.transcript() if each.role == "user"]
    assert said[:3] == ["hello", "first", "edited"]
    assert (len(said), "first" in said[3]) == (4, True)


async def test_a_first_message_with_another_text_is_refused_and_can_be_sent_again(console, desk):
    """The form that begins a conversation, edited after it was sent, keeps its text with a new id, and says that another one was sent."""
    form = {"agent": "shop.clerk", "session": desk, "text": "first", "message_id": uuid.uuid4().hex}
    async with http_client(headers={"Origin": console.url}) as http:
        for _ in range(2):
            assert (await http.post(f"{console.url}/talk/new", data=form)).status_code == 303
        refused = await http.post(f"{console.url}/talk/new", data={**form, "text": "edited"})
        assert (refused.status_code, "sent before with another text" in refused.text) == (409, True)
        again = {**form, "text": "edited", "message_id": field(refused.text, "message_id")}
        assert (await http.post(f"{console.url}/talk/new", data=again)).status_code == 303
    session = console.client.session("shop.clerk", desk)
    await console.status_when(session.run, lambda status: status.turns == 2 and status.status == "idle")
    assert [each.text for each in await session.transcript() if each.role == "user"] == ["first", "edited"]


async def test_a_message_that_is_edited_after_its_answer_was_lost_is_another_one(console, visit, talk):
    """Where the answer to a message is lost, sending it again delivers it once, and sending it edited delivers that too."""
    await talk("hello")
    page = await visit(talk.url)
    lost: list[str] = []

    async def lose(route):
        if route.request.method != "POST" or len(lost) == 2:
            await route.continue_()
            return
        await route.fetch()
        lost.append(route.request.url)
        await route.fulfill(status=499, body="")

    await page.route(f"{talk.url}*", lose)
    await send(page, "first")
    await console.status_when(talk.session.run, lambda status: status.turns == 2 and status.status == "idle")
    await expect(page.locator("#write")).to_have_value("first")
    await page.locator("#send").click()
    while len(lost) < 2:
        await asyncio.sleep(0.05)
    await send(page, "edited")
    await console.status_when(talk.session.run, lambda status: status.turns == 3 and status.status == "idle")
    await expect(page.locator("#write")).to_have_value("")
    said = [each.text for each in await talk.session.transcript() if each.role == "user"]
    assert said == ["hello", "first", "edited"]


async def test_what_is_typed_while_a_message_is_sent_stays(console, visit, talk):
    """The answer to a message empties the form, but not of the next message, which was begun meanwhile, nor how that is to join."""
    await talk("hello")
    page = await visit(talk.url)
    held = asyncio.Event()

    async def hold(route):
        if route.request.method == "POST":
            await held.wait()
        await route.continue_()

    await page.route(f"{talk.url}*", hold)
    first = await page.locator("#message-id").input_value()
    await send(page, "first")
    await page.locator("#write").fill("second")
    await page.evaluate("document.querySelector('[name=mode][value=steer]').checked = true")
    held.set()
    await expect(page.locator("#message-id")).not_to_have_value(first)
    await expect(page.locator("#write")).to_have_value("second")
    await expect(page.locator("[name=mode][value=steer]")).to_be_checked()
    await page.locator("#send").click()
    await expect(page.locator(".turn .said .words")).to_have_text(["hello", "first", "second"])
    await expect(page.locator("#write")).to_have_value("")


async def test_only_the_turn_that_is_shown_is_stopped(console, visit, talk):
    """A button of a turn that has ended stops nothing else, and says so; that of the present turn is off while it is sent."""

    def hangs(status):
        return any(call.state == "running" for call in status.calls)

    await talk("hello")
    await talk.session.send("hang", by="ana")
    await console.status_when(talk.session.run, hangs)
    async with http_client(headers={"Origin": console.url}) as http:
        stop = {"do": "stop", "turn_id": field((await http.get(talk.url)).text, "turn_id")}
        assert (await http.post(talk.url, data=stop)).status_code == 303
        await console.status_when(talk.session.run, lambda status: status.status == "idle")
        await talk.session.send("hang", by="ana")
        await console.status_when(talk.session.run, hangs)
        for headers in ({}, {"HX-Request": "true"}):
            stale = await http.post(talk.url, data=stop, headers=headers)
            assert (stale.status_code, "that turn has ended" in stale.text) == (409, True)
        assert (await http.post(talk.url, data={"do": "stop"})).status_code == 422
    assert hangs(await talk.session.status())
    page = await visit(talk.url)
    await expect(page.locator("#connection")).to_have_text("Live")
    sent, held = asyncio.Event(), asyncio.Event()

    async def hold(route):
        if route.request.method == "POST":
            sent.set()
            await held.wait()
        await route.continue_()

    await page.route(f"{talk.url}*", hold)
    await page.locator("#stop").click()
    await sent.wait()
    await expect(page.locator("#stop")).to_be_disabled()
    held.set()
    await console.status_when(talk.session.run, lambda status: status.status == "idle")
    await expect(page.locator("#stop")).to_have_count(0)
    await expect(page.locator("#notice")).to_be_empty()


@pytest.mark.parametrize(
    ("script", "names"),
    [(True, ["{}/../{}"]), (False, ["{}/../{}", "./{}", "{}//x", "/{}", "{}/", "{}/.."])],
)
async def test_a_session_is_never_taken_for_another_one(console, visit, desk, names, script):
    """A session whose id a browser would fold in a path is begun, shown and talked to under its own id."""
    other = console.client.session("shop.clerk", desk)
    await (await other.send("of another conversation")).result()
    page = await visit("about:blank", script=script)
    for session_id in (name.format(desk, desk) for name in names):
        await page.goto(f"{console.url}/talk/new?agent=shop.clerk")
        await page.get_by_label("Message").fill("hello there")
        await page.get_by_label("Session").fill(session_id)
        await page.get_by_role("button", name="Send").click()
        await page.wait_for_url(f"{console.url}/talk/shop.clerk?session=*")
        session = console.client.session("shop.clerk", session_id)
        await console.status_when(session.run, lambda status: status.turns == 1 and status.status == "idle")
        if script:
            await expect(page.locator("#connection")).to_have_text("Live")
        else:
            await page.reload()
        await send(page, "and again", script=script)
        await console.status_when(session.run, lambda status: status.turns == 2 and status.status == "idle")
        if not script:
            await page.reload()
        await expect(page.locator(".turn .said .words")).to_have_text(["hello there", "and again"])
    assert (await other.status()).turns == 1


async def test_links_lead_to_a_session_that_a_path_would_not_keep(console, visit, until):
    """The list of conversations and the page of a run lead to `..`, whose URL has it in the query; without a session that is the list."""
    session = console.client.session("shop.clerk", "..")
    await (await session.send("hello")).result()

    async def is_listed():
        return [each async for each in console.client.list_sessions(session_id="..")]

    await until(is_listed)
    wanted = "/talk/shop.clerk?session=.."
    page = await visit(f"{console.url}/talk?session=..")
    await expect(page.locator(".session .title")).to_have_attribute("href", wanted)
    await page.locator(".session .title").click()
    await expect(page.locator(".turn .said .words")).to_have_text("hello")
    await page.goto(f"{console.url}/runs/{session.run.id}")
    await expect(page.locator(f'a[href="{wanted}"]')).to_have_count(1)
    async with http_client() as http:
        bare = await http.get(f"{console.url}/talk/shop.clerk")
    assert (bare.status_code, bare.headers["location"]) == (303, "/talk?agent=shop.clerk")


@pytest.mark.parametrize("script", [True, False])
async def test_files_come_with_a_message(console, visit, talk, tmp_path, script):
    """A picture is shown, a document is named, and both are parts of the message that the agent gets; what is too large is refused."""
    await talk("hello")
    (tmp_path / "dot.png").write_bytes(PICTURE)
    (tmp_path / "notes.txt").write_text("[[[[" * 1_000 + "line\r\n")
    (tmp_path / "large.bin").write_bytes(b"\xff\x00" * 13_000_000)
    page = await visit(talk.url, script=script)
    await page.locator("#composer [name=files]").set_input_files(
        [tmp_path / "dot.png", tmp_path / "notes.txt"]
    )
    await send(page, "look", script=script)
    await console.status_when(talk.session.run, lambda status: status.turns == 2)
    if not script:
        await page.reload()
    said = page.locator(".turn").last.locator(".said")
    await expect(said.locator("img")).to_have_js_property("naturalWidth", 1) if script else None
    await expect(said.locator(".file")).to_contain_text("notes.txt")
    message = [each for each in await talk.session.transcript() if each.role == "user"][-1]
    assert [part.type for part in message.parts] == ["text", "image", "document"]
    assert message.parts[2].title == "notes.txt"
    await expect(page.locator("#composer [name=files]")).to_have_value("")  # the answer has come
    await page.locator("#composer [name=files]").set_input_files(tmp_path / "large.bin")
    await send(page, "and this")
    if script:
        told = await page.locator("#composer [name=files]").evaluate("field => field.validationMessage")
        assert told == "Too large: 26.0 MB. The limit is 25.0 MB for each file."
    else:
        await expect(page.get_by_text("a file has at most 25,000,000 bytes")).to_be_visible()
    assert (await talk.session.status()).turns == 2


@pytest.mark.parametrize("way", ["paste", "drop"])
async def test_files_are_pasted_and_dropped(console, visit, talk, way):
    """A file that is pasted into the form, or dropped on it, is sent beside the chosen one, and its link downloads it."""
    await talk("hello")
    page = await visit(talk.url)
    field = page.locator("#composer [name=files]")
    await field.set_input_files({"name": "first.txt", "mimeType": "text/plain", "buffer": b"1" * 5_000})
    await page.locator("#write").evaluate(
        """(area, way) => {
            const given = new DataTransfer();
            given.items.add(new File(["<script>hacked = 1</script>"], "page.html", { type: "text/html" }));
            const event = way === "paste"
                ? new ClipboardEvent("paste", { clipboardData: given, bubbles: true, cancelable: true })
                : new DragEvent("drop", { dataTransfer: given, bubbles: true, cancelable: true });
            area.dispatchEvent(event);
        }""",
        way,
    )
    assert await field.evaluate("field => [...field.files].map(each => each.name)") == [
        "first.txt",
        "page.html",
    ]
    await send(page, "look")
    await console.status_when(talk.session.run, lambda status: status.turns == 2)
    link = page.locator(".turn").last.locator(".said .attached a").nth(1)
    await expect(link).to_contain_text("page.html")
    async with http_client() as http:
        found = await http.get(await link.evaluate("link => link.href"))
    assert found.text == "<script>hacked = 1</script>"
    assert found.headers["content-type"] == "application/octet-stream"
    assert found.headers["content-disposition"].startswith('attachment; filename="page.html"')
    assert found.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in found.headers["content-security-policy"]


async def test_only_some_paths_take_files(console):
    """A path of the API without files takes no bytes that are no text; a form that is not whole is refused."""
    async with http_client(base_url=console.url, headers={"Origin": console.url}) as http:
        body = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\n\xff\r\n--x--\r\n'
        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        answer = await http.post("/v1/runs/none/answers", content=body, headers=headers)
        assert answer.json()["code"] == "bad_encoding"
        for broken in (body[:-6], body.replace(b'name="files"; ', b""), b""):
            answer = await http.post("/talk/new", content=broken, headers=headers)
            assert (answer.status_code, "incomplete" in answer.text) == (400, True)


async def test_a_long_conversation_opens_with_its_last_turns(console, visit, talk, monkeypatch):
    """Turns of executions before are behind a link, in their order, each once; live turns come to the same page."""
    monkeypatch.setattr(history_budget, "CONTINUE_EVENTS", 120)
    texts = [f"say {n}" for n in range(36)]
    session = await talk(*texts)
    page = await visit(talk.url)
    words = page.locator(".turn .said .words")
    shown = await words.all_inner_texts()
    assert 4 <= len(shown) <= 20
    assert shown == texts[-len(shown) :]
    await (await session.send("say 36")).result()
    await expect(words.last).to_have_text("say 36")
    texts.append("say 36")
    while await page.get_by_role("link", name="Earlier turns").count():
        before = await words.count()
        await page.get_by_role("link", name="Earlier turns").click()
        await expect(page.locator(".turn").nth(before)).to_be_attached()
    assert await words.all_inner_texts() == texts
    plain = await visit(talk.url, script=False)
    found: list[str] = await plain.locator(".turn .said .words").all_inner_texts()
    while await plain.get_by_role("link", name="Earlier turns").count():
        await plain.get_by_role("link", name="Earlier turns").click()
        found = [*await plain.locator(".turn .said .words").all_inner_texts(), *found]
    assert found == texts
    await plain.get_by_role("link", name="To the newest").click()
    await expect(plain.locator(".turn .said .words").last).to_have_text("say 36")


async def test_the_list_is_live_and_filtered(console, visit, talk, until):
    """A conversation is listed with its status and its last words, which change by themselves; a filter is in the URL."""
    await talk("first words")

    async def is_listed():
        return [each async for each in console.client.list_sessions(session_id=talk.session.session_id)]

    await until(is_listed)
    page = await visit(f"{console.url}/talk?session={talk.session.session_id}")
    row = page.locator(".session")
    await expect(row).to_have_count(1)
    await expect(row).to_contain_text("Agent: first words")
    await talk("second words")
    await expect(row).to_contain_text("Agent: second words")
    await page.locator("[name=agent]").select_option("shop.helper")
    await page.get_by_role("button", name="Filter").click()
    await expect(page.get_by_text("No matching conversations")).to_be_visible()


async def test_the_list_says_what_a_conversation_waits_for_and_that_a_turn_failed(console, visit, until):
    """A question and a failure stand in the row, not just the last words of the person."""
    mark = uuid.uuid4().hex[:8]
    asking = console.client.session("shop.clerk", f"asks-{mark}")
    await asking.send("ask", by="ana")
    failed = console.client.session("shop.clerk", f"fails-{mark}")
    with pytest.raises(RunError):
        await (await failed.send("fail", by="ana")).result()
    page = await visit(f"{console.url}/talk", script=False)

    async def is_listed():
        await page.goto(f"{console.url}/talk?q={mark}")
        return (
            await page.locator(".session").count() == 2 and await page.locator(".now.is-waiting").count() == 1
        )

    await until(is_listed)
    await expect(page.locator(".now.is-waiting")).to_contain_text("Question: Which one?")
    await expect(page.locator(".now.bad")).to_contain_text("Last turn failed: the shop is closed")


@pytest.mark.usefixtures("patient_pages")
@pytest.mark.parametrize("script", [True, False])
async def test_a_conversation_is_found_by_its_last_words_or_its_id(console, visit, until, script):
    """In whichever case; the page says what was looked at, leads further back, and shows by itself what has the words later."""
    mark = uuid.uuid4().hex[:8]
    sessions = [console.client.session("shop.clerk", f"{mark}-{name}") for name in ("blue", "green")]
    for session, words in zip(sessions, (f"Heron {mark}", "nothing"), strict=True):
        await session.send(words)

    async def are_listed():
        found = {each.session_id async for each in console.client.list_sessions()}
        return {f"{mark}-blue", f"{mark}-green"} <= found

    await until(are_listed)
    page = await visit(f"{console.url}/talk", script=script, size="phone")
    await page.get_by_label("Search").fill(f"heron {mark}".upper())
    await page.get_by_role("button", name="Filter").click()
    await expect(page.locator(".session .title")).to_have_text([f"{mark}-blue"])
    await expect(page.locator("#list")).to_contain_text("the newest 200 conversations")
    await page.goto(f"{console.url}/talk?q={mark}-GR")
    await expect(page.locator(".session .title")).to_have_text([f"{mark}-green"])
    await page.goto(f"{console.url}/talk?q=heron+{mark}")
    await expect(page.locator(".session")).to_have_count(1)
    if script:
        await sessions[1].send(f"a heron {mark}")
        await expect(page.locator(".session")).to_have_count(2)
    await page.goto(f"{console.url}/talk?q=none+{mark}")
    await expect(page.get_by_text("No matching conversations")).to_be_visible()


async def test_a_search_goes_on_where_a_page_of_it_ends(console, visit, until, monkeypatch):
    """Conversations that began earlier are on a further page of the same search, and none is on two."""
    monkeypatch.setattr("sojourn.console.routes.talk.SEARCHED", 2)
    mark = uuid.uuid4().hex[:8]
    for n in range(3):
        await console.client.session("shop.clerk", f"{mark}-{n}").send("hello")

    async def are_listed():
        return len([each async for each in console.client.list_sessions(session_id=f"{mark}-2")]) == 1

    await until(are_listed)
    page = await visit(f"{console.url}/talk?q={mark}&agent=shop.clerk", script=False)
    await expect(page.locator(".session")).to_have_count(2)
    await page.get_by_role("link", name="Older conversations").click()
    await expect(page.locator(".session .title")).to_have_text([f"{mark}-0"])
    await expect(page.locator("#list")).to_contain_text("last messages of the next")


async def test_hostile_text_stays_text(console, visit, talk):
    """What a person or an agent says is text: no markup of theirs is on the page, and nothing of it leaves its place."""
    hostile = "<img src=x onerror=alert(1)><script>alert(1)</script>\u202egnp.exe [x](javascript:alert(1)) {{7*7}} </bdi></div>"
    await talk(hostile)
    page = await visit(talk.url)
    await expect(page.locator(".said .words")).to_contain_text("<script>alert(1)</script>")
    await expect(page.locator(".said .words")).to_contain_text("\\u202e")
    await expect(page.locator(".prose")).to_contain_text("{{7*7}}")
    assert await page.locator(".turn script, .turn img, .prose a[href^=javascript]").count() == 0


@pytest.mark.parametrize("script", [True, False])
async def test_a_run_is_started_from_a_form(console, visit, until, script):
    """The form has what the agent takes; sent twice it is one run, with its session, labels and limits."""
    page = await visit(f"{console.url}/start?agent=shop.clerk", script=script)
    await page.get_by_label("Message").fill("hello run")
    await page.get_by_label("Session").fill("crate-9")
    await page.get_by_label("Labels").fill("desk=4")
    await page.get_by_text("Limits of this run").click()
    await page.get_by_label("most tool calls").fill("many")
    await page.get_by_role("button", name="Start the run").click()
    await expect(page.get_by_role("alert")).to_contain_text("'many' is no number")
    await page.get_by_label("most tool calls").fill("7")
    made = await page.locator("[name=made]").input_value()
    await page.get_by_role("button", name="Start the run").click()
    await page.wait_for_url(f"{console.url}/runs/{made}")
    run = console.client.get_run(made)
    assert (await run.result()).text == "hello run"
    status = await run.status()
    assert (status.session_id, status.caps.tool_calls) == ("crate-9", 7)
    form = {
        "agent": "shop.clerk", "made": made, "text": "hello run", "session": "crate-9", "labels": "desk=4", "max_tool_calls": "7"
    }  # fmt: skip
    async with http_client(headers={"Origin": console.url}) as http:
        again = await http.post(f"{console.url}/start", data=form)
        assert (again.status_code, again.headers["location"]) == (303, f"/runs/{made}")
        other = await http.post(f"{console.url}/start", data={**form, "text": "another"})
        assert other.status_code == 409


async def test_a_run_is_started_by_the_fields_of_a_tool(console, visit):
    """An agent that others use as a tool has that tool's form; what it sends is what a call would."""
    page = await visit(f"{console.url}/start?agent=shop.helper")
    await page.get_by_role("link", name="Ask").click()
    await page.get_by_label("Text").fill("add 2")
    made = await page.locator("[name=made]").input_value()
    await page.get_by_role("button", name="Start the run").click()
    await page.wait_for_url(f"{console.url}/runs/{made}")
    assert (await console.client.get_run(made).result()).text == "added"


@pytest.mark.parametrize("script", [True, False])
async def test_what_does_not_fit_a_tool_is_told_at_its_field(office, visit, script):
    """The form that starts a run by a tool's fields says what is wrong at each, keeps what was typed, and starts nothing until it fits."""
    page = await visit(f"{office.url}/start?agent=office.packer&way=office.packing.pack", script=script)
    parcels = page.get_by_label("Parcels")
    await expect(parcels).to_have_attribute("max", "9")
    await page.get_by_label("Note").fill("fragile")
    await parcels.fill("12")
    await parcels.evaluate("field => field.removeAttribute('max')")  # as another browser may
    await page.get_by_role("button", name="Start the run").click()
    await expect(page.locator(".field .fault", has_text="9")).to_be_visible()
    await expect(parcels).to_have_attribute("aria-invalid", "true")
    await expect(page.get_by_label("Note")).to_have_value("fragile")
    await parcels.fill("3")
    made = await page.locator("[name=made]").input_value()
    await page.get_by_role("button", name="Start the run").click()
    await page.wait_for_url(f"{office.url}/runs/{made}")
    assert (await office.client.get_run(made).result()).text == "Pack 3: fragile"


async def test_who_may_read_only_is_offered_nothing_else(shop, serve, visit, tmp_path, desk):
    """A viewer sees a conversation and no form; a form that it sends all the same is refused, and so is another tenant's page."""
    from sojourn.asgi import create_app
    from sojourn.http import ApiKeys
    from sojourn.http.security.keys import create_key
    from tests.http.conftest import listening

    client = await serve(shop.app)
    path = tmp_path / "keys.json"
    _, viewer = create_key(path, "vera", roles=["viewer"])
    _, other = create_key(path, "otto", roles=["user"], tenant="other")
    await (await client.session("shop.clerk", desk).send("hello")).result()
    async with listening(create_app(shop.app, client=client, auth=ApiKeys(path))) as url:
        page = await visit(f"{url}/talk/shop.clerk/{desk}", script=False)
        await page.get_by_label("Key or token").fill(viewer)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.locator(".turn .prose")).to_have_text("hello")
        assert await page.locator("main form").count() == 0
        async with http_client(base_url=url, headers={"Origin": url}) as http:
            headers = {"Authorization": f"Bearer {viewer}"}
            sent = await http.post(
                f"/talk/shop.clerk/{desk}", data={"do": "send", "text": "x"}, headers=headers
            )
            assert sent.status_code == 403
            seen = await http.get(f"/talk/shop.clerk/{desk}", headers={"Authorization": f"Bearer {other}"})
            assert (seen.status_code, "New conversation" in seen.text, "hello" in seen.text) == (
                200,
                True,
                False,
            )


async def test_a_conversation_of_an_agent_that_nobody_knows_is_not_found(console):
    """Neither page nor form begins one; the page says what to do."""
    async with http_client(base_url=console.url, headers={"Origin": console.url}) as http:
        for path in ("/talk/shop.nobody/desk", "/talk/new?agent=shop.nobody", "/start?agent=shop.nobody"):
            answer = await http.get(path)
            assert answer.status_code == 404, path
        answer = await http.post("/talk/new", data={"agent": "shop.nobody", "text": "x", "made": "a"})
        assert (answer.status_code, json.dumps(answer.text).count("shop.nobody") > 0) == (404, True)


async def test_many_who_look_cost_one_reader_and_one_rendering(console, talk, monkeypatch, until):
    """Thirty streams of a conversation are fed by one follower from one reading of its history, and a turn is made once for all of them."""
    made, read = Counter[str](), Counter[str]()
    render = Visit.render

    def counted(visit, template, **values):
        made[template] += 1
        return render(visit, template, **values)

    async def reads(client, run_id, **options):
        read[run_id] += 1
        return await read_conversation(client, run_id, **options)

    monkeypatch.setattr(Visit, "render", counted)
    monkeypatch.setattr(live_timeline, "read_conversation", reads)
    session = await talk(*(f"say {n}" for n in range(3)))
    address = f"/live/talk/shop.clerk/{session.session_id}?since=none"
    limits = httpx2.Limits(max_connections=40)
    async with http_client(base_url=console.url, timeout=60, limits=limits) as http:
        opened = asyncio.Semaphore(0)

        async def look() -> str:
            text = ""
            async with http.stream("GET", address) as answer:
                async for part in answer.aiter_text():
                    if not text:
                        opened.release()
                    text += part
            return text

        looking = [asyncio.create_task(look()) for _ in range(30)]
        for _ in looking:
            await opened.acquire()
        metrics = console.web.state.service.metrics
        await until(lambda: _is(metrics.followers > 0))
        assert (metrics.followers, metrics.streams, read[session.run.id]) == (1, 30, 1)
        assert made["talk_turn.html"] == 3
        await talk("rounds 1")
        await session.close("done")
        texts = await asyncio.gather(*looking)
    assert all("rounds 1" in text and "This conversation has ended" in text for text in texts)
    changes = made["talk_turn.html"] - 3
    assert 1 <= changes <= 12, "each change of the last turn, and not once for each who looks"
    assert max(made.values()) <= 30, made
    assert (metrics.followers, read[session.run.id]) == (1, 1)


async def test_a_page_that_comes_back_has_all_its_turns_again(console, talk):
    """A page whose first turn is before those that others look at gets the turns from its first one on, each once and in order."""
    session = await talk(*(f"say {n}" for n in range(24)))
    last = await read_conversation(console.client, session.run.id)
    early = await read_conversation(console.client, session.run.id, before=last.turns[2].key)
    begin = early.turns[-1].key
    async with http_client(base_url=console.url, timeout=60) as http:

        async def first(address: str) -> str:
            async with http.stream("GET", f"/live/talk/shop.clerk/{session.session_id}{address}") as answer:
                async for part in answer.aiter_text():
                    if "turn-" in part:
                        return part
            raise AssertionError("nothing came")

        assert len(re.findall(r'id="turn-', await first("?since=none"))) == 20
        found = re.findall(r'id="turn-([0-9-]+)"', await first(f"?since=none&begin={begin}"))
    assert found == sorted(set(found))
    assert (found[0], found[-1]) == (begin, last.turns[-1].key)


async def _is(fact: bool) -> bool:
    return fact


async def test_a_queued_message_is_withdrawn_without_a_script(console, talk):
    """Each queued message has a button of a plain form; the message leaves the queue, and one whose turn has begun is refused."""

    def hangs(status):
        return any(call.state == "running" for call in status.calls)

    await talk("hello")
    begun = await talk.session.send("hang", by="ana")
    await console.status_when(talk.session.run, hangs)
    for text in ("one", "two"):
        await talk.session.send(text, message_id=f"of-{text}", by="ana")
    await console.status_when(talk.session.run, lambda status: status.queued == 2)
    async with http_client(headers={"Origin": console.url}) as http:
        form = {"do": "withdraw", "message_id": "of-one"}
        assert (await http.post(talk.url, data=form)).status_code == 303
        assert (await talk.session.status()).queued == 1
        html = (await http.get(talk.url)).text
        assert 'value="of-two"' in html
        assert 'value="of-one"' not in html
        assert "a queued message was withdrawn" in html
        stale = await http.post(talk.url, data={"do": "withdraw", "message_id": begun.message_id})
        assert (stale.status_code, "its turn has begun" in stale.text) == (409, True)


async def test_the_button_withdraws_a_queued_message(console, visit, talk):
    """The page shows without a reload that the message is gone."""
    await talk("hello")
    await talk.session.send("hang", by="ana")
    await console.status_when(
        talk.session.run, lambda status: any(call.state == "running" for call in status.calls)
    )
    await talk.session.send("never mind", by="ana")
    page = await visit(talk.url)
    await expect(page.locator("#queue .said .words")).to_have_text(["never mind"])
    await page.locator("#queue button").click()
    await expect(page.locator("#queue .said")).to_have_count(0)
    await expect(page.locator(".turn .note").last).to_contain_text("a queued message was withdrawn")
