"""Manners of every page: for all eyes, hands and screens, without a script, under a strict policy, and whatever a text says.

A new page is a line of `PAGES`, and where it shows texts of models, tools or people, one of `SHOWING`.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.async_api import Browser, BrowserContext, expect
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import PollActivityTaskQueueRequest

from sojourn import Client, RunFailed, Worker
from sojourn.asgi import create_app
from sojourn.console.views.markdown import plain_words
from sojourn.contracts.ids import SESSION_ID, WORKERS_QUEUE
from sojourn.network import http_client
from sojourn.values.visible import one_line, readable, visible
from tests.console.axe import violations, violations_for_all
from tests.console.conftest import SIZES, resize
from tests.console.hostile import HACK, MEGABYTE, TEXTS
from tests.console.odd_app import app as odd_app
from tests.console.odd_app import does
from tests.http.conftest import listening

PAGES = {
    "home": "/",
    "runs": "/runs",
    "no runs": "/runs?q=nothing+is+like+this",
    "a run": "/runs/{run}",
    "a run's timeline": "/runs/{run}/timeline",
    "a run's transcript": "/runs/{run}/transcript",
    "inbox": "/inbox",
    "decisions": "/decisions",
    "talk": "/talk",
    "a new conversation": "/talk/new",
    "agents": "/agents",
    "an agent": "/agents/shop.clerk",
    "health": "/health-checks",
    "sign in": "/sign-in",
    "nothing there": "/runs-of-nobody",
    "a problem": "/runs?label=none",
}
"""By name, the path; `{run}` is the id of a run that waits, and has called a tool."""

SHOWING = {
    "home": "/",
    "runs that failed": "/runs?status=failed",
    "runs that wait": "/runs?status=waiting",
    "what was looked for": "/runs?q=%3Cscript%3Ewindow.hacked%3D1%3C%2Fscript%3E&label=%22onfocus%3D1&session=%E2%80%AEx",
    "a run": "/runs/{run}",
    "a run's transcript": "/runs/{run}/transcript",
    "inbox": "/inbox",
    "decisions": "/decisions?agent=odd.agent",
    "talk": "/talk",
    "agents": "/agents",
    "an agent": "/agents/odd.agent",
    "an agent that there is not": "/agents/%3Cscript%3Ewindow.hacked=1%3C%2Fscript%3E%E2%80%AE",
    "health": "/health-checks",
    "nothing there": "/%3Cscript%3Ewindow.hacked=1%3C%2Fscript%3E%E2%80%AEx",
    "sign in": "/sign-in?next=%22%3E%3Cscript%3Ewindow.hacked=1%3C/script%3E",
}
"""Pages with hostile texts; `{run}` is each of `Odd.shown`, runs with all that a run can have."""

CHECK = Path(__file__).with_name("manners.js").read_text()

MOST_SCRIPT = 100_000
"""Bytes."""

LONG = 20
"""Pages of the list that are followed."""

MESSAGES = [*TEXTS[::2], MEGABYTE]
"""Texts that have a run each; the texts between them are names of labels and of people."""

BESIDE = dict(zip(MESSAGES, [*TEXTS[1::2], TEXTS[1]], strict=True))
"""By message, the text beside it."""


@dataclass
class Place:
    """A console, and a run to look at."""

    url: str
    run: str = ""

    def at(self, path: str) -> str:
        """The URL of a path of the table."""
        return self.url + path.replace("{run}", self.run)


@pytest.fixture(scope="module")
async def place(shop, temporal_address) -> AsyncIterator[Place]:
    """The shop's console, with a run that waits."""
    client = await Client.connect(temporal_address, task_queue="manners")
    async with (
        Worker(shop.app, client),
        listening(create_app(shop.app, client=await Client.connect(temporal_address))) as url,
    ):
        run = await client.start("shop.clerk", "wipe", session_id="manners", labels={"desk": "3"})
        while not (await run.status()).awaits:
            await asyncio.sleep(0.1)
        while not [each async for each in client.list_runs(session_id="manners")]:
            await asyncio.sleep(0.1)
        yield Place(url, run.id)


@pytest.fixture(scope="module")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    """A context for every page of this file, since each one costs a process of the browser."""
    async with await browser.new_context(reduced_motion="reduce") as context:
        yield context


async def _judge(page: Any) -> list[str]:
    """Unfold what is folded, but no menus, and look for what no page may have."""
    await page.evaluate(
        "for (const each of document.querySelectorAll('details:not(.menu)')) each.open = true"
    )
    return await page.evaluate(f"({CHECK})()")


@pytest.mark.usefixtures("short_decisions")
@pytest.mark.parametrize("name", PAGES)
async def test_a_page_is_for_everybody(place, visit, context, name):
    """At three sizes, light and dark, folded and unfolded, axe finds nothing, nothing is wider than the screen or moves, and all can be printed."""
    page = await visit(place.at(PAGES[name]), context=context)
    faults = [f"folded: {each}" for each in await violations(page)]
    for size in SIZES:
        await resize(page, size)
        faults += [f"{size}: {each}" for each in await _judge(page)]
    faults += [f"unfolded: {each}" for each in await violations_for_all(page)]
    assert faults == []
    assert await page.evaluate("document.getAnimations().length") == 0
    await page.emulate_media(media="print")
    await expect(page.locator(".top")).to_be_hidden()
    await expect(page.locator("h1")).to_have_count(1)


@pytest.mark.usefixtures("short_decisions")
@pytest.mark.parametrize("name", PAGES)
async def test_a_page_says_where_one_is(place, visit, context, name):
    """A page has a title and a heading of its own, a language, a sign, a way past the navigation, and a ring around what a key has reached."""
    page = await visit(place.at(PAGES[name]), size="phone", context=context)
    assert (await page.title()).endswith("Sojourn")
    assert await page.locator("h1").count() == 1
    assert await page.locator("html").get_attribute("lang") == "en"
    sign = await page.locator("link[rel=icon]").get_attribute("href")
    assert (await page.request.get(f"{place.url}{sign}")).ok
    seen = list[str]()
    for key in range(25):
        await page.keyboard.press("Tab")
        if key == 0 and name != "sign in":  # where the cursor is in the field at once
            await expect(page.locator(".skip")).to_be_focused()
            await expect(page.locator(".skip")).to_be_in_viewport()
        ring = await page.evaluate(
            "() => { const at = document.activeElement; if (!at || at === document.body) return null;"
            " const style = getComputedStyle(at); return [at.outerHTML.slice(0, 80), style.outlineStyle, parseFloat(style.outlineWidth)] }"
        )
        if ring is None:
            break
        assert ring[1] != "none", ring
        assert ring[2] >= 1, ring
        seen.append(ring[0])
    assert len(set(seen)) >= 4
    if name != "sign in":
        await page.locator(".skip").focus()
        await page.keyboard.press("Enter")
        await expect(page.locator("#main")).to_be_focused()


@pytest.mark.usefixtures("short_decisions")
async def test_a_page_needs_no_script(place, visit):
    """Without a script there is the same text, every link leads somewhere, every form can be sent, and no button does nothing."""
    page = await visit("about:blank", script=False)
    for name, path in PAGES.items():
        await page.goto(place.at(path))
        assert await page.locator("h1").count() == 1, name
        links = await page.locator("a").evaluate_all(
            "links => links.map(each => [each.getAttribute('href'), !!document.getElementById((each.getAttribute('href') || '').slice(1))])"
        )
        astray = [
            href
            for href, there in links
            if not (href or "").startswith("/") and not (there and href[0] == "#")
        ]
        assert astray == [], name
        forms = await page.locator("form").evaluate_all(
            "forms => forms.map(each => [each.getAttribute('method'), each.getAttribute('action'),"
            " each.querySelectorAll('button:not([type=button]), input[type=submit]').length])"
        )
        for method, action, buttons in forms:
            assert method in ("get", "post"), name
            assert (action or "").startswith("/"), name
            assert buttons > 0, name
        assert await page.locator("button[type=button]:visible").count() == 0, name


@pytest.mark.usefixtures("short_decisions")
async def test_a_page_loads_little_and_from_here_only(place, visit):
    """All scripts of a page are at most 100 KB, and nothing comes from anywhere else."""
    page, answers = await visit("about:blank"), list[Any]()

    def answered(answer: Any) -> None:
        answers.append(answer)

    page.on("response", answered)
    for name, path in PAGES.items():
        answers.clear()
        await page.goto(place.at(path))
        scripts = [await each.body() for each in answers if each.request.resource_type == "script"]
        assert 0 < sum(map(len, scripts)) <= MOST_SCRIPT, name
        assert all(each.url.startswith(place.url) for each in answers), name


async def test_a_browser_gets_a_page_where_there_is_none_and_a_program_problem_details(place):
    """What there is not is told to a person as a page, and to a program as a problem; nothing of it is sandboxed away."""
    async with http_client(base_url=place.url) as http:
        for path in ("/nothing", "/runs/a/b/c/d", "/agents/x/y", "/sign-out"):
            answer = await http.get(path, headers={"Accept": "text/html,*/*"})
            assert answer.status_code == 404, path
            assert answer.headers["content-type"].startswith("text/html")
            assert "script-src 'self'" in answer.headers["content-security-policy"]
        for path in ("/nothing", "/v1/nothing"):
            answer = await http.get(path)
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        answer = await http.put("/v1/agents")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET")


@dataclass
class Odd:
    """A console of hostile texts, and the runs by text."""

    url: str
    client: Client
    runs: dict[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> list[str]:
        """Runs to look at one by one: of each deed a few, and that of the long line."""
        return [self.runs[text] for text in (*MESSAGES[:5], *MESSAGES[70:75], MEGABYTE)]


@pytest.fixture(scope="module")
async def odd(temporal_address) -> AsyncIterator[Odd]:
    """A run for each message, which is asked, answered, failed with, asked about, and called with; and workers that announce texts."""
    client = await Client.connect(temporal_address, task_queue="odd")
    gate = asyncio.Semaphore(16)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(Worker(odd_app, client))
        web = create_app(odd_app, client=await Client.connect(temporal_address))
        found = Odd(await stack.enter_async_context(listening(web)), client)

        async def begin(text: str) -> None:
            async with gate:
                session = text[:60] if SESSION_ID.match(text[:60]) else ""
                labels = {"odd": text[:200], BESIDE[text][:100]: "x"}
                run = await client.start("odd.agent", text, session_id=session, labels=labels)
                found.runs[text] = run.id
                if does(text) != "ask":
                    with suppress(RunFailed):
                        await run.result()
                    return
                while not (await run.status()).awaits:
                    await asyncio.sleep(0.2)
                if text.strip() and TEXTS.index(text) % 4:  # a blank answer is refused
                    await run.answer(text, by=BESIDE[text][:100] or "x")

        await asyncio.gather(*map(begin, MESSAGES))
        polls = [
            asyncio.create_task(_announce(client, number, text)) for number, text in enumerate(TEXTS[:40])
        ]
        query = "WorkflowType = 'AgentRun' AND SojournAgent = 'odd.agent'"
        while (await client.temporal.count_workflows(query)).count < len(found.runs):
            await asyncio.sleep(0.2)
        yield found
        for poll in polls:
            poll.cancel()
        await asyncio.wait(polls)


async def _announce(client: Client, number: int, text: str) -> None:
    """Poll as a worker that says this of itself."""
    about = {
        "id": f"odd{number}",
        "app": text[:100],
        "queue": "odd",
        "agents": ["odd.agent"],
        "process": text[:100],
    }
    identity = json.dumps({**about, "build": text[:50]}, ensure_ascii=False).replace("\x00", "")
    while True:
        request = PollActivityTaskQueueRequest(
            namespace="default", task_queue=TaskQueue(name=WORKERS_QUEUE), identity=identity
        )
        await client.temporal.workflow_service.poll_activity_task_queue(request)


@pytest.mark.parametrize("name", SHOWING)
async def test_a_hostile_text_is_shown_as_text(odd, visit, context, name):
    """No script of a text runs, no markup of it becomes the page's, none of it hides, and nothing leaves its box, on a phone or a desk."""
    asked = list[str]()
    page = await visit("about:blank", context=context)
    page.on("request", lambda request: asked.append(request.url))
    for run in odd.shown if "{run}" in SHOWING[name] else [""]:
        await page.goto(odd.url + SHOWING[name].replace("{run}", run))
        await _judge_sizes(page)
    assert [url for url in asked if not url.startswith(odd.url)] == []


async def _judge_sizes(page: Any) -> None:
    """Assert that a page has nothing that no page may have, on a phone and a desk."""
    for size in ("phone", "desk"):
        await resize(page, size)
        assert await _judge(page) == [], (page.url, size)


async def _older(page: Any) -> bool:
    """Go to the list's next page, if there is one."""
    older = page.get_by_role("link", name="Older runs")
    if await older.count():
        await older.click()
        await page.wait_for_load_state("load")
        return True
    return False


async def test_every_text_of_a_run_is_the_one_that_was_written(odd, visit, context):
    """All pages of the list have each message and error word for word, and the words of each answer, with what is hidden written out; none leaves its box."""
    page = await visit(f"{odd.url}/runs?agent=odd.agent", context=context)
    by_run = {run: text for text, run in odd.runs.items()}
    seen = 0
    for _ in range(LONG):
        rows = await page.locator(".run").evaluate_all(
            "rows => rows.map(row => [row.id, ...['.title', '.now'].map(part => row.querySelector(part)?.textContent ?? '')])"
        )
        for place, title, now in rows:
            run = place.removeprefix("run-")
            text = by_run[run]
            if len(text) <= 100:
                asked = {
                    one_line(text, 160),
                    one_line(visible(text, keep="\n"), 160),
                }  # the store has it as one of them
                assert (title or run) in {each or run for each in asked}
                if does(text) in ("answer", "call", "stumble"):
                    assert now == one_line(plain_words(text))
            seen += 1
        await _judge_sizes(page)
        if not await _older(page):
            break
    assert seen == len(odd.runs)


async def test_every_text_of_a_tool_is_the_one_that_was_declared(odd, visit, context):
    """The page of an agent has the description of each field, and each default, word for word."""
    page = await visit(f"{odd.url}/agents/odd.agent", context=context)
    cells = set(await page.locator(".fields .meaning > bdi").all_text_contents())
    missing = [text for text in TEXTS[: len(TEXTS) // 12 * 12] if readable(text[:1_000]) not in cells]
    assert missing == []


async def test_what_is_looked_for_is_in_the_form_and_nowhere_else(odd, visit, context):
    """A filter of any text comes back in its field as it was sent."""
    page = await visit("about:blank", context=context)
    for text in (TEXTS[0], TEXTS[33], "\u202ex", '" onfocus="' + HACK, "{{ 7 * 7 }}"):
        await page.goto(f"{odd.url}/runs?{httpx2.QueryParams({'q': text, 'session': text, 'agent': text})}")
        assert await page.locator("[name=q]").input_value() == text
        assert await page.evaluate("window.hacked") is None
