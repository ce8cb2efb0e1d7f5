"""Sign-in at an MCP server: a run waits for its principal, and nobody else can give or use what it grants."""

import contextlib
import html
import json
import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx2
import pytest

from sojourn import Agent, App, ApprovalPolicy, Client, PlanResult, Principal, RunPolicy, mcp
from sojourn.asgi import create_app
from sojourn.contracts.plan import Turn
from sojourn.http import SecuritySettings
from sojourn.testing.scripted import ScriptedPlanner
from sojourn.vault import FolderVault
from sojourn.vault.sealed import TokenVault
from tests.crypto.ring import make_ring
from tests.http.conftest import listening
from tests.mcp.guarded import Guarded, guarded

ANA, BEN, EVE = (
    Principal(subject=subject, tenant=tenant, roles=["viewer", "user", "approver"])
    for subject, tenant in (("ana", "acme"), ("ben", "acme"), ("ana", "globex"))
)
BY_KEY = {"ana": ANA, "ben": BEN, "eve": EVE}
BACK = "https://app.example.com/back"


async def by_name(request: Any) -> Principal | None:
    return BY_KEY.get(request.headers.get("x-key", ""))


class World:
    """A worker, a service, an MCP server with its issuer, and browsers of people."""

    def __init__(self, client: Client, url: str, server: Guarded) -> None:
        self.client = client
        self.url = url
        self.server = server
        self.browser = httpx2.AsyncClient()

    def person(self, name: str) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.url, headers={"x-key": name})

    async def follow(self, address: str, subject: str) -> httpx2.Response:
        """Open the issuer's page as somebody, who agrees, and return where the service sends the browser."""
        self.server.subject = subject
        agreed = await self.browser.get(address)
        assert agreed.status_code == 302, agreed.text
        return await self.browser.get(agreed.headers["location"])


def planner(toolset: mcp.McpToolset, *names: str) -> ScriptedPlanner:
    """Connect, call tools by name, and answer with the results of all."""

    def call(name: str) -> Any:
        return lambda _turn: PlanResult.calls(
            toolset.call(name, **({} if name == "connect" else {"item": "a"}))
        )

    def answer(turn: Turn) -> PlanResult:
        results = [each for message in turn.messages for each in message.tool_results]
        return PlanResult.final(
            json.dumps([each.result if each.ok else each.error.code for each in results if each.name])
        )

    return ScriptedPlanner([*map(call, names), answer])


@pytest.fixture
async def world(serve, tmp_path) -> AsyncIterator[Any]:
    """Make a world for an agent that calls tools."""
    vault = TokenVault(FolderVault(tmp_path / "vault"), make_ring(tmp_path / "ring.json", "acme"))
    async with contextlib.AsyncExitStack() as stack:

        async def make(*names: str, policy: RunPolicy | None = None, **options: Any) -> World:
            server = await stack.enter_async_context(guarded(**options))
            toolset = mcp.McpToolset(
                "ops.cart", transport=mcp.Http(server.url, auth=mcp.SignIn(title="Cart"))
            )
            agent = Agent(
                "test.agent",
                planner=planner(toolset, *names),
                uses=[toolset],
                policy=policy or RunPolicy(interrupts_allowed=True, approval=ApprovalPolicy(tainted="allow")),
            )
            app = App(agents=[agent])
            app.__dict__["vault"] = vault  # without SOJOURN_KEYRING, so that the test reads its runs
            client = await serve(app)
            web = create_app(
                app,
                client=client,
                auth=by_name,
                security=SecuritySettings(origins=["https://app.example.com"]),
            )
            made = World(client, await stack.enter_async_context(listening(web)), server)
            stack.push_async_callback(made.browser.aclose)
            return made

        yield make


async def begin(world: World, run_id: str, wait: Any, *, as_: str = "ana") -> httpx2.Response:
    async with world.person(as_) as person:
        body = {"toolset": "ops.cart", "run_id": run_id, "await_id": wait.id, "return_to": BACK}
        return await person.post("/v1/grants", json=body)


async def complete(person: httpx2.AsyncClient, id: str, ticket: str = "none") -> httpx2.Response:
    return await person.post(f"/v1/grants/ops.cart/{id}/complete", json={"ticket": ticket})


async def sign_in(world: World, run_id: str, wait: Any) -> dict[str, Any]:
    """Sign in as ana, by every step of an application of one's own, and return the last answer."""
    begun = (await begin(world, run_id, wait)).json()
    sent = await world.follow(begun["authorization_url"], "ana")
    assert sent.status_code == 303, sent.text
    came = dict(parse_qsl(urlsplit(sent.headers["location"]).query))
    ticket = came.pop("ticket")
    assert came == {"grant": begun["id"], "status": "ready"}
    async with world.person("ana") as person:
        done = await complete(person, begun["id"], ticket)
    assert done.status_code == 200, done.text
    return done.json()


async def test_a_run_waits_until_its_principal_has_signed_in(world, status_when) -> None:
    """The call of `connect` waits; after the sign-in the run sees the tools, and its calls act for the person."""
    made = await world("connect", "put", "put")
    run = await made.client.start("test.agent", "go", principal=ANA)
    (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
    assert wait.question == f"Sign in to Cart ({urlsplit(made.url and made.server.url).netloc}) as ana."
    assert (wait.sign_in.toolset, wait.sign_in.principal.subject) == ("ops.cart", "ana")
    assert await sign_in(made, run.id, wait) == {
        "toolset": "ops.cart",
        "run_id": run.id,
        "await_id": wait.id,
        "answered": True,
    }
    connected, *puts = json.loads((await run.result()).text)
    assert connected["tools"] == ["ops.cart.fail", "ops.cart.put"]
    assert [each["subject"] for each in puts] == ["ana", "ana"]
    (grant,) = [each for each in made.server.token_requests if each["grant_type"] == "authorization_code"]
    assert grant["resource"] == made.server.url


async def test_nobody_else_signs_in_for_a_run(world, status_when) -> None:
    """Neither a colleague nor one of the same name elsewhere can begin, complete or use it; states count once."""
    made = await world("connect")
    run = await made.client.start("test.agent", "go", principal=ANA)
    (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
    refused = await begin(made, run.id, wait, as_="ben")
    assert (refused.status_code, refused.json()["code"]) == (403, "not_your_grant")
    assert (await begin(made, run.id, wait, as_="eve")).status_code == 404
    begun = (await begin(made, run.id, wait)).json()
    made.server.subject = "ben"  # ben opens the link of ana
    agreed = (await made.browser.get(begun["authorization_url"])).headers["location"]
    wrong_issuer = await made.browser.get(agreed.replace("iss=http", "iss=https"))
    assert (wrong_issuer.status_code, wrong_issuer.json()["code"]) == (400, "wrong_issuer")
    begun = (await begin(made, run.id, wait)).json()
    agreed = (await made.browser.get(begun["authorization_url"])).headers["location"]
    async with made.person("ana") as ana:
        early = await complete(ana, begun["id"])
        assert (early.status_code, early.json()["code"]) == (409, "sign_in_pending")
    back = await made.browser.get(agreed)
    assert back.status_code == 303
    ticket = dict(parse_qsl(urlsplit(back.headers["location"]).query))["ticket"]
    again = await made.browser.get(agreed)
    assert (again.status_code, again.json()["code"]) == (410, "sign_in_expired")
    for name in ("ben", "eve"):
        async with made.person(name) as other:
            stolen = await complete(other, begun["id"], ticket)
            assert (stolen.status_code, stolen.json()["code"]) == (403, "not_your_grant")
    foreign = await made.browser.get(f"{made.url}/oauth/callback/ops.cart?state=other&code=x")
    assert foreign.status_code == 410
    assert parse_qs(urlsplit(begun["authorization_url"]).query)["code_challenge_method"] == ["S256"]
    await run.cancel()


async def test_a_link_that_another_person_follows_gives_no_grant(world) -> None:
    """Ana sends the issuer's link to ben, who agrees; only his browser gets the ticket, and he is not who began."""
    made = await world("connect")
    async with made.person("ana") as ana, made.person("ben") as ben:
        begun = (await ana.post("/v1/grants", json={"toolset": "ops.cart"})).json()
        back = await made.follow(begun["authorization_url"], "ben")
        for ticket in ("", "none", begun["id"]):
            stolen = await complete(ana, begun["id"], ticket)
            assert (stolen.status_code, stolen.json()["code"]) == (403, "wrong_ticket")
        assert (await ana.get(f"/grants/ops.cart/done?id={begun['id']}")).status_code == 403
        assert (await ben.get(back.headers["location"])).status_code == 403
        assert (await ana.get("/v1/grants")).json()["grants"][0]["granted_at"] is None
    assert made.server.token_requests == []


async def test_a_sign_in_that_is_declined_is_an_error_of_the_call(world, status_when) -> None:
    """The planner reads the code; without interrupts nobody is asked, and without a principal nobody can be."""
    made = await world("connect")
    run = await made.client.start("test.agent", "go", principal=ANA)
    (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
    await run.decline(wait.id, "not mine")
    assert json.loads((await run.result()).text) == ["sign_in_declined"]


async def test_a_run_that_may_ask_nobody_gets_an_error(world) -> None:
    """Its code says what is missing."""
    made = await world("connect", policy=RunPolicy(interrupts_allowed=False))
    texts = [
        (await (await made.client.start("test.agent", "go", principal=who)).result()).text
        for who in (ANA, None)
    ]
    assert [json.loads(text) for text in texts] == [["sign_in_required"], ["tool_unavailable"]]


async def test_a_grant_is_renewed_and_revoked(world, status_when) -> None:
    """A refused token is renewed without the person; a revoked grant is asked for again, and each person has their own."""
    made = await world("connect", "put")
    run = await made.client.start("test.agent", "go", principal=ANA)
    (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
    await sign_in(made, run.id, wait)
    await run.result()
    made.server.revoke()
    run = await made.client.start("test.agent", "go", principal=ANA)
    assert json.loads((await run.result()).text)[1]["subject"] == "ana"
    assert [each["grant_type"] for each in made.server.token_requests] == [
        "authorization_code",
        "refresh_token",
    ]
    async with made.person("ana") as ana, made.person("ben") as ben:
        (grant,) = (await ana.get("/v1/grants")).json()["grants"]
        assert grant["granted_at"]
        assert (await ben.get("/v1/grants")).json()["grants"][0]["granted_at"] is None
        assert (await ben.delete("/v1/grants/ops.cart")).status_code == 204
        assert (await ana.get("/v1/grants")).json()["grants"][0]["granted_at"]
        assert (await ana.delete("/v1/grants/ops.cart")).status_code == 204
        assert (await ana.get("/v1/grants")).json()["grants"][0]["granted_at"] is None
    assert not any(made.server.refreshable.values())


async def test_the_page_of_a_link_takes_a_person_through_the_sign_in(world, status_when, monkeypatch) -> None:
    """The wait's link leads to a page that says where and what for; its button to the issuer, and that back to a run that goes on."""
    monkeypatch.setenv("SOJOURN_PUBLIC_URL", "https://agents.example.com")
    made = await world("connect")
    run = await made.client.start("test.agent", "go", principal=ANA)
    (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
    link = wait.sign_in.url
    assert link.startswith("https://agents.example.com/grants/ops.cart?")
    assert wait.question.endswith(f"as ana: {link}")
    page = link.removeprefix("https://agents.example.com")
    form = dict(parse_qsl(urlsplit(page).query))
    monkeypatch.delenv("SOJOURN_PUBLIC_URL")  # the service answers at its own address from here on
    async with made.person("ana") as ana, made.person("ben") as ben:
        assert (await ben.get(page)).status_code == 403
        assert "act as <bdi>ana</bdi>" in (await ana.get(page)).text
        headers = {"origin": made.url}
        begun = await ana.post("/grants/ops.cart", data=form, headers=headers)
        (address,) = re.findall(r'rel="noreferrer" href="([^"]+)"', begun.text)
        sent = await made.follow(html.unescape(address), "ana")
        assert sent.status_code == 303, sent.text
        done = sent.headers["location"]
        assert done.startswith("/grants/ops.cart/done?id=")
        assert (await ben.get(done)).status_code == 403
        assert "The run goes on." in (await ana.get(done)).text
        assert (await ana.get(done)).status_code == 410
        await run.result()
        assert "signed in 2" in (await ana.get("/grants")).text
        assert "not signed in" in (await ben.get("/grants")).text
        assert (await ana.post("/grants/ops.cart/revoke", headers=headers)).status_code == 303
        assert "not signed in" in (await ana.get("/grants")).text
