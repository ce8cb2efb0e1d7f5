"""Identity assertions: each principal acts by a token that the issuer gives for its assertion, and sees its own tools."""

import asyncio
from typing import Any

import pytest

from sojourn import Principal, mcp
from sojourn.authoring.runnable import ACTING_FOR
from sojourn.contracts.tool_call import ToolCallMeta
from sojourn.errors import DefinitionError, ToolUnavailable
from tests.mcp.guarded import Guarded, guarded

PEOPLE = [
    ToolCallMeta(run_id="run-1", principal=Principal(subject=subject, tenant=tenant))
    for tenant in ("acme", "globex")
    for subject in ("ana", "ben")
]


def transport_of(server: Guarded, asked: list[Any]) -> mcp.Http:
    server.clients["fleet"] = {"client_secret": "word"}

    async def assertion(principal: Principal | None, audience: str, resource: str) -> str | None:
        asked.append((principal and principal.subject, audience, resource))
        return principal and f"assertion of {principal.subject} at {principal.tenant}"

    auth = mcp.IdentityAssertion("fleet", issuer=server.origin, assertion=assertion, client_secret="word")
    return mcp.Http(server.url, auth=auth)


async def test_each_principal_has_a_token_and_a_list_of_its_own(opened, run) -> None:
    """Forty calls of four principals at once ask for four tokens, and no call has another one's."""
    asked: list[Any] = []
    async with guarded() as server:
        toolset = await opened(transport_of(server, asked))
        assert toolset.tools == {}
        await asyncio.gather(*(toolset.know(meta) for meta in PEOPLE))
        token = ACTING_FOR.set(PEOPLE[0])
        try:
            assert set(toolset.tools) == {"put", "fail"}
        finally:
            ACTING_FOR.reset(token)
        metas = PEOPLE * 10
        found = await asyncio.gather(*(run(toolset, "put", meta=meta, item="a") for meta in metas))
        assert [each.result["subject"] for each in found] == [
            f"{meta.principal.subject} at {meta.principal.tenant}" for meta in metas
        ]
        grants = [each for each in server.token_requests if "assertion" in each]
        assert len(grants) == len(PEOPLE)
        assert {(audience, resource) for _, audience, resource in asked} == {(server.origin, server.url)}
        server.revoke()
        assert (await run(toolset, "put", meta=PEOPLE[0], item="b")).ok


async def test_a_refused_assertion_is_an_error_and_not_repeated(opened, run) -> None:
    """The call names the issuer's code; nothing else is tried."""
    async with guarded() as server:
        server.clients["fleet"] = {}

        async def assertion(principal: Principal | None, _audience: str, _resource: str) -> str | None:
            return principal and "of nobody"

        auth = mcp.IdentityAssertion("fleet", issuer=server.origin, assertion=assertion)
        toolset = await opened(mcp.Http(server.url, auth=auth))
        with pytest.raises(ToolUnavailable, match="invalid_grant"):
            await run(toolset, "put", meta=PEOPLE[0], item="a")
        assert len(server.token_requests) == 1


def test_an_assertion_comes_from_an_async_function() -> None:
    """A text is refused where it is declared."""
    with pytest.raises(DefinitionError, match="async function"):
        mcp.IdentityAssertion("fleet", issuer="https://login.example.com", assertion="jwt")
