"""The page of runs: what it lists, filters, counts and says of each, and that it is live."""

import re
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from playwright.async_api import expect

from sojourn import Client, Principal, RunPolicyOverride
from sojourn.asgi import create_app
from sojourn.client.stuck import find_stuck
from sojourn.contracts.principal import ROLES
from sojourn.network import http_client
from tests.console import desk_app
from tests.http.conftest import listening


@pytest.fixture
def listed(console, until):
    """Wait until the store lists these runs."""

    async def wait(*runs):
        async def known():
            found = {run.run_id async for run in console.client.list_runs()}
            return {run.id for run in runs} <= found

        await until(known)

    return wait


@pytest.mark.usefixtures("patient_pages")
@pytest.mark.parametrize(("size", "script"), [("phone", True), ("tablet", False)])
async def test_a_row_says_what_is_asked_and_what_the_run_does_now(console, listed, visit, size, script):
    """On a small screen, with and without a script, a row has the message, the agent, the status in a word and what is waited for."""
    session = f"s-{uuid.uuid4().hex[:8]}"
    run = await console.waiting("ask me", session_id=session)
    await listed(run)
    page = await visit(f"{console.url}/runs?session={session}", size=size, script=script)
    row = page.locator(f"[id='run-{run.id}']")
    await expect(row).to_contain_text("ask me")
    await expect(row).to_contain_text("Waiting")
    await expect(row).to_contain_text("Question: Which one?")
    await expect(row).to_contain_text("shop.clerk")


async def test_the_list_is_live(console, listed, visit):
    """A run that starts, and one that goes on, changes the page by itself."""
    session = f"s-{uuid.uuid4().hex[:8]}"
    run = await console.waiting("ask me", session_id=session)
    await listed(run)
    page = await visit(f"{console.url}/runs?session={session}")
    await expect(page.locator("#connection")).to_have_text("Live")
    another = await console.waiting("ask again", session_id=session)
    await expect(page.locator(f"[id='run-{another.id}']")).to_contain_text("Question: Which one?")
    await run.answer("the second")
    await expect(page.locator(f"[id='run-{run.id}'] .status")).to_have_text("Completed")
    await expect(page.locator(f"[id='run-{run.id}']")).to_contain_text("the second")


async def test_what_is_filtered_by_is_in_the_url_and_in_the_form(console, listed, visit):
    """Text, status, label and session find the run that has them, and no other; the form has what the URL has."""
    one = await console.waiting("ask about Apples", labels={"desk": "3"}, session_id="crate-1")
    other = await console.start("pears")
    await other.result()
    await listed(one, other)
    page = await visit("about:blank")
    for query in ("q=apples", "status=waiting", "label=desk%3D3", "session=crate-1"):
        await page.goto(f"{console.url}/runs?{query}")
        await expect(page.locator(f"[id='run-{one.id}']")).to_be_visible()
        await expect(page.locator(f"[id='run-{other.id}']")).to_have_count(0)
        name, _, value = query.partition("=")
        assert await page.locator(f"[name={name}]").input_value() == value.replace("%3D", "=")
    await page.locator("[name=q]").fill("nothing like this")
    await page.get_by_role("button", name="Filter").click()
    await expect(page.get_by_text("No matching runs")).to_be_visible()


async def test_one_search_finds_a_run_by_its_words_id_session_or_person(desk, visit, until):
    """What an operator has of a run finds it, and each run is listed once; what is in the middle of an id does not."""
    mark = uuid.uuid4().hex[:8]
    maria = Principal(subject=f"maria-{mark}", roles=["user"])
    run = await desk.client.start(
        "ops.assistant",
        f"Echo heron {mark}",
        run_id=f"id{mark}-1",
        session_id=f"talk{mark}",
        principal=maria,
    )
    await run.result()

    async def is_listed():
        return [each.run_id async for each in desk.client.list_runs(session_id=f"talk{mark}")] == [run.id]

    await until(is_listed)
    page = await visit(f"{desk.url}/runs", script=False)
    for text in (f"id{mark}-1", f"id{mark}", f"talk{mark}", f"HERON {mark}", f"Maria-{mark}"):
        await page.goto(f"{desk.url}/runs?{urlencode({'q': text})}")
        await expect(page.locator(".run")).to_have_count(1)
        await expect(page.locator(f"[id='run-{run.id}']")).to_be_visible()
    await page.goto(f"{desk.url}/runs?q=d{mark}")
    await expect(page.locator(".run")).to_have_count(0)


async def test_a_run_that_ended_says_how(console, listed, visit):
    """An answer and a failure are in the row of the run."""
    session = f"s-{uuid.uuid4().hex[:8]}"
    good = await console.start("the answer is 42", session_id=session)
    bad = await console.start("fail", session_id=session)
    await good.result()
    await console.status_when(bad, lambda status: status.status == "failed")
    await listed(good, bad)
    page = await visit(f"{console.url}/runs?session={session}", scheme="dark")
    await expect(page.locator(f"[id='run-{good.id}'] .now")).to_have_text("the answer is 42")
    await expect(page.locator(f"[id='run-{bad.id}'] .now")).to_contain_text("the shop is closed")


async def test_a_run_that_gave_up_is_not_shown_as_completed(desk, visit, until):
    """A run that a limit ended has a word, a color and a filter of its own, in the list, the counts and the head of its page."""
    session = f"s-{uuid.uuid4().hex[:8]}"
    limit = RunPolicyOverride(max_tool_rounds=1)
    stopped = await desk.client.start("ops.assistant", "Count 120", session_id=session, policy=limit)
    answered = await desk.client.start("ops.assistant", "Echo done", session_id=session)
    assert [(await run.result()).reason for run in (stopped, answered)] == ["max_tool_rounds", "answered"]

    async def is_listed():
        return [run.run_id async for run in desk.client.list_runs(session_id=session, status="gave_up")] == [
            stopped.id
        ]

    await until(is_listed)
    page = await visit(f"{desk.url}/runs?session={session}", script=False)
    await expect(page.locator(f"[id='run-{stopped.id}'] .status.is-gave_up")).to_have_text("Gave up")
    await expect(page.locator("#count-gave_up b")).to_have_text("1")
    await expect(page.locator("#count-answered b")).to_have_text("1")
    await page.locator("#count-answered a").click()
    await expect(page.locator(f"[id='run-{answered.id}']")).to_be_visible()
    await expect(page.locator(f"[id='run-{stopped.id}']")).to_have_count(0)
    async with http_client(base_url=desk.url, timeout=60) as http:
        for status in ("completed", "answered", "gave_up"):
            query = {"session": session, "status": status}
            listed = (await http.get("/runs", params=query)).text
            api = (await http.get("/v1/runs", params={"session_id": session, "status": status})).json()
            found = {run.id for run in (stopped, answered) if f'id="run-{run.id}"' in listed}
            assert found == {run["run_id"] for run in api["runs"]}
    await page.goto(f"{desk.url}/runs/{stopped.id}")
    await expect(page.locator("#head .state")).to_contain_text("max tool rounds")


@pytest.mark.usefixtures("patient_pages")
async def test_an_open_run_says_what_it_has_cost_so_far(desk, visit, until):
    """The row of a run that waits has the cost and the tokens of its plans until now."""
    run = await desk.waiting("Delete the old work orders of s-4")

    async def is_listed():
        return run.id in {each.run_id async for each in desk.client.list_runs()}

    await until(is_listed)
    page = await visit(f"{desk.url}/runs?q={run.id}", script=False)
    amounts = page.locator(f"[id='run-{run.id}'] .amounts")
    await expect(amounts).to_contain_text("$0.0150")
    await expect(amounts.get_by_title("4,360 tokens")).to_be_visible()


async def test_the_navigation_says_how_many_wait(shop, console, visit, until):
    """On every page the inbox has the number of runs of the visitor's tenant that wait, in words for a screen reader too; paused runs are none, and live pages keep it."""
    ana = Principal(subject="ana", tenant=f"acme-{uuid.uuid4().hex[:6]}", roles=list(ROLES))

    async def who(_):
        return ana

    async with listening(create_app(shop.app, client=console.client, auth=who)) as url:
        other = await visit("about:blank", script=False)

        async def is_told(count):
            await other.goto(f"{url}/agents")
            name = f"Inbox {count} waiting" if count else "Inbox"
            return await other.get_by_role("link", name=name, exact=True).count() == 1

        await until(lambda: is_told(0))
        run, paused = [await console.waiting("ask me", principal=ana) for _ in range(2)]
        await paused.pause()
        await console.waiting("ask somebody else")
        page = await visit(f"{url}/runs", size="phone")
        await expect(page.get_by_role("link", name="Inbox 1 waiting", exact=True)).to_be_visible()
        await until(lambda: is_told(1))
        another = await console.waiting("ask again", principal=ana)
        await expect(page.get_by_role("link", name="Inbox 2 waiting", exact=True)).to_be_visible()
        await page.goto(f"{url}/runs/{another.id}")
        await run.answer("the second")
        told = page.get_by_role("link", name="Inbox 1 waiting", exact=True)
        # Nothing happens in this run, so it is looked at each 10 s.
        await expect(told).to_be_visible()


async def test_the_numbers_agree_with_the_inbox(desk, listed, visit):
    """A run that waits through its child run counts once, by the child run; a paused one is counted by itself."""
    session = f"s-{uuid.uuid4().hex[:8]}"
    run = await desk.waiting("Fuse or gateway?", session_id=session)
    paused = await desk.waiting("Which meter?", session_id=session)
    await paused.pause(by="ana")
    await listed(run, paused)
    page = await visit(f"{desk.url}/runs?session={session}")
    await expect(page.locator("#count-waiting")).to_contain_text("1 waiting")
    await expect(page.locator("#count-paused")).to_contain_text("1 paused")
    await page.locator("#count-waiting a").click()
    await expect(page.locator("[id^='run-']")).to_have_count(1)
    await expect(page.locator("[id^='run-']")).to_contain_text("Question: Which fuse box")


async def test_a_conversation_is_listed_by_its_first_message(console, until):
    """The list has what it was asked first, and finds it by that."""
    word = uuid.uuid4().hex
    session = console.client.session("shop.clerk", f"s-{word}")
    await (await session.send(f"the {word} is late")).result()
    await (await session.send("and now?")).result()
    async with http_client(base_url=console.url) as http:

        async def is_found() -> bool:
            return f"the {word} is late" in (await http.get("/runs", params={"q": f"{word} is"})).text

        await until(is_found)


async def test_a_run_that_names_no_agent_is_listed_without_a_link_to_one(console, until):
    """Anybody may start the workflow without its search attributes: the row leads to the run, and to nothing without a name."""
    name = f"odd-{uuid.uuid4().hex[:8]}"
    handle = await console.client.temporal.start_workflow("AgentRun", {"odd": 1}, id=name, task_queue=name)
    async with http_client(base_url=console.url) as http:

        async def is_listed() -> bool:
            text = (await http.get("/runs")).text
            row = text.partition(f'id="run-{name}"')[2].partition("</li>")[0]
            return bool(row) and '<bdi class="id" title=""></bdi>' not in row

        await until(is_listed)
    await handle.terminate()


async def test_the_agents_of_other_apps_that_are_listed_can_be_chosen(console, until):
    """The field of agents has those of the app, and those of the runs that the page lists."""
    name = f"other.{uuid.uuid4().hex[:8]}"
    run = await console.client.start(name, "hello")
    async with http_client(base_url=console.url) as http:

        async def is_listed() -> bool:
            return f'id="run-{run.id}"' in (await http.get("/runs")).text

        await until(is_listed)
        options = (
            (await http.get("/runs")).text.partition('<select name="agent">')[2].partition("</select>")[0]
        )
    assert f"<option >{name}</option>" in options
    assert "<option >shop.clerk</option>" in options
    await run.cancel()


async def test_the_list_is_sorted_by_its_heads(desk, visit, until):
    """By cost, by duration and oldest first, with and without a script; the list says among how many, and a filter stays."""
    session = f"s-{uuid.uuid4().hex[:8]}"
    cheap = await desk.ended("Echo hello", session_id=session)
    dear = await desk.ended("Why is site s-4 dark?", session_id=session)

    async def are_listed():
        found = [run.status async for run in desk.client.list_runs(session_id=session, children=False)]
        return found == ["completed"] * 2

    await until(are_listed)
    page = await visit(f"{desk.url}/runs?session={session}", size="phone", script=False)
    await expect(page).to_have_title(f"{session} · Runs · Sojourn")
    first = page.locator("#list .runs .run").first
    for head, run in (("Cost", dear), ("Oldest", cheap), ("Took", dear), ("Started", dear)):
        await page.locator(".sorts").get_by_role("link", name=head).click()
        await expect(first).to_have_attribute("id", f"run-{run.id}")
        await expect(page.locator(".sorts [aria-current]")).to_contain_text(head)
        await expect(page.locator("#list .runs .run")).to_have_count(2)
    await page.goto(f"{desk.url}/runs?session={session}&sort=cost")
    await expect(page.locator(".sorted")).to_have_text("Most expensive first, among 2 that match.")


async def test_a_filter_is_saved_in_the_browser(desk, visit):
    """It gets a name, is a link on the page of runs from then on, marks itself where it is shown, and is removed again; no other browser has it."""
    page = await visit(f"{desk.url}/runs?status=failed&agent=ops.assistant")
    await page.locator("#save").click()
    name = page.get_by_label("Name of the filter")
    await expect(name).to_have_value("Failed, ops.assistant")
    await name.fill("<b>My</b> failures")
    await page.keyboard.press("Enter")
    await expect(page.locator("#saved [aria-current]")).to_have_text("<b>My</b> failures")
    await expect(page.locator("#save")).to_be_hidden()
    await page.goto(f"{desk.url}/runs")
    await page.locator("#saved").get_by_role("link", name="My").click()
    await expect(page.locator("[name=status]")).to_have_value("failed")
    await expect(page.locator("[name=agent]")).to_have_value("ops.assistant")
    other = await visit(f"{desk.url}/runs?status=failed", script=False)
    await expect(other.locator("#saved")).to_be_hidden()
    await expect(other.locator("#save")).to_be_hidden()
    await page.get_by_role("button", name="Remove").click()
    await expect(page.locator("#saved")).to_be_hidden()


async def test_a_browser_notifies_of_new_waits_if_it_is_asked_to(desk, visit, until):
    """A page that nobody looks at shows the number of runs that wait, and no word of what they ask; without consent it shows nothing."""
    ana = Principal(subject="ana", tenant=f"acme{uuid.uuid4().hex[:6]}", roles=list(ROLES))

    async def who(_):
        return ana

    async with listening(create_app(desk_app.app, client=desk.client, auth=who)) as url:
        page = await visit(f"{url}/runs")
        await page.context.grant_permissions(["notifications"])
        await page.context.add_init_script(
            "window.told = []; document.hasFocus = () => false;"
            "window.Notification = class { static permission = 'granted'; static requestPermission = async () => 'granted';"
            " constructor(title, options) { window.told.push([title, options.body]); } };"
        )
        await page.reload()
        await expect(page.locator("#connection")).to_have_text("Live")
        await desk.waiting("Which meter is secret?", principal=ana)
        await expect(page.locator("#waiting")).to_have_text("11 waiting")
        assert await page.evaluate("window.told") == []
        await page.locator("details.menu summary").click()
        await page.get_by_role("button", name="Notify me when runs wait").click()
        await expect(page.locator("#notify")).to_have_text("Stop notifications")
        await desk.waiting("Which meter is secret?", principal=ana)
        await expect(page.locator("#waiting")).to_have_text("22 waiting")
        assert await page.evaluate("window.told") == [["Sojourn", "2 runs wait for a person"]]
        await page.close()


async def test_stuck_runs_follow_the_filters_and_a_cut_list_says_so(
    shop, temporal_address, until, monkeypatch
):
    """All counts share one check; labels, sorting and the API select as elsewhere; a list that is not whole says so everywhere."""
    session = f"s-{uuid.uuid4().hex[:8]}"
    client = await Client.connect(temporal_address, task_queue=f"nobody-{session}")
    for desk in "12":
        labels = {"desk": desk}
        run = await client.start(
            "shop.clerk", f"say {desk}", session_id=session, labels=labels, wait_for_worker=True
        )

    async def are_listed() -> bool:
        return len([run async for run in client.list_runs(session_id=session)]) == 2

    await until(are_listed)
    checks: list[Any] = []

    async def counted(*args: Any) -> Any:
        checks.append(args)
        return await find_stuck(*args)

    monkeypatch.setattr("sojourn.reader.reader.find_stuck", counted)
    cut = "Only the newest 500 open runs that wait for nothing were checked."

    @asynccontextmanager
    async def service() -> AsyncIterator[httpx2.AsyncClient]:
        async with (
            listening(create_app(shop.app, client=client)) as url,
            http_client(base_url=url, timeout=60) as http,
        ):
            yield http

    async def read(http: httpx2.AsyncClient, **query: Any) -> tuple[int, bool]:
        page = (await http.get("/v1/runs", params={"status": "stuck", "session_id": session, **query})).json()
        return len(page["runs"]), page["is_whole"]

    async def rows(http: httpx2.AsyncClient, **query: str) -> tuple[int, bool]:
        page = (await http.get("/runs", params={"status": "stuck", "session": session, **query})).text
        return page.count('<li id="run-'), cut in page

    async with service() as http:
        among = {"session": session}
        for query, count in (
            (among, 2),
            (among | {"since": "1h", "agent": "shop.clerk"}, 2),
            (among | {"agent": "shop.nobody"}, 0),
            (among | {"ended": "1h"}, 0),
            (among | {"fork_of": run.id}, 0),
            ({"session": "none"}, 0),
        ):
            page = await http.get("/runs", params=query)
            assert re.search(rf'id="count-stuck">.*<b>{count}</b> stuck', page.text), query
        assert len(checks) == 1
        assert [await rows(http, q=q) for q in ("SAY 1", "say", "hush")] == [
            (1, False),
            (2, False),
            (0, False),
        ]
        assert [len(run_ids) for _, run_ids in checks[1:]] == [2, 0, 0, 0], "a search checked a run again"
        assert await rows(http) == await rows(http, sort="oldest") == (2, False)
        assert await rows(http, label="desk=2") == (1, False)
        assert await read(http) == (2, True)
        assert await read(http, limit=1) == (1, False)
        assert await read(http, label="desk=2") == (1, True)
    monkeypatch.setattr("sojourn.reader.reader.MAX_CHECKED", 1)
    async with service() as http:
        assert await rows(http) == await rows(http, sort="oldest") == (1, True)
        assert await read(http) == (1, False)
        assert await rows(http, label="desk=1") == (0, True)
        found = await http.get("/runs", params={"status": "stuck", "session": session, "q": "say 1"})
        assert 'class="now bad"><bdi>no worker polls' in found.text, "a run that only the search has checked"
    async for run in client.list_runs(session_id=session):
        await client.temporal.get_workflow_handle(run.run_id).terminate()
