"""The home page: what needs the visitor, what went wrong, what runs used by day and agent, and what is scheduled."""

import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest
from playwright.async_api import expect

from sojourn import Principal, RunPolicyOverride
from sojourn.asgi import create_app
from sojourn.console.routes import home
from sojourn.contracts.principal import ROLES
from sojourn.errors import ServerUnavailable
from sojourn.network import http_client
from sojourn.reader import Reader
from tests.console import desk_app
from tests.http.conftest import listening


@pytest.fixture
async def tenant_console(desk):
    """Serve the desk for one visitor."""
    async with AsyncExitStack() as stack:

        async def serve(principal: Principal) -> str:
            async def who(_) -> Principal:
                return principal

            web = create_app(desk_app.app, client=desk.client, auth=who)
            return await stack.enter_async_context(listening(web))

        yield serve


@pytest.fixture
def ana() -> Principal:
    """A principal with every role, of a tenant of its own."""
    return Principal(subject="ana", tenant=f"acme-{uuid.uuid4().hex[:8]}", roles=list(ROLES))


Known = Callable[..., Awaitable[None]]


@pytest.fixture
def known(desk, until) -> Known:
    """Wait until the store has these runs of a tenant, with their ends."""

    async def wait(tenant: str, *, open_runs: int, ended: int) -> None:
        async def is_listed() -> bool:
            found = [run async for run in desk.client.list_runs(tenant=tenant, children=False)]
            closed = sum(run.closed_at is not None for run in found)
            waiting = sum(run.status == "waiting" for run in found)
            return (waiting, closed) == (open_runs, ended)

        await until(is_listed)

    return wait


@pytest.mark.usefixtures("patient_pages")
@pytest.mark.parametrize(
    ("size", "scheme", "script"),
    [("phone", "dark", False), ("desk", "light", True)],
)
async def test_home_has_what_needs_the_visitor_and_what_went_wrong(
    desk, tenant_console, ana, known, visit, size, scheme, script
):
    """Waits stand oldest first and lead to their place in the inbox; a failed run and one that gave up have their reasons, and a count leads to a list of those runs; cost and runs are those of the runs."""
    asks = await desk.waiting("Which meter is wrong?", principal=ana)
    money = await desk.waiting("Delete the old work orders", principal=ana)
    limit = RunPolicyOverride(max_tool_rounds=1)
    await desk.ended("Break the price list", principal=ana)
    await desk.ended("Count 120", principal=ana, policy=limit)
    await desk.ended("Why is site s-4 dark?", principal=ana)
    await known(ana.tenant, open_runs=2, ended=3)
    page = await visit(await tenant_console(ana), size=size, scheme=scheme, script=script)
    needs = page.locator("#home-needs li")
    await expect(needs).to_have_count(2)
    await expect(needs.nth(0)).to_contain_text("Which meter: the one in the hall, or outside?")
    await expect(needs.nth(1)).to_contain_text("Delete 412 work orders of s-4?")
    await expect(needs.nth(1)).to_contain_text("destructive")
    trouble = page.locator("#home-trouble li")
    await expect(trouble.filter(has_text="Break the price list")).to_contain_text("has no column `net`")
    await expect(trouble.filter(has_text="Count 120")).to_be_visible()
    await expect(page.locator("#home-trouble .counts")).to_contain_text("1 failed")
    await page.locator("#home-trouble .counts a", has_text="1 gave up").click()
    await expect(page.locator("#list .run")).to_have_count(1)
    await expect(page.locator("select[name=ended]")).to_have_value("24h")
    await page.go_back()
    spending = page.locator("#home-spending")
    await expect(spending).to_contain_text("5 runs, 2 failed or gave up")
    today = spending.locator("> .days tbody tr").first
    assert (await today.locator(".amount").all_inner_texts())[:2] == ["5", "2"]
    cost = await today.locator(".amount").last.inner_text()
    used = (await desk.client.get_run(asks.id).status()).used, (await money.status()).used
    assert cost.startswith("$")
    assert float(cost[1:]) > sum(each.cost or 0 for each in used)
    await spending.locator("summary").click()
    await expect(spending.locator("details tbody tr")).to_have_count(7)
    await expect(page.locator("#home-schedules")).to_be_hidden()
    await needs.nth(1).locator("a").click()
    await expect(page.get_by_role("button", name="Deny")).to_be_visible()
    await page.locator(".brand").click()
    await expect(page.get_by_role("heading", name="Last 7 days")).to_be_visible()


async def test_home_names_only_what_the_visitor_may_answer(desk, tenant_console, ana, known, visit):
    """Who may only answer questions sees no approval, and who may do nothing sees that nothing needs it."""
    await desk.waiting("Which meter is wrong?", principal=ana)
    await desk.waiting("Delete the old work orders", principal=ana)
    await known(ana.tenant, open_runs=2, ended=0)
    for roles, wanted in ((["operator", "user"], 1), (["operator"], 0)):
        who = Principal(subject="ben", tenant=ana.tenant, roles=roles)
        page = await visit(await tenant_console(who))
        await expect(page.locator("#home-needs li")).to_have_count(wanted)
    await expect(page.locator("#home-needs")).to_contain_text("Nothing needs you")
    await expect(page.locator("#home-trouble")).to_contain_text("Nothing: no run is stuck")


async def test_home_is_live(desk, tenant_console, ana, known, visit):
    """A wait that opens appears, and leaves once it is answered, without a reload; what is open stays open."""
    await desk.ended("Echo hello", principal=ana)
    await known(ana.tenant, open_runs=0, ended=1)
    page = await visit(await tenant_console(ana))
    await expect(page.locator("#connection")).to_have_text("Live")
    fold = page.locator("#home-spending details")
    await fold.locator("summary").click()
    run = await desk.waiting("Which meter is wrong?", principal=ana)
    await expect(page.locator("#home-needs li")).to_have_count(1)
    await run.answer("the hall")
    await expect(page.locator("#home-needs")).to_contain_text("Nothing needs you")
    assert await fold.get_attribute("open") is not None


async def test_a_part_that_fails_or_is_slow_leaves_the_others(
    desk, tenant_console, ana, known, visit, monkeypatch, until
):
    """Its place says what is wrong, or that it comes later; the page has the other parts, and no error status."""
    await desk.waiting("Which meter is wrong?", principal=ana)
    await known(ana.tenant, open_runs=1, ended=0)

    async def fail(*_, **__):
        raise ServerUnavailable("the store is away")

    monkeypatch.setattr(Reader, "find_stuck", fail)
    monkeypatch.setattr(home, "PATIENCE", 0.0)
    url = await tenant_console(ana)
    async with http_client(base_url=url, timeout=60) as http:
        answer = await http.get("/")
    assert answer.status_code == 200
    assert answer.text.count("Loading.") == 3  # a tenant's schedules are not read
    monkeypatch.setattr(home, "PATIENCE", 10.0)
    page = await visit(url, script=False)
    await expect(page.locator("#home-trouble")).to_contain_text("the store is away")

    async def is_listed() -> bool:  # the list of waits follows the runs, and no script loads the page again
        await page.reload()
        return await page.locator("#home-needs li").count() == 1

    await until(is_listed)
    await expect(page.locator("#home-spending")).to_contain_text("1 run")


async def test_the_next_schedules_are_those_of_an_operator_without_a_tenant(
    desk, tenant_console, ana, visit, until
):
    """They have their next time, agent and message, the next one first; a tenant sees none, since a schedule has no tenant."""
    mark = uuid.uuid4().hex[:8]
    made = await desk.client.schedule(
        "ops.assistant", f"Echo morning {mark}", every=timedelta(seconds=50), schedule_id=f"morning-{mark}"
    )
    try:
        url = await tenant_console(Principal(subject="otto", roles=["operator", "viewer"]))
        async with http_client(base_url=url, timeout=60) as http:

            async def is_shown() -> bool:
                return f"Echo morning {mark}" in (await http.get("/")).text

            await until(is_shown)
        page = await visit(url, size="phone")
        row = page.locator(f"[id='schedule-morning-{mark}']")
        await expect(row).to_contain_text("every 50 seconds")
        await expect(row).to_contain_text("ops.assistant")
        page = await visit(await tenant_console(ana))
        await expect(page.locator("#home-schedules")).to_be_hidden()
        await expect(page.locator("#home-schedules li")).to_have_count(0)
    finally:
        await made.delete()
