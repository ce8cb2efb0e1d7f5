"""Headers by a function: each request has those of the principal for whom its call acts, and of no other."""

import asyncio
import time
from typing import Any

import pytest

from sojourn import Principal, mcp
from sojourn.contracts.tool_call import ToolCallMeta
from sojourn.errors import DefinitionError, ToolUnavailable
from tests.mcp.guarded import Given, guarded

PEOPLE = [
    Principal(subject=subject, tenant=tenant) for tenant in ("acme", "globex") for subject in ("ana", "ben")
]


def token_of(meta: ToolCallMeta | None) -> str:
    who = meta and meta.principal
    return f"Bearer token-of-{who.subject}-at-{who.tenant}" if who else "Bearer token-for-listing"


def headers_of(meta: ToolCallMeta | None) -> dict[str, str]:
    return {"Authorization": token_of(meta)}


def meta_of(principal: Principal | None) -> ToolCallMeta:
    return ToolCallMeta(run_id="run-1", principal=principal)


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_no_request_has_the_headers_of_another_principal(opened, run, kind: str) -> None:
    """Calls of two tenants with two people each, made at once, reach the server with the caller's own headers and session."""
    async with guarded(kind, asks_for_token=False) as server:
        declared = mcp.Sse if kind == "sse" else mcp.Http
        toolset = await opened(declared(server.url, headers=headers_of))
        calls = [(who, f"{n}") for n in range(12) for who in (*PEOPLE, None)]
        found = await asyncio.gather(
            *(run(toolset, "put", meta=meta_of(who), item=item) for who, item in calls)
        )
        assert [each.result["token"] for each in found] == [token_of(meta_of(who)) for who, _ in calls]
    owners: dict[str, set[str]] = {}
    for token, session in server.requests:
        owners.setdefault(session, set()).add(token)
    assert all(len(tokens) == 1 for session, tokens in owners.items() if session)
    assert {token for token, _ in server.requests} == {token_of(meta_of(who)) for who in (*PEOPLE, None)}


async def test_a_credential_of_a_call_is_masked_in_the_servers_error(opened, run) -> None:
    """The server repeats the header, which an async function has made, and nobody reads it."""

    async def make(meta: ToolCallMeta | None) -> dict[str, str]:
        return headers_of(meta)

    async with guarded(asks_for_token=False) as server:
        toolset = await opened(mcp.Http(server.url, headers=make))
        found = await run(toolset, "fail", meta=meta_of(PEOPLE[0]))
    assert found.error.message == "no ***"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (ValueError("the vault said token-1"), "headers fails with ValueError$"),
        ({"X-Token": "two\r\nlines"}, "returns one that cannot be sent: 'X-Token'$"),
        (ToolUnavailable("the vault is closed"), "^the vault is closed$"),
    ],
)
async def test_a_function_that_fails_makes_its_calls_unavailable(
    opened, run, answer: Any, words: str
) -> None:
    """The call is not sent, and can be repeated; the session and the calls of others go on."""

    def make(meta: ToolCallMeta | None) -> dict[str, str]:
        if meta and meta.principal == PEOPLE[0]:
            if isinstance(answer, Exception):
                raise answer
            return answer
        return headers_of(meta)

    async with guarded(asks_for_token=False) as server:
        toolset = await opened(mcp.Http(server.url, headers=make), session="shared")
        before = len(server.requests)
        with pytest.raises(ToolUnavailable, match=words) as raised:
            await run(toolset, "put", meta=meta_of(PEOPLE[0]), item="a")
        assert not raised.value.outcome_unknown
        assert raised.value.__cause__ is None  # histories record causes, with their texts
        assert len(server.requests) == before
        assert (await run(toolset, "put", meta=meta_of(PEOPLE[1]), item="b")).ok


async def test_a_token_that_ended_meanwhile_is_made_again(opened, run) -> None:
    """A call that got HTTP 401 is sent once more if the function has other headers by then, and else refused alone."""
    made = ["Bearer first"]
    async with guarded() as server:
        server.known["first"] = server.known["second"] = Given("ana", "", time.time() + 60)
        toolset = await opened(mcp.Http(server.url, headers=lambda _: {"Authorization": made[0]}))
        del server.known["first"]
        refused = await run(toolset, "put", item="a")
        assert "HTTP 401" in refused.error.message
        sent = []

        def renewed(_meta: ToolCallMeta | None) -> dict[str, str]:
            sent.append("Bearer first" if not sent else "Bearer second")
            return {"Authorization": sent[-1]}

        toolset.transport.credentials._make = renewed
        assert (await run(toolset, "put", item="b")).ok
    assert server.calls == [("Bearer second", "b")]


def test_a_header_is_a_text_or_made_by_a_function() -> None:
    """Anything else is refused where it is declared, and not shown."""
    with pytest.raises(DefinitionError, match="headers is a mapping of name to text, or a function"):
        mcp.Http("https://example.com/mcp", headers=["X-Token: secret"])
