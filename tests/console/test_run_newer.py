"""The events and the messages of a run that goes on, while somebody reads them: what comes is told, and moves nothing."""

import asyncio
import re

import pytest
from playwright.async_api import expect

from sojourn import Agent, App, AwaitClarification, PlanResult, RunPolicy, Toolset, Turn
from sojourn.asgi import create_app
from sojourn.console import live
from sojourn.console.watched import MAX_MESSAGES, SharedTranscript
from sojourn.contracts.message import Message
from sojourn.network import http_client
from tests.console.axe import violations
from tests.console.conftest import Console
from tests.http.conftest import listening

probes = Toolset("read.probes")


@probes.tool(read_only=True)
async def probe(n: int) -> str:
    """Probe."""
    return f"probe {n} is fine"


async def plan(turn: Turn) -> PlanResult:
    """Make forty calls, then ask; make two calls for each answer, and ask again, until the answer is to stop."""
    last, answers = turn.messages[-1], sum(message.role == "user" for message in turn.messages)
    if last.role == "user" and last.text == "stop":
        return PlanResult.final("stopped")
    if last.role == "user":
        first = 100 * answers
        return PlanResult.calls(*[probe.call(n=first + n) for n in range(40 if answers == 1 else 2)])
    return PlanResult.ask(AwaitClarification(question=f"Again, after {answers}?"))


@pytest.fixture
async def probing(serve, status_when):
    """The console of an app whose runs go on with each answer."""
    policy = RunPolicy(interrupts_allowed=True, max_tool_calls=1_000, max_calls_per_step=64)
    app = App(agents=[Agent("read.prober", planner=plan, uses=[probes], policy=policy)])
    client = await serve(app)
    web = create_app(app, client=client)
    async with listening(web) as url:
        yield Console(url, client, web, status_when, "read.prober")


async def again(probing, run, text="again"):
    """Answer a run, and wait until it asks again or has ended; returns the events that came."""
    (wait,) = (await run.status()).awaits
    before = {each.event_id for each in await events_of(run)}
    await run.answer(text, by="eve")

    def has_gone_on(status):
        return status.closed_at or (status.awaits and status.awaits[0].id != wait.id)

    await probing.status_when(run, has_gone_on)
    return [each for each in await events_of(run) if each.event_id not in before]


async def events_of(run):
    """The events of a run, as far as they are recorded."""
    return [each async for each in run.events(follow=False) if each.event_id]


async def shown_ids(page):
    """The ids of the rows that are shown."""
    return await page.locator("#rows tr").evaluate_all("rows => rows.map(row => row.id)")


async def test_new_events_are_told_and_shown_when_asked_for(probing, visit):
    """Who reads above the end is told how many there are, and nothing moves until they are asked for."""
    run = await probing.waiting("begin")
    page = await visit(f"{probing.url}/runs/{run.id}/events")
    await expect(page.locator("#connection")).to_have_text("Live")
    await page.evaluate("scrollTo(0, 300)")
    before = await shown_ids(page)
    place = "document.querySelectorAll('#rows tr')[10].getBoundingClientRect().top"
    top = await page.evaluate(place)
    came = await again(probing, run)
    told = page.locator("#newer a")
    await expect(told).to_have_text(f"{len(came)} new events: show")
    await expect(told).to_be_in_viewport()
    assert await page.locator("#newer").get_attribute("aria-live") == "polite"
    assert await shown_ids(page) == before
    assert await page.evaluate(place) == top
    assert await violations(page) == []
    await told.click()
    assert await shown_ids(page) == [*before, *[each.event_id for each in came]]
    await expect(page.locator(f"[id='{came[0].event_id}']")).to_be_focused()
    await expect(page.locator(f"[id='{came[0].event_id}']")).to_be_in_viewport()
    await expect(told).to_be_hidden()
    more = await again(probing, run, "stop")
    await expect(page.locator("#head .status")).to_have_text("Completed")
    await page.evaluate("scrollTo(0, document.body.scrollHeight)")
    await expect(page.locator(f"[id='{more[-1].event_id}']")).to_be_visible()
    assert await shown_ids(page) == [each.event_id for each in await events_of(run)]


@pytest.mark.parametrize("size", ["phone", "desk"])
async def test_at_the_end_of_the_page_events_come_by_themselves(probing, visit, size):
    """Of the kind that the page is filtered by, and no others; those above stay where they are."""
    run = await probing.waiting("begin")
    page = await visit(f"{probing.url}/runs/{run.id}/events?type=await_clarification", size=size)
    await expect(page.locator("#connection")).to_have_text("Live")
    await expect(page.locator("#rows tr")).to_have_count(1)
    top = await page.evaluate("document.querySelector('#rows tr').getBoundingClientRect().top")
    await again(probing, run)
    await expect(page.locator("#rows tr")).to_have_count(2)
    await expect(page.locator("#newer a")).to_be_hidden()
    assert await page.evaluate("document.querySelector('#rows tr').getBoundingClientRect().top") == top
    await page.goto(f"{probing.url}/runs/{run.id}/events?type=tool_end")
    await expect(page.locator("#connection")).to_have_text("Live")
    await page.evaluate("scrollTo(0, 0)")
    await again(probing, run)
    await expect(page.locator("#newer a")).to_have_text("2 new events: show")
    await page.goto(f"{probing.url}/runs/{run.id}/events?type=run_completed")
    await expect(page.locator(".empty")).to_be_visible()
    await again(probing, run, "stop")
    await expect(page.locator("#rows tr")).to_have_count(1)
    await expect(page.locator(".empty")).to_have_count(0)


async def test_new_messages_are_told_and_shown(probing, visit, until):
    """Each once and in their order, with all the results of the last one, however many come."""
    run = await probing.waiting("begin")
    page = await visit(f"{probing.url}/runs/{run.id}/transcript", size="phone", scheme="dark")
    await expect(page.locator("#connection")).to_have_text("Live")
    count = len(await run.transcript())
    await page.evaluate("scrollTo(0, 200)")
    await again(probing, run)
    told = page.locator("#newer a")
    new = len(await run.transcript()) - count
    await expect(told).to_have_text(f"{new} new messages: show")
    assert await violations(page) == []
    await told.click()
    await expect(page.locator("#messages .message")).to_have_count(count + new)
    await expect(page.locator(f"#message-{count}")).to_be_in_viewport()
    await page.evaluate("scrollTo(0, document.body.scrollHeight)")
    await again(probing, run)
    await again(probing, run, "stop")
    wanted = await run.transcript()
    await page.evaluate("scrollTo(0, document.body.scrollHeight)")

    async def are_shown():
        await page.evaluate("scrollTo(0, document.body.scrollHeight)")
        return await page.locator("#messages .message").count() == len(wanted)

    await until(are_shown)
    ids = await page.locator("#messages .message").evaluate_all("all => all.map(each => each.id)")
    assert ids == [f"message-{n}" for n in range(len(wanted))]
    fresh = await visit(f"{probing.url}/runs/{run.id}/transcript", size="phone")

    async def text_of(where, n):
        """The text of a message; an ended run offers no longer to set it aside."""
        return (await where.locator(f"#message-{n}").text_content()).replace("Set aside…", "").split()

    for n in range(len(wanted)):
        assert await text_of(page, n) == await text_of(fresh, n)


async def test_without_a_script_what_came_since_is_a_link(probing, visit):
    """To the events, or the messages, after those of the page, and from them back to those before."""
    run = await probing.waiting("begin")
    page = await visit(f"{probing.url}/runs/{run.id}/events?type=tool_end", script=False)
    other = await visit(f"{probing.url}/runs/{run.id}/transcript", script=False)
    count = len(await run.transcript())
    came = [each.event_id for each in await again(probing, run) if each.type == "tool_end"]
    await page.get_by_role("link", name="What has come since").click()
    assert await shown_ids(page) == came
    await page.get_by_role("link", name="Earlier events").click()
    assert len(await shown_ids(page)) == 40
    await other.get_by_role("link", name="What has come since").click()
    await expect(other.locator("#messages .message")).to_have_count(len(await run.transcript()) - count)


async def test_a_page_that_nobody_knows_gets_what_it_lacks(probing):
    """A page that comes back to a process that was not watching gets the events after its last one, or is told that there are too many."""
    run = await probing.waiting("begin")
    known = await events_of(run)
    came = await again(probing, run)
    await again(probing, run, "stop")

    async def rows(after: str, kind: str = "") -> tuple[list[str], bool]:
        query = {"of": "events", "since": "gone.7.0", "after": after, "type": kind}
        async with http_client(base_url=probing.url, timeout=30) as http:
            text = (await http.get(f"/runs/{run.id}/live", params=query)).text
        return re.findall(r'<tr id="([^"]+)"', text), "event: overfull" in text

    everything = [each.event_id for each in await events_of(run)]
    assert await rows(known[-1].event_id) == (everything[len(known) :], False)
    ends = [each.event_id for each in came if each.type == "tool_end"]
    assert await rows(known[-1].event_id, "tool_end") == (ends, False)
    assert await rows(everything[-1]) == ([], False)


async def test_a_page_that_would_grow_too_long_is_opened_anew(probing, visit, monkeypatch):
    """Then the line leads to the last events, and no more come by themselves."""
    monkeypatch.setattr(live, "MOST_ROWS", 5)
    run = await probing.waiting("begin")
    page = await visit(f"{probing.url}/runs/{run.id}/events")
    await expect(page.locator("#connection")).to_have_text("Live")
    came = await again(probing, run)
    assert len(came) > 5
    await expect(page.locator("#newer a")).to_have_text("Much has come since: the last events")
    await page.locator("#newer a").click()
    await expect(page.locator(f"[id='{came[-1].event_id}']")).to_be_visible()


async def test_all_who_read_along_cost_one_reading_and_seldom():
    """Those who ask at the same time get the same reading, the next one waits, a failure is told to all and tried again; only the last messages are kept."""
    readings, messages = 0, [Message.user(str(n)) for n in range(MAX_MESSAGES + 20)]

    async def read():
        nonlocal readings
        readings += 1
        await asyncio.sleep(0.05)
        if readings == 1:
            raise ConnectionError("away")
        return messages

    shared = SharedTranscript(read)
    failed = await asyncio.gather(*[shared.at(1) for _ in range(50)], return_exceptions=True)
    assert {type(each) for each in failed} == {ConnectionError}
    assert readings == 1
    began = asyncio.get_running_loop().time()
    found = await asyncio.gather(*[shared.at(1 + n % 2) for n in range(50)])
    assert asyncio.get_running_loop().time() - began > 1.0
    assert readings <= 3
    assert {(each.total, each.first, len(each.messages)) for each in found} == {
        (MAX_MESSAGES + 20, 20, MAX_MESSAGES)
    }
    assert (await shared.at(1)).version == 2
