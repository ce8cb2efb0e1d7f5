"""What pages cost, in requests and in size, however many look and however much there is; the times are those of `python -m bench.console`."""

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest
from playwright.async_api import expect

from sojourn import Agent, App, AwaitClarification, Client, PlanResult, RunPolicy, Toolset, Turn
from sojourn.asgi import create_app
from sojourn.events import Cursor
from sojourn.network import http_client
from tests.console.counting import Asked, made
from tests.http.conftest import listening

AT_ONCE = 20
"""Calls of a plan."""

tools = Toolset("figures.tools", description="Work")


@tools.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


@tools.tool
async def repeat(text: str) -> str:
    """Return the text twice."""
    return text * 2


gate = asyncio.Semaphore(0)
"""Lets a run that is gated make one more plan."""


async def plan(turn: Turn) -> PlanResult:
    """Ask, make as many calls as the message says, of two tools in turn or of the same, or both: first the question."""
    words = turn.messages[0].text.split()
    is_asked = "ask" in words
    if is_asked and turn.run.turn_id == "t1":
        return PlanResult.ask(AwaitClarification(id="go", question="Shall I go on?"))
    made = sum(message.role == "tool" for message in turn.messages) * AT_ONCE
    if "gated" in words and made:
        await gate.acquire()
    if made < int(words[0]):
        others = (echo, echo) if "same" in words else (echo, repeat)
        return PlanResult.calls(*(others[n % 2].call(text=f"{made + n}") for n in range(AT_ONCE)))
    return PlanResult.final("done")


policy = RunPolicy(max_tool_rounds=1_000, interrupts_allowed=True)
app = App(agents=[Agent("figures.agent", planner=plan, uses=[tools], policy=policy)])


class Measured:
    """A process of the service that remembers nothing yet, and what it asks of Temporal."""

    def __init__(self, web: Any, http: httpx2.AsyncClient, asked: Asked) -> None:
        self.web = web
        self.http = http
        self.asked = asked

    async def get(self, path: str) -> str:
        """A page."""
        answer = await self.http.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text


Measure = Callable[[Client], Awaitable[Measured]]


@pytest.fixture
async def measure(temporal_address) -> AsyncIterator[Measure]:
    """Serve the pages by a process with a client of its own."""
    async with AsyncExitStack() as stack:

        async def begin(client: Client) -> Measured:
            own = await stack.enter_async_context(
                Client.connect(temporal_address, task_queue=client.task_queue)
            )
            web = create_app(app, client=own)
            url = await stack.enter_async_context(listening(web))
            http = await stack.enter_async_context(http_client(base_url=url, timeout=120))
            return Measured(web, http, Asked(own))

        yield begin


async def look(measured: Measured, path: str) -> int:
    """Look at a run to its end, as its page does; returns how many parts came."""
    parts = 0
    async with measured.http.stream("GET", path) as answer:
        async for line in answer.aiter_lines():
            parts += line.count("<hx-partial")
            if line == "event: ended":
                return parts
    raise AssertionError("the stream ended before the run")


async def test_sixty_viewers_of_a_run_cost_what_one_does(serve, measure, status_when):
    """There is one follower with one poll at a time, and each part is made once, whoever looks."""
    client = await serve(app)
    measured = await measure(client)
    run = await client.start("figures.agent", "40 ask")
    await status_when(run, lambda status: status.awaits)
    text = await measured.get(f"/runs/{run.id}")
    mark = re.search(r"live\?since=([\w.]+)", text)
    assert mark
    path = f"/runs/{run.id}/live?since={mark[1]}"
    with made() as parts:
        limits = httpx2.Limits(max_connections=None)
        async with http_client(base_url=measured.http.base_url, timeout=120, limits=limits) as http:
            measured.http = http
            looking = [asyncio.create_task(look(measured, path)) for _ in range(60)]
            while measured.web.state.service.metrics.streams < 60:
                await asyncio.sleep(0.05)
            await run.answer("yes")
            seen = await asyncio.gather(*looking)
    assert min(seen) > 40
    assert measured.web.state.service.metrics.followers == 1
    assert measured.asked.most_polls == 1
    assert sum(name == "entry.html" for name, _, _ in parts) > 40
    assert {name for name, _, _ in parts} == {"entry.html", "run_head.html", "run_side.html"}
    assert max(parts.values()) == 1, parts.most_common(3)


async def terminated(run: Any) -> None:
    """End a run that nobody needs to end: other tests list what is open."""
    await run.client.temporal.get_workflow_handle(run.id).terminate()


async def pages_of_present(run: Any) -> int:
    """How many pages the history of a run's present execution has."""
    history, pages = run.client.temporal.get_workflow_handle(run.id).fetch_history_events(), 0
    while not pages or history.next_page_token:
        await history.fetch_next_page()
        pages += 1
    return pages


async def test_a_run_of_six_hundred_calls_opens_as_one_of_forty(serve, measure):
    """As many requests for its history, read once, a page with the last entries, and links that lead to all others."""
    client = await serve(app)
    measured = await measure(client)
    text = ""
    for calls in (40, 600):
        run = await client.start("figures.agent", str(calls))
        await run.result()
        pages = await pages_of_present(run)
        assert pages <= 4
        measured.asked.count.clear()
        text = await measured.get(f"/runs/{run.id}")
        asked = dict(measured.asked.count)
        assert asked.pop("count_workflow_executions", 0) in (
            0,
            2,
        )  # of what waits, once for all pages of some seconds
        asked.pop("check", None)  # of the server's health, now and then
        assert pages <= asked.pop("history") <= pages + 1  # the first page is a short one
        assert asked == {"describe_workflow_execution": 2, "list_workflow_executions": 1}  # its forks
    found = [re.findall(r'<li id="call-([\w:.-]+)"', text)]
    while earlier := re.search(r'<li id="earlier"[^>]*><a href="([^"]+)"', text):
        text = await measured.get(earlier[1].replace("&amp;", "&"))
        found.append(re.findall(r'<li id="call-([\w:.-]+)"', text))
        assert text.count('class="entry ') <= 150
        assert len(text) < 1_500_000
    assert len({call for part in found for call in part}) == sum(map(len, found)) == 600


async def test_calls_of_one_tool_are_one_row(serve, measure, visit):
    """A run of 300 has a page of few elements; the row opens in place, and is a page of its own without a script."""
    client = await serve(app)
    measured = await measure(client)
    texts = {}
    for words in ("300", "300 same"):
        run = await client.start("figures.agent", words)
        await run.result()
        texts[words] = await measured.get(f"/runs/{run.id}")
    assert texts["300"].count('class="entry ') == 150
    assert texts["300 same"].count('class="entry ') < 10
    assert len(texts["300 same"]) < len(texts["300"]) / 5
    url = f"{measured.http.base_url}/runs/{run.id}"
    page = await visit(url, size="phone")
    fold = page.locator("#tree > .fold")
    await expect(fold).to_have_count(1)
    await expect(fold.locator(".tool")).to_have_text("figures.tools.echo \u00d7300")
    await expect(fold).to_contain_text("all ok, in 15 plans")
    await fold.locator("summary").click()
    await expect(fold.locator(".tree > .call")).to_have_count(300)
    await fold.locator(".tree > .call").nth(7).locator("summary").click()
    await expect(fold.locator(".tree > .call").nth(7)).to_contain_text("7")
    page = await visit(url, script=False)
    await page.locator("#tree > .fold summary").click()
    await page.get_by_role("link", name="Show the 300 calls").click()
    await expect(page.locator("#tree > .call")).to_have_count(300)


async def test_an_open_page_folds_calls_as_they_end(serve, measure, visit):
    """While a run goes on its calls go into the fold, which stays open and has the new ones, however late; no call is on the page twice."""
    client = await serve(app)
    measured = await measure(client)
    run = await client.start("figures.agent", "100 same gated")
    page = await visit(f"{measured.http.base_url}/runs/{run.id}")
    fold, held = page.locator("#tree > .fold"), asyncio.Event()

    async def late(route: Any) -> None:
        await held.wait()
        await route.continue_()

    await page.route("**/folded?*", late, times=1)
    await fold.locator("> details > summary").click()
    for calls in (40, 60, 80, 100):
        gate.release()
        await expect(fold.locator(".tool").first).to_have_text(f"figures.tools.echo \u00d7{calls}")
    gate.release()
    await expect(page.locator("#head .status")).to_have_text("Completed")
    await page.wait_for_timeout(1_200)  # the last news ask for the calls within a second
    held.set()
    await expect(fold.locator(".tree > .call")).to_have_count(100)
    await expect(page.locator("#tree > .call")).to_have_count(1)
    ids = await page.evaluate("[...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(ids) == len(set(ids))


async def test_a_page_of_a_long_inbox_costs_what_it_shows(serve, measure, until):
    """With 100 waiting runs a page compares those that it shows and a few more; nothing is read again."""
    client = await serve(app)
    measured = await measure(client)
    session = f"s-{uuid.uuid4().hex[:8]}"
    runs = await asyncio.gather(
        *(client.start("figures.agent", "0 ask", session_id=session) for _ in range(100))
    )

    async def is_whole() -> bool:
        text = await measured.get("/inbox")
        count = re.search(r"<b>([\d,]+)</b> open", text)
        return bool(count) and int(count[1].replace(",", "")) >= 100 and "are loading" not in text

    await until(is_whole)
    await asyncio.sleep(1.1)  # until what was compared counts as old
    measured.asked.count.clear()
    text = await measured.get("/inbox")
    assert text.count('<li id="wait-') == 50
    count = measured.asked.count
    assert count["history"] <= 2
    assert count["describe_workflow_execution"] <= 50 + 32 + 4
    assert count["list_workflow_executions"] <= 1
    assert sum(count.values()) <= 100
    await asyncio.gather(*(terminated(run) for run in runs))


async def test_an_inbox_shows_what_it_knows_while_the_rest_is_read(serve, measure, status_when, until):
    """Where histories do not come, the wait that was read is there to be answered, and the page says how many runs are being read."""
    client = await serve(app)
    measured = await measure(client)
    runs = await asyncio.gather(*(client.start("figures.agent", "0 ask") for _ in range(24)))
    for run in runs:
        await status_when(run, lambda status: status.awaits)
    others = {run.id for run in runs[1:]}
    await until(lambda: _lists(client, {run.id for run in runs}))
    measured.asked.held = {each async for each in _open(client)} - {runs[0].id}
    assert others <= measured.asked.held

    async def shown() -> str:  # a page waits a second for what it shows
        text = await measured.get(f"/inbox/{runs[0].id}/go")
        return text if f'<li id="wait-{runs[0].id}-go"' in text else ""

    text = await until(shown)
    assert "more runs are loading" in text
    assert f'action="/inbox/{runs[0].id}/go' in text
    measured.asked.held.clear()

    async def all_are_there() -> bool:
        return "are loading" not in await measured.get("/inbox")

    await until(all_are_there)
    await asyncio.gather(*(terminated(run) for run in runs))


async def test_an_inbox_says_that_it_is_read_before_the_first_list_has_come(
    serve, measure, status_when, until
):
    """A store that is slow holds up no page: it says how many runs wait, and has them later."""
    client = await serve(app)
    measured = await measure(client)
    run = await client.start("figures.agent", "0 ask")
    await status_when(run, lambda status: status.awaits)
    await until(lambda: _lists(client, {run.id}))
    measured.asked.holds_lists = True
    text = await measured.get("/inbox")
    assert re.search(r"Loading open waits</p><p>[1-9][\d,]* runs are loading", text)
    measured.asked.holds_lists = False

    async def is_there() -> bool:
        return f'<li id="wait-{run.id}-go"' in await measured.get(f"/inbox/{run.id}/go")

    await until(is_there)
    await run.cancel()


async def test_a_page_that_is_looked_at_for_long_stays_small(serve, measure, status_when, visit, monkeypatch):
    """While more entries come than it shows twice, it forgets the first ones, and has a link to them."""
    monkeypatch.setattr("sojourn.console.routes.run.WINDOW", 60)
    client = await serve(app)
    measured = await measure(client)
    run = await client.start("figures.agent", "160 ask")
    await status_when(run, lambda status: status.awaits)
    page = await visit(f"{measured.http.base_url}/runs/{run.id}")
    await expect(page.locator("#connection")).to_have_text("Live")
    await page.evaluate(
        """() => {
            window.most = 0;
            const count = () => { window.most = Math.max(window.most, document.querySelectorAll("#tree > .entry").length); };
            new MutationObserver(count).observe(document.getElementById("main"), {childList: true, subtree: true});
        }"""
    )
    await run.answer("yes")
    await run.result()
    await expect(page.locator("#head .status")).to_have_text("Completed")
    assert 40 < await page.evaluate("window.most") <= 130
    await expect(page.locator("#tree > .entry").last).to_contain_text("Answered")
    await expect(page.locator("#earlier a")).to_be_visible()


async def _lists(client: Client, wanted: set[str]) -> bool:
    return wanted <= {each async for each in _open(client)}


async def _open(client: Client) -> AsyncIterator[str]:
    async for run in client.list_runs(status="waiting"):
        yield run.run_id


async def test_runs_without_a_worker_hold_up_no_row(serve, measure, temporal_address, until):
    """Nobody is asked who cannot answer: the row says that no worker is there, and rows of ended runs how they ended."""
    client = await serve(app)
    measured = await measure(client)
    session = f"s-{uuid.uuid4().hex[:8]}"
    ended = await client.start("figures.agent", "0", session_id=session)
    await ended.result()
    async with Client.connect(temporal_address, task_queue=f"nobody-{session}") as nobody:
        left = await asyncio.gather(
            *(nobody.start("figures.agent", "0", session_id=session, wait_for_worker=True) for _ in range(40))
        )
        path = f"/runs?session={session}"

        async def are_listed() -> bool:
            return (await measured.get(path)).count('<li id="run-') == 41

        await until(are_listed)
        await asyncio.sleep(1.1)
        measured.asked.count.clear()
        text = await measured.get(path)
        assert measured.asked.count["query_workflow"] == 0
        page = await measured.get(f"/runs/{left[0].id}")
        await asyncio.gather(*(terminated(run) for run in left))
    assert "This run is stuck" in page
    assert f"sojourn worker MODULE:APP --task-queue nobody-{session}" in page
    assert text.count(f"no worker polls task queue nobody-{session}") == 40
    assert text.count("done</bdi>") == 1


async def test_a_page_is_of_one_moment(serve, measure, status_when):
    """What happens while a page waits for its links is on it, or comes to it; and nothing is told to be before its first entry."""
    client = await serve(app)
    measured = await measure(client)
    run = await client.start("figures.agent", "0 ask")
    await status_when(run, lambda status: status.awaits)
    feeds = measured.web.state.service.feeds
    async with measured.http.stream("GET", f"/runs/{run.id}/live?since=none"):
        seen = asyncio.create_task(_first_of(feeds, run.id, "run_paused"))
        await asyncio.sleep(5.5)  # until the links that the stream has read are read anew
        measured.asked.holds_lists = True
        page = asyncio.create_task(measured.get(f"/runs/{run.id}"))
        await asyncio.sleep(0.1)
        await run.pause(by="ana", reason="lunch")
        await seen
        text = await page
        measured.asked.holds_lists = False
    assert 'id="earlier"' not in text
    mark = re.search(r"live\?since=([\w.]+)", text)
    assert mark
    async with measured.http.stream("GET", f"/runs/{run.id}/live?since={mark[1]}") as answer:
        lines = answer.aiter_lines()
        while '<li id="e-' not in text:
            text = await anext(lines)


async def _first_of(feeds: Any, run_id: str, kind: str) -> None:
    """Wait for the first event of a kind."""
    with feeds.subscribe(run_id, Cursor(run_id), children=False, deltas=False) as subscription:
        async for batch in subscription.batches(30.0):
            if any(each.event.type == kind for each in batch):
                return
