"""The catalogue: what it says of agents, tools, limits and workers, and to whom."""

import re

import httpx2
import pytest
from playwright.async_api import expect

from sojourn import Agent, App, Client, RunPolicy, mcp
from sojourn.asgi import create_app
from sojourn.http import ApiKeys
from sojourn.http.security.keys import create_key
from tests.http.conftest import listening


@pytest.mark.parametrize(("size", "script"), [("phone", False), ("desk", True)])
async def test_the_list_says_what_each_agent_may_do_and_who_serves_it(console, visit, size, script):
    """An agent has its description, its tools, what asks people, its child agents and its workers; a queue its processes."""
    page = await visit(f"{console.url}/agents", size=size, script=script)
    card = page.locator(".card", has=page.get_by_role("link", name="shop.clerk"))
    await expect(card).to_contain_text("Does what the first word says.")
    await expect(card).to_contain_text("8 tools, 2 need approval")
    await expect(card.get_by_role("link", name="shop.helper")).to_be_visible()
    await expect(card).to_contain_text("worker")
    queue = page.get_by_role("region", name=f"Task queue {console.client.task_queue}")
    row = queue.get_by_role("row").nth(1)
    await expect(row).to_contain_text(console.client.temporal.identity)
    await expect(row).to_contain_text("runs and calls of shop")
    await expect(row).to_contain_text("0.1.0")
    await expect(row.locator("time").first).to_have_attribute("title", re.compile("UTC$"))
    await card.get_by_role("link", name="shop.clerk").click()
    await expect(page).to_have_url(f"{console.url}/agents/shop.clerk")


@pytest.mark.parametrize("script", [True, False])
async def test_a_tool_is_shown_with_its_fields_and_a_link_of_its_own(console, visit, script):
    """The link of a tool unfolds it: its fields with types, its question, what its marks mean, and the schema as it is."""
    page = await visit(f"{console.url}/agents/shop.clerk#shop.tools.wipe", script=script)
    tool = page.locator("[id='shop.tools.wipe']")
    await expect(tool).to_be_visible()
    await expect(tool).to_contain_text("Wipe disk {disk}?")
    await expect(tool).to_contain_text("A person approves each call.")
    row = tool.get_by_role("table", name="Fields that shop.tools.wipe takes").get_by_role("row").nth(1)
    await expect(row).to_contain_text("disk required")
    await expect(row).to_contain_text("string")
    await expect(page.locator("[id='shop.tools.add']")).to_be_hidden()
    await tool.get_by_text("JSON Schema").first.click()
    await expect(tool.locator(".raw pre").first).to_contain_text('"required"')
    await expect(tool.get_by_role("heading", name="Example")).to_contain_text("made from the schema")


async def test_the_limits_that_an_agent_sets_come_before_those_that_are_everywhere(console, visit):
    """Each limit has its value and what it means; what is as everywhere is folded."""
    page = await visit(f"{console.url}/agents/shop.clerk")
    own = page.get_by_role("table", name="Limits that the agent sets")
    row = own.get_by_role("row").filter(has_text="Tool calls")
    await expect(row).to_contain_text("1,000")
    await expect(row).to_contain_text("Calls in a run and its child runs.")
    await expect(own).not_to_contain_text("SR-")
    usual = page.get_by_role("table", name="Default limits")
    await expect(usual).to_be_hidden()
    await page.get_by_text("more at their defaults").click()
    await expect(usual.get_by_role("row").filter(has_text="Time per call")).to_contain_text("2 min")


async def test_an_agent_that_no_worker_serves_says_how_to_start_one(shop, temporal_address, visit):
    """Without a worker the page says so, with the command."""
    app = App(agents=[Agent("alone.agent", planner=shop.plan, policy=RunPolicy(interrupts_allowed=True))])
    web = create_app(app, client=await Client.connect(temporal_address))
    async with listening(web) as url:
        page = await visit(f"{url}/agents")
        await expect(page.locator(".card")).to_contain_text("no worker")
        await page.get_by_role("link", name="alone.agent").click()
        await expect(page.locator("main")).to_contain_text("sojourn worker MODULE:APP")
        await expect(page.locator("main")).to_contain_text("No tools")
        page = await visit(f"{url}/agents/alone.nobody")
        await expect(page.get_by_role("alert")).to_contain_text("the app has no agent 'alone.nobody'")


async def test_what_an_mcp_server_cannot_do_is_said(shop, temporal_address):
    """The page has why a server cannot be used and which of its tools are left out, as text; `/v1` has the tools too."""
    files = mcp.McpToolset("shop.files", transport=mcp.Stdio("x"))
    files._connection.unavailable = "its MCP server refuses the credentials (HTTP 401)"
    files._catalogue.left_out = {"<b>odd</b>": "name: Input should be a valid string"}
    app = App(agents=[Agent("shop.agent", planner=shop.plan, uses=[files])])
    web = create_app(app, client=await Client.connect(temporal_address))
    async with listening(web) as url, httpx2.AsyncClient(base_url=url) as browser:
        page = (await browser.get("/agents/shop.agent", headers={"accept": "text/html"})).text
        entry = (await browser.get("/v1/agents/shop.agent")).json()
    assert "refuses the credentials (HTTP 401)" in page
    assert "&lt;b&gt;odd&lt;/b&gt;" in page
    assert "<b>odd" not in page
    assert "Input should be a valid string" in page
    assert entry["left_out"] == {"shop.files": {"<b>odd</b>": "name: Input should be a valid string"}}


async def test_a_tenant_sees_the_catalogue_and_no_workers(shop, temporal_address, tmp_path, visit):
    """Task queues, processes, checks and settings are for those who see all tenants."""
    path = tmp_path / "keys.json"
    _, key = create_key(path, "ana", tenant="acme", roles=["operator"])
    web = create_app(shop.app, client=await Client.connect(temporal_address), auth=ApiKeys(path))
    async with listening(web) as url:
        page = await visit(f"{url}/sign-in?next=/agents")
        await page.get_by_label("Key or token").fill(key)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("link", name="shop.clerk")).to_be_visible()
        await expect(page.locator("main")).not_to_contain_text("worker")
        await page.get_by_role("link", name="Health").click()
        await expect(page.locator("#health-checks")).to_contain_text("the operator of this service")
        await expect(page.locator("main")).not_to_contain_text("127.0.0.1")
        await page.close()
