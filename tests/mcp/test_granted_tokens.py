"""What principals have granted: a process sees soon what another one has changed, and no call loses a token or uses another's."""

import asyncio
import time

import httpx2
import pytest
from cachetools import TTLCache

from sojourn import Principal, mcp
from sojourn.contracts.tool_call import InputForm, InputRequired, ToolCallMeta, ToolInput
from sojourn.errors import DefinitionError
from sojourn.mcp.auth import GrantedTokens
from sojourn.mcp.caller import Caller
from sojourn.mcp.elicitation import ElicitationState
from sojourn.mcp.sign_in import asked_before
from sojourn.oauth.grants import Grant, Grants, SignInServer
from sojourn.vault import FolderVault
from sojourn.vault.sealed import TokenVault
from tests.crypto.ring import make_ring
from tests.mcp.guarded import Given, Guarded, guarded

ANA = Principal(subject="ana", tenant="acme", roles=["user"])
META = ToolCallMeta(run_id="run-1", principal=ANA)
CALLBACK = "http://127.0.0.1:1/oauth/callback/ops.test"


@pytest.fixture
def vault(tmp_path) -> TokenVault:
    """A vault in a folder."""
    return TokenVault(FolderVault(tmp_path / "vault"), make_ring(tmp_path / "ring.json"))


async def granted(vault: TokenVault, server: Guarded) -> tuple[Grants, Grant]:
    """Sign ana in, as another process does, and return her grant."""
    grants = Grants(vault, SignInServer("ops.test", server.url))
    begun = await grants.begin(ANA, CALLBACK)
    async with httpx2.AsyncClient() as browser:
        sent = (await browser.get(begun.authorization_url)).headers["location"]
    asked = httpx2.URL(sent).params
    _, ticket = await grants.take_code(asked["state"], code=asked["code"], iss=asked["iss"])
    await grants.complete(begun.id, ANA, ticket)
    grant = await grants.find(ANA)
    assert grant is not None
    return grants, grant


def due(grant: Grant) -> Grant:
    """Return a grant whose token is good for half a minute."""
    times = {"issued_at": time.time() - 3_600, "expires_at": time.time() + 30}
    return grant.model_copy(update={"token": grant.token.model_copy(update=times)})


def tokens_of(vault: TokenVault, server: Guarded) -> GrantedTokens:
    tokens = mcp.SignIn().credentials(server.url)
    tokens.bind("ops.test", vault)
    return tokens


async def test_a_revoked_grant_is_used_for_a_minute_at_most(vault) -> None:
    """However often it is used meanwhile; and a renewal that finds it revoked sends nothing."""
    async with guarded() as server:
        grants, grant = await granted(vault, server)
        tokens, clock = tokens_of(vault, server), [0.0]
        tokens._known = TTLCache(maxsize=8, ttl=60, timer=lambda: clock[0])
        sent = {"authorization": f"Bearer {grant.token.access_token}"}
        assert await tokens.headers(Caller(META)) == sent
        await grants.revoke(ANA)
        clock[0] = 40.0
        assert await tokens.headers(Caller(META)) == sent
        clock[0] = 70.0
        assert await tokens.headers(Caller(META)) == {}
        grants, grant = await granted(vault, server)
        await grants.keep(due(grant))
        assert await tokens.find(ANA)
        await grants.revoke(ANA)
        assert await tokens.headers(Caller(META)) == {}


async def test_a_grant_of_more_scopes_is_used_by_a_call_that_had_the_old_one(opened, run, vault) -> None:
    """After HTTP 403 for a scope the call is sent once more, if its principal has granted that meanwhile."""
    async with guarded() as server:
        grants, grant = await granted(vault, server)
        toolset = await opened(mcp.Http(server.url, auth=mcp.SignIn()))
        toolset.use_vault(vault)
        assert (await run(toolset, "put", meta=META, item="a")).ok
        server.tool_scope = "write"
        more = grant.token.model_copy(update={"access_token": "at-more"})
        server.known["at-more"] = Given("ana", "write", 9e9)
        await grants.keep(grant.model_copy(update={"token": more, "scope": "write"}))
        assert (await run(toolset, "put", meta=META, item="b")).ok
    assert server.calls[-1] == ("Bearer at-more", "b")


async def test_a_canceled_call_loses_no_rotated_token(vault, until) -> None:
    """The renewal goes on without the calls that waited for it, and the issuer gets one request."""
    async with guarded() as server:
        grants, grant = await granted(vault, server)
        await grants.keep(due(grant))
        tokens = tokens_of(vault, server)
        server.gate.clear()
        calls = [asyncio.create_task(tokens.headers(Caller(META))) for _ in range(3)]
        await until(lambda: len(server.token_requests) == 2)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        server.gate.set()

        async def is_renewed() -> bool:
            found = await grants.find(ANA)
            return found is not None and found.token.access_token != grant.token.access_token

        await until(is_renewed)
    assert (len(server.token_requests), server.reused) == (2, 0)


@pytest.mark.parametrize("session", ["tenant", "shared"])
def test_principals_with_tokens_of_their_own_share_no_session(session) -> None:
    """Else a person's tools would be listed with the token of another one."""

    async def assertion(_principal: Principal | None, _audience: str, _resource: str) -> str | None:
        return None

    url, issuer = "https://cart.example.com/mcp", "https://login.example.com"
    for auth in (mcp.SignIn(), mcp.IdentityAssertion("fleet", issuer=issuer, assertion=assertion)):
        with pytest.raises(DefinitionError, match="tokens of their own"):
            mcp.McpToolset("ops.cart", transport=mcp.Http(url, auth=auth), session=session)
        toolset = mcp.McpToolset("ops.cart", transport=mcp.Http(url), session=session)
        with pytest.raises(DefinitionError, match="tokens of their own"):
            toolset.transport = mcp.Http(url, auth=auth)
        assert mcp.McpToolset("ops.cart", transport=mcp.Http(url, auth=auth), session="principal")


async def test_with_headers_by_a_function_each_principal_lists_its_own_tools(opened) -> None:
    """Also if the people of a tenant share a session: the requests for a list have the headers of its principal."""
    people = [Principal(subject=name, tenant="acme") for name in ("ana", "ben")]

    def make(meta: ToolCallMeta | None) -> dict[str, str]:
        return {"Authorization": f"Bearer {meta.principal.subject}"} if meta and meta.principal else {}

    async with guarded() as server:
        for who in people:
            server.known[who.subject] = Given(who.subject, "", 9e9)
        toolset = await opened(mcp.Http(server.url, headers=make), session="tenant")
        await toolset.know(ToolCallMeta(run_id="run-1", principal=people[0]))
        server.requests.clear()
        await toolset.know(ToolCallMeta(run_id="run-1", principal=people[1]))
    assert "Bearer ben" in {token for token, _ in server.requests}
    assert "Bearer ana" not in {token for token, _ in server.requests}


def test_a_server_may_name_its_own_form_as_ours() -> None:
    """Its answers are sent to it, and are no sign-in."""
    form = InputForm(key="sign_in", message="Your name?", form={"type": "object", "properties": {}})
    asked = ElicitationState.write(InputRequired(forms=[form], request_state="state"))
    answer = ToolInput(responses={"sign_in": {"action": "decline"}}, request_state=asked.request_state)
    assert asked_before(answer) == (answer, None)


@pytest.mark.parametrize(
    "fields",
    [
        {"client_id": "ours"},
        {"client_secret": "word", "issuer": "https://login.example.com"},
        {"client_id": "ours", "client_secret": "word"},
    ],
)
def test_a_declared_client_has_an_issuer(fields) -> None:
    """Else a server would choose where the client's codes and its secret go."""
    with pytest.raises(DefinitionError, match="needs its issuer"):
        mcp.SignIn(**fields)
