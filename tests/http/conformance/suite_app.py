"""An app whose agents have the names of the tools that the conformance suite of MCP calls.

An agent takes a `message`, and the suite sends arguments of its own: `with_message` puts those into the message, as a proxy before the service would.
"""

import json
from datetime import timedelta
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sojourn import Agent, App, AwaitClarification, PlanResult, RunPolicy, Toolset

__all__ = ["app", "with_message"]

work = Toolset("suite.work")


@work.tool(read_only=True)
async def step(number: int) -> int:
    """Do a step."""
    return number


async def simple(turn: Any) -> PlanResult:
    return PlanResult.final("This is a simple text response for testing.")


async def failing(turn: Any) -> PlanResult:
    return PlanResult.fail("This tool intentionally returns an error for testing")


async def steps(turn: Any) -> PlanResult:
    made = sum(bool(message.tool_calls) for message in turn.messages)
    return PlanResult.calls(step.call(number=made)) if made < 3 else PlanResult.final("Done.")


async def slow(turn: Any) -> PlanResult:
    waited = any(message.role == "system" for message in turn.messages)
    return PlanResult.final("Computed.") if waited else PlanResult.wait(timedelta(seconds=1))


async def asking(turn: Any) -> PlanResult:
    if len(turn.messages) > 1:
        return PlanResult.final(f"Hello, {turn.messages[-1].text}!")
    return PlanResult.ask(AwaitClarification(question="What is your name?"))


PLANNERS = {
    "test.simple_text": simple,
    "test.error_handling": failing,
    "failing.job": failing,
    "test.tool_with_progress": steps,
    "slow.compute": slow,
    "test.input_required_result_elicitation": asking,
    "test.input_required_result_request_state": asking,
    "test.input_required_result_tampered_state": asking,
    "confirm.delete": asking,
    "test.tool_with_task": asking,
}

app = App(
    agents=[
        Agent(name, planner=planner, uses=[work], policy=RunPolicy(interrupts_allowed=True))
        for name, planner in PLANNERS.items()
    ]
)


def with_message(inner: ASGIApp) -> ASGIApp:
    """The service, for calls of tools with any arguments."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await inner(scope, receive, send)
            return
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        told = [_changed(body)]

        async def received() -> Message:
            return {"type": "http.request", "body": told.pop()} if told else await receive()

        names = [pair for pair in scope["headers"] if pair[0] != b"content-length"]
        await inner(
            {**scope, "headers": [*names, (b"content-length", str(len(told[0])).encode())]}, received, send
        )

    return answer


def _changed(body: bytes) -> bytes:
    try:
        asked = json.loads(body)
        if asked["method"] != "tools/call" or asked["params"]["name"] == "answer":
            return body
        given = asked["params"].get("arguments") or {}
    except (ValueError, KeyError, TypeError):
        return body
    return json.dumps(
        {**asked, "params": {**asked["params"], "arguments": {"message": json.dumps(given)}}}
    ).encode()
