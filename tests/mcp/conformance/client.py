"""A client for MCP's conformance suite: an agent of a run that calls the tools of the suite's server.

Whatever the server asks is answered by the first value that fits.
"""

import json
import uuid
from typing import Any

import httpx2

from sojourn import Agent, App, ApprovalPolicy, Client, PlanResult, RunPolicy, ToolRequest, Worker, mcp
from sojourn.core.schema.sample import sample
from sojourn.network import http_client

__all__ = ["call_tools", "issuer_of", "wanted"]


def wanted(tools: list[Any], context: str) -> list[ToolRequest]:
    """The calls: those that the suite wants, or each tool once; a tool that sends back a schema gets that of the other tool."""
    told = json.loads(context or "{}").get("toolCalls", [])
    by_name = {tool.id.tool: tool for tool in tools}
    if told:
        return [
            ToolRequest(name=str(by_name[each["name"]].id), payload=each["arguments"])
            for each in told
            if each["name"] in by_name
        ]
    made = []
    for tool in by_name.values():
        schema = tool.payload.json_schema
        echoes = "schema" in schema.get("properties", {})
        other = next((each for each in by_name.values() if each is not tool), None)
        payload = {"schema": other.payload.json_schema} if echoes and other else sample(schema, schema)
        made.append(ToolRequest(name=str(tool.id), payload=payload))
    return made


def answer_to(form: dict[str, Any] | None) -> Any:
    """An answer that fits."""
    return sample(form, form) if form else "yes"


async def id_jag(told: dict[str, Any], audience: str, resource: str) -> str:
    """Exchange a person's token at the enterprise's identity provider for an ID-JAG (RFC 8693)."""
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": told["idp_id_token"],
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        "audience": audience,
        "resource": resource,
        "client_id": told["idp_client_id"],
    }
    async with http_client() as client:
        return (await client.post(told["idp_token_endpoint"], data=form)).json()["access_token"]


async def issuer_of(url: str) -> str:
    """The issuer that the suite's server names, which an operator would know."""
    async with http_client() as client:
        place = httpx2.URL(url).copy_with(path="/.well-known/oauth-protected-resource/mcp")
        return (await client.get(place)).json()["authorization_servers"][0]


async def client_of(url: str, told: dict[str, Any]) -> mcp.ClientCredentials | mcp.IdentityAssertion | None:
    """The client that the suite's issuer knows, if it says one; the issuer is the one that the server names."""
    if "client_id" not in told:
        return None
    if "valid_jwt" in told or "idp_id_token" in told:

        async def assertion(_principal: Any, audience: str, resource: str) -> str:
            return told.get("valid_jwt") or await id_jag(told, audience, resource)

        return mcp.IdentityAssertion(
            told["client_id"],
            issuer=await issuer_of(url),
            assertion=assertion,
            client_secret=told.get("client_secret"),
        )
    return mcp.ClientCredentials(
        told["client_id"],
        issuer=await issuer_of(url),
        client_secret=told.get("client_secret"),
        private_key=told.get("private_key_pem"),
        algorithm=told.get("signing_algorithm", "RS256"),
    )


async def call_tools(address: str, url: str, context: str) -> None:
    """Run an agent against the server at `url`, on the Temporal server at `address`, and answer what is asked.

    Its planner calls each tool in a step of its own, then answers. `context` is what the suite says of the scenario.
    """

    async def plan(turn: Any) -> PlanResult:
        done = sum(bool(message.tool_calls) for message in turn.messages)
        left = wanted(turn.tools, context)[done:]
        return PlanResult.calls(left[0]) if left and not turn.finalize else PlanResult.final("done")

    transport = mcp.Http(url, auth=await client_of(url, json.loads(context or "{}")))
    toolset = mcp.McpToolset("suite.server", transport=transport)
    policy = RunPolicy(
        interrupts_allowed=True,
        approval=ApprovalPolicy(tainted="allow"),  # the suite's tools say nothing of their effects
        max_consecutive_failed_tool_calls=None,
        similar_errors=None,
    )
    app = App(agents=[Agent("suite.client", planner=plan, uses=[toolset], policy=policy)])
    client = await Client.connect(address, task_queue=f"conformance-{uuid.uuid4().hex[:8]}")
    async with Worker(app, client):
        run = await client.start("suite.client", "go")
        async for event in run.events():
            if event.type == "await_clarification":
                await run.answer(event.question.id, answer_to(event.question.form))
        await run.result()
