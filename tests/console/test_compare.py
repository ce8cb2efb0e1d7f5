"""A fork beside its origin: what both did is folded, what differs stands side by side."""

import pytest
from playwright.async_api import expect

from sojourn import Principal
from sojourn.asgi import create_app
from sojourn.contracts.principal import ROLES
from sojourn.network import http_client
from tests.console import desk_app
from tests.console.axe import violations_for_all
from tests.http.conftest import listening


@pytest.fixture
async def forked(desk):
    """A run, a fork of it that changes nothing, and one in which its failed call has other arguments."""
    origin = await desk.ended("Why is site s-4 dark?")
    ends = [event async for event in origin.events(follow=False) if event.type == "tool_end"]
    (failed,) = [event for event in ends if event.error]
    arguments = {"device": "d-3", "hours": 24, "unit": "kWh"}
    forks = [
        await desk.client.fork(origin.id, at=ends[2].event_id),
        await desk.client.fork(origin.id, at=failed.event_id, arguments=arguments),
    ]
    for fork in forks:
        await desk.status_when(fork, lambda status: status.closed_at)
    return origin, *forks


@pytest.mark.parametrize(("size", "script"), [("phone", True), ("desk", False)])
async def test_what_differs_stands_side_by_side(desk, forked, visit, size, script):
    """The same steps are one line that opens; other ones are in two columns, each with a link to its call."""
    origin, same, other = forked
    page = await visit(f"{desk.url}/runs/{same.id}", size=size, script=script)
    await page.get_by_role("link", name="Compared with its origin").click()
    await expect(page.locator(".compare .same")).to_have_count(1)
    await expect(page.locator(".compare .pair:not(.heads)")).to_have_count(0)
    await page.locator(".same summary").click()
    await expect(page.locator(".same")).to_contain_text("Site s-4")
    await page.goto(f"{desk.url}/runs/{other.id}/compare")
    pairs = page.locator(".compare .pair:not(.heads)")
    pair = pairs.filter(has_text="`hours` must be at most 48")
    await expect(pair.locator("> .one:first-child")).to_contain_text("72")
    await expect(pair.locator("> .one:last-child")).to_contain_text("within the usual band")
    await expect(page.locator(".same").last).to_contain_text("equal steps")
    link = pair.locator("> .one:first-child a")
    assert origin.id in (await link.get_attribute("href") or "")
    if script:
        assert await violations_for_all(page) == []


async def test_a_run_that_is_no_fork_has_nothing_to_compare(desk, forked):
    """There is no tab, and the address says so; an origin of another tenant is as one that does not exist."""
    origin, same, _ = forked
    async with http_client(base_url=desk.url, timeout=60) as http:
        assert (await http.get(f"/runs/{origin.id}/compare")).status_code == 404
        assert "/compare" not in (await http.get(f"/runs/{origin.id}")).text

    async def who(_) -> Principal:
        return Principal(subject="otto", tenant="other", roles=list(ROLES))

    async with (
        listening(create_app(desk_app.app, client=desk.client, auth=who)) as url,
        http_client(base_url=url, timeout=60) as http,
    ):
        assert (await http.get(f"/runs/{same.id}/compare")).status_code == 404
