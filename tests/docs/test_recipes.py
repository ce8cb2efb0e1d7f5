"""The recipes of docs/recipes/: each runs as it stands, against a bank, a schedule, the AI SDK and a stand-in for Slack."""

import asyncio
import hashlib
import hmac
import json
import re
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from fastapi import FastAPI, Request

from sojourn.asgi import create_app
from tests.bank import Bank
from tests.docs.conftest import blocks_of
from tests.http.conftest import listening
from tests.http.protocols.conftest import node_modules, start
from tests.test_webhook import Receiver

__all__ = ["node_modules", "start"]  # fixtures


async def test_a_payment_waits_for_a_second_person_and_is_made_once(serve, module_of, monkeypatch):
    """The refund of ana is paid once, although the bank loses its first answer, and only kim's approval counts."""
    async with Bank.of(**{"A-1": ["lost"]}) as bank:
        monkeypatch.setenv("BANK_URL", bank.url)
        refunds = module_of("recipes/payment.md", "refunds")
        client = await serve(refunds.app)
        assert (await refunds.two_people(client)).startswith("Paid A-1: receipt-")
        assert bank.counts == {"A-1": 1}
        assert len(bank.requests["A-1"]) == 2


async def test_a_report_is_made_when_the_schedule_says(serve, module_of, status_when):
    """The schedule starts a run, which asks about the shop without sales, and sends the report once."""
    reports = module_of("recipes/report.md", "reports")
    client = await serve(reports.app)
    await reports.every_night(client)
    schedule = client.get_schedule("nightly-report")
    try:
        assert (await schedule.status()).timing == "0 2 * * * Europe/Lisbon"
        await schedule.trigger()
        while not (found := [run async for run in client.list_runs(agent_id="reports.daily")]):
            await asyncio.sleep(0.1)
    finally:
        await schedule.delete()
    run = client.get_run(found[0].run_id)
    await status_when(run, lambda status: status.awaits)
    await run.answer("a holiday")
    assert (await run.result()).text == "Lisbon: 1200\nFaro: 0 (a holiday)"
    assert list(reports.SENT.values()) == ["Lisbon: 1200\nFaro: 0 (a holiday)"]


async def test_a_chat_page_approves_a_call(serve, module_of, start, node_modules):
    """The agent answers a page with `useChat`, less React, and the SDK has each name that the page imports."""
    desk = module_of("recipes/chat.md", "desk")
    client = await serve(desk.app)
    steps = [["send", "A-1"], ["decide", 0, True]]
    async with listening(create_app(desk.app, client=client)) as url:
        page = await start("chat.mjs", f"{url}/vercel/desk.clerk", uuid.uuid4().hex[:8], steps=steps)
        asked, done = [await page.line() for _ in steps]
    states = [part["state"] for part in asked["messages"][-1]["parts"] if part["type"].startswith("tool-")]
    assert states == ["approval-requested"]
    texts = [part["text"] for part in done["messages"][-1]["parts"] if part["type"] == "text"]
    assert texts == ["order A-1 is canceled"]
    (page,) = blocks_of("recipes/chat.md", "jsx")
    (names,) = re.findall(r'import \{ ([^}]+) \} from "ai";', page)
    check = f"import * as ai from 'ai'; console.log('{names}'.split(', ').every((name) => name in ai))"
    node = ("node", "--input-type=module", "--eval", check)
    program = await asyncio.create_subprocess_exec(*node, cwd=node_modules, stdout=asyncio.subprocess.PIPE)
    assert (await program.communicate())[0] == b"true\n"


class Slack:
    """A stand-in for Slack: it keeps what is posted, and signs clicks."""

    def __init__(self) -> None:
        self.posted: list[Any] = []
        self.told: list[str] = []
        self.web = FastAPI()
        self.web.post("/api/chat.postMessage")(self._post)
        self.web.post("/told")(self._tell)

    async def _post(self, request: Request) -> dict[str, bool]:
        self.posted.append(await request.json())
        return {"ok": True}

    async def _tell(self, request: Request) -> None:
        self.told.append((await request.json())["text"])

    def click(self, button: Any, url: str) -> tuple[bytes, dict[str, str]]:
        """The body and the headers of a click, as Slack sends them."""
        action = {"action_id": button["action_id"], "value": button["value"]}
        click = {"user": {"id": "U1", "name": "kim"}, "actions": [action], "response_url": f"{url}/told"}
        body, sent = urlencode({"payload": json.dumps(click)}).encode(), str(int(time.time()))
        signed = hmac.new(b"secret", f"v0:{sent}:".encode() + body, hashlib.sha256).hexdigest()
        return body, {"x-slack-request-timestamp": sent, "x-slack-signature": f"v0={signed}"}


@pytest.fixture
async def slack(monkeypatch) -> AsyncIterator[tuple[Slack, str]]:
    """Slack, and its address."""
    slack = Slack()
    async with listening(slack.web) as url:
        monkeypatch.setenv("SLACK_API", f"{url}/api")
        monkeypatch.setenv("SLACK_SIGNING_SECRET", "secret")
        yield slack, url


async def test_a_link_in_slack_opens_the_page_that_decides(serve, module_of, until, monkeypatch):
    """The message has one link. To open it shows the whole call and decides nothing; the form of its page does."""
    with Receiver() as channel:
        monkeypatch.setenv("SLACK_WEBHOOK", channel.url)
        page = module_of("recipes/slack.md", "slack_desk")
        client = await serve(page.app)
        async with listening(create_app(page.app, client=client, console=True)) as url:
            monkeypatch.setenv("SOJOURN_PUBLIC_URL", url)
            run = await client.start("desk.clerk", "A-1")
            await until(lambda: channel.got)
            (link,) = re.findall(r'"url":"([^"]+)"', channel.got[0][1].decode())
            async with httpx.AsyncClient() as visitor:
                shown = (await visitor.get(link)).text
                assert [wait.id for wait in (await run.status()).awaits] == [link.rpartition("/")[2]]
                digest = re.search(r'name="digest" value="(\w+)"', shown)[1]
                assert "A-1" in shown
                form = {"do": "approve", "digest": digest}
                assert (await visitor.post(link, data=form, headers={"origin": url})).status_code == 303
            assert (await run.result()).text == "order A-1 is canceled"


async def test_a_click_in_slack_approves_a_call(serve, module_of, slack, until, monkeypatch):
    """The webhook brings the call to the channel, a forged click is refused, and a click of kim runs the call."""
    fake, url = slack
    desk = FastAPI()
    async with listening(desk) as address:
        monkeypatch.setenv("BRIDGE_URL", f"{address}/notices")
        page = module_of("recipes/slack.md", "slack_desk")
        client = await serve(page.with_buttons)
        desk.mount("/", page.bridge(client, "#orders"))
        run = await client.start("desk.clerk", "A-1")
        await until(lambda: fake.posted)
        (message,) = fake.posted
        assert message["channel"] == "#orders"
        text, actions = message["blocks"]
        assert text["text"]["text"] == 'Cancel order A-1?\norder = "A-1"'
        approve, deny = actions["elements"]
        body, headers = fake.click(approve, url)
        async with httpx.AsyncClient(base_url=address) as http:
            forged, _ = fake.click(deny, url)
            assert (await http.post("/slack", content=forged, headers=headers)).status_code == 401
            assert (await http.post("/slack", content=body, headers=headers)).status_code == 200
            assert (await run.result()).text == "order A-1 is canceled"
            assert (await http.post("/slack", content=body, headers=headers)).status_code == 200
    assert fake.told[0] == "Approved by kim."
    assert len(fake.told) == 2
