"""A client for the suite's sign-ins: a run whose waits for a sign-in a service answers, after a browser has followed the link."""

import contextlib
import json
import uuid
from pathlib import Path
from typing import Any

import httpx2

from sojourn import Agent, App, ApprovalPolicy, Client, PlanResult, Principal, Run, RunPolicy, Worker, mcp
from sojourn.asgi import create_app
from sojourn.vault import FolderVault
from sojourn.vault.sealed import TokenVault
from tests.crypto.ring import make_ring
from tests.http.conftest import listening
from tests.mcp.conformance.client import issuer_of, wanted

__all__ = ["sign_in_and_call"]

ANA = Principal(subject="ana", tenant="acme", roles=["viewer", "user"])
METADATA = "https://conformance-test.local/client-metadata.json"


async def sign_in_and_call(address: str, folder: Path, url: str, context: str) -> None:
    """Run an agent against the server at `url`: it connects, then calls each tool, in a step of its own."""
    told = json.loads(context or "{}")

    async def plan(turn: Any) -> PlanResult:
        done = sum(bool(message.tool_calls) for message in turn.messages)
        connect, others = toolset.call("connect"), [t for t in turn.tools if t.id.tool != "connect"]
        left = [connect, *wanted(others, context)][done:]
        return PlanResult.calls(left[0]) if left and not turn.finalize else PlanResult.final("done")

    known = {}
    if "client_id" in told:
        known = {
            "client_id": told["client_id"],
            "client_secret": told.get("client_secret"),
            "issuer": await issuer_of(url),
        }
    signing_in = mcp.SignIn(client_metadata_url=METADATA, **known)
    toolset = mcp.McpToolset("suite.server", transport=mcp.Http(url, auth=signing_in))
    policy = RunPolicy(
        interrupts_allowed=True,
        approval=ApprovalPolicy(tainted="allow"),  # the suite's tools say nothing of their effects
        max_consecutive_failed_tool_calls=None,
        similar_errors=None,
    )
    app = App(agents=[Agent("suite.client", planner=plan, uses=[toolset], policy=policy)])
    app.__dict__["vault"] = TokenVault(FolderVault(folder), make_ring(folder.with_suffix(".json")))
    client = await Client.connect(address, task_queue=f"conformance-{uuid.uuid4().hex[:8]}")

    async def as_ana(_request: Any) -> Principal:
        return ANA

    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(Worker(app, client))
        service = await stack.enter_async_context(listening(create_app(app, client=client, auth=as_ana)))
        browser = await stack.enter_async_context(httpx2.AsyncClient())
        run = await client.start("suite.client", "go", principal=ANA)
        async for event in run.events():
            if event.type == "await_clarification":
                await sign_in(run, service, browser, event.question)
        await run.result()


async def sign_in(run: Run, service: str, browser: httpx2.AsyncClient, question: Any) -> None:
    """Follow the link, and complete the sign-in; a person to whom the service says no declines."""
    asked = {"toolset": "suite.server", "run_id": run.id, "await_id": question.id}
    begun = await browser.post(f"{service}/v1/grants", json=asked)
    if begun.status_code == 200 and begun.json()["status"] == "granted":
        return
    if begun.status_code == 200:
        sent = await browser.get(begun.json()["authorization_url"])
        taken = await browser.get(sent.headers["location"])
        if taken.status_code == 303:  # to the page that completes it
            ticket = httpx2.URL(taken.headers["location"]).params["ticket"]
            path = f"/v1/grants/suite.server/{begun.json()['id']}/complete"
            done = await browser.post(f"{service}{path}", json={"ticket": ticket})
            if done.status_code == 200:
                return
    await run.decline(question.id, "it does not work")
