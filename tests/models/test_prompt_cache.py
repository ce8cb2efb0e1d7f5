"""How much of a request a provider's prompt cache holds: what it shares with the request before, from its front on."""

import json
from itertools import pairwise, takewhile
from typing import Any

from sojourn import (
    Message,
    ModelPlanner,
    PlanInput,
    PlanResumeInput,
    RetryHint,
    RunContext,
    ToolError,
    ToolResult,
    Toolset,
)
from sojourn.contracts.plan import Finalize
from sojourn.contracts.tool_result import Bounds
from sojourn.testing.providers import Protocol, ProviderServer, ToolCall, calls, says

CALLS = 20
CORRECTED = (6, 11, 16)
PARTIAL = (3, 9)

shop = Toolset("shop.orders")


@shop.tool(read_only=True)
async def find(number: int) -> str:
    """Find an order by its number."""
    return f"order {number}"


@shop.tool(read_only=True)
async def audit(number: int) -> str:
    """Audit an order by its number."""
    return f"order {number}"


def front(body: dict[str, Any]) -> str:
    """Return a request in the order in which providers read it, without the marks of caches."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(each) for name, each in value.items() if name != "cache_control"}
        return [plain(each) for each in value] if isinstance(value, list) else value

    parts = [body.get("tools"), body.get("system") or body.get("instructions")]
    parts += body.get("messages") or body.get("input") or []
    return "\n".join(json.dumps(plain(part)) for part in parts)


def common(one: str, other: str) -> int:
    """Return how many characters two texts share from their beginning on."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def result_of(index: int, call_id: str) -> ToolResult:
    """Return the answer to a call: some are refused, some are a part."""
    if index in CORRECTED:
        hint = RetryHint(
            reason="invalid_arguments",
            tool="shop.orders.find",
            restrict_to_tool=True,
            message="`number` is 0",
        )
        return ToolResult(
            name=hint.tool, tool_call_id=call_id, error=ToolError(message="no"), retry_hint=hint
        )
    bounds = Bounds(returned=1, total=9, truncated=True) if index in PARTIAL else None
    return ToolResult(name="shop.orders.find", tool_call_id=call_id, result="order " * 40, bounds=bounds)


async def test_requests_share_their_front(standin: ProviderServer, protocol: Protocol) -> None:
    """Over 20 calls with 3 corrections, 2 partial results and the last turn, requests share 95 % with the one before."""
    standin.script = [
        *(
            calls(ToolCall(id=f"call_{n}", name="shop__orders__find", arguments=f'{{"number": {n}}}'))
            for n in range(CALLS)
        ),
        says("Done."),
    ]
    model = ModelPlanner(
        standin.model(protocol), settings={"max_tokens": 1000}, instructions="Be brief. " * 20
    )
    run = RunContext(run_id="cached", agent_id="shop.clerk")
    messages, results = [Message.user("Look at every order.")], []
    for n in range(CALLS + 1):
        given: dict[str, Any] = {"run": run, "messages": messages, "tools": [find.spec, audit.spec]}
        if n:
            hints = [each.retry_hint for each in results if each.retry_hint]
            given |= {"tool_results": results, "hints": hints}
        if n == CALLS:
            last = Finalize(reason="max_tool_rounds", message="Answer now.")
            given |= {"tools": [], "finalize": last, "messages": [*messages, Message.system(last.notice)]}
        plan = await (
            model.plan_resume(PlanResumeInput(**given)) if n else model.plan_start(PlanInput(**given))
        )
        if n < CALLS:
            (call,) = plan.tool_calls
            results = [result_of(n, call.tool_call_id)]
            messages = [*messages, plan.message, Message.results(results)]
    fronts = [front(request.body) for request in standin.requests]
    shared = [common(one, two) for one, two in pairwise(fronts)]
    of_all = sum(shared) / sum(map(len, fronts[:-1]))
    print(f"{protocol}: {of_all:.1%}")
    assert of_all >= 0.95
