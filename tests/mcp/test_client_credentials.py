"""Client credentials: one token for all callers, renewed before it ends and when the server refuses it."""

import asyncio
import time

import pytest

from sojourn import Principal, mcp
from sojourn.contracts.tool_call import ToolCallMeta
from sojourn.errors import DefinitionError
from sojourn.vault import FolderVault
from sojourn.vault.sealed import TokenVault
from tests.crypto.ring import make_ring
from tests.mcp.guarded import Guarded, guarded

SECRET = "s3cret: with/odd chars"
PEOPLE = [
    ToolCallMeta(run_id="run-1", principal=Principal(subject=name, tenant=tenant))
    for name, tenant in (("ana", "acme"), ("ben", "globex"))
]


def transport_of(server: Guarded, *, secret: str = SECRET, issuer: str | None = None) -> mcp.Http:
    server.clients["fleet"] = {"client_secret": SECRET}
    auth = mcp.ClientCredentials(
        "fleet", issuer=issuer or server.origin, client_secret=secret, scopes=["put"]
    )
    return mcp.Http(server.url, auth=auth)


async def test_all_callers_share_one_token(opened, run) -> None:
    """Twenty calls at once, of two tenants, and the listing ask the issuer once, for this server."""
    async with guarded(tool_scope="put") as server:
        toolset = await opened(transport_of(server))
        found = await asyncio.gather(
            *(run(toolset, "put", meta=PEOPLE[n % 2], item=f"{n}") for n in range(20))
        )
    assert all(each.ok for each in found)
    assert server.token_requests == [
        {"grant_type": "client_credentials", "resource": server.url, "scope": "put"}
    ]
    assert len({token for token, _ in server.requests}) == 1


async def test_a_refused_token_is_renewed_once_for_all_calls(opened, run) -> None:
    """After HTTP 401 each call is sent once more with one new token, and carried out once."""
    async with guarded() as server:
        toolset = await opened(transport_of(server))
        server.revoke()
        found = await asyncio.gather(*(run(toolset, "put", item=f"{n}") for n in range(8)))
        assert all(each.ok for each in found)
    assert len(server.token_requests) == 2
    assert sorted(item for _, item in server.calls) == [f"{n}" for n in range(8)]


async def test_a_token_is_renewed_before_it_ends(opened, run) -> None:
    """A token that is due is replaced without a refusal; while the issuer is away, it is used to its end."""
    async with guarded() as server:
        toolset = await opened(transport_of(server))
        tokens = toolset.transport.credentials
        for is_away in (True, False):
            server.metadata = {"token_endpoint": "http://127.0.0.1:9/token"} if is_away else {}
            tokens._tokens[""] = old = tokens._tokens[""].model_copy(
                update={"issued_at": time.time() - 3_600, "expires_at": time.time() + 30}
            )
            assert (await run(toolset, "put", item="a")).ok
            assert (tokens._tokens[""] is old) == is_away
    assert len(server.token_requests) == 2
    assert "" not in {token for token, _ in server.requests}


async def test_a_wrong_secret_is_an_error_that_names_the_issuers_code(opened, run) -> None:
    """The toolset is unavailable, without the secret in the reason."""
    async with guarded() as server:
        toolset = await opened(transport_of(server, secret="another-secret"))
        found = await run(toolset, "put", item="a") if toolset.tools else None
    assert found is None
    assert (
        toolset.unavailable
        == "its MCP server gives no access: its issuer of tokens refuses the request (invalid_client)"
    )


async def test_a_secret_goes_to_its_issuer_only(opened) -> None:
    """A server that names another issuer than the declared one gets no token, and that issuer no secret."""
    async with guarded() as server:
        toolset = await opened(transport_of(server, issuer="https://login.example.com"))
    assert "names another issuer" in toolset.unavailable
    assert server.token_requests == []


async def test_a_server_that_says_only_in_its_refusal_where_its_metadata_is(opened, run) -> None:
    """Without metadata at the usual address, the first request has no token, and HTTP 401 leads to one."""
    async with guarded(metadata_path="/elsewhere") as server:
        toolset = await opened(transport_of(server))
        assert (await run(toolset, "put", item="a")).ok
    assert server.requests[0][0] == ""
    assert len(server.token_requests) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "client_secret or a private_key"),
        ({"client_secret": "a", "private_key": "b"}, "client_secret or a private_key"),
        ({"client_secret": "a", "issuer": "login.example.com"}, "the issuer is an address"),
    ],
)
def test_a_client_that_cannot_be_is_refused_where_it_is_declared(options, words) -> None:
    """It has a secret or a key, and an issuer's address."""
    with pytest.raises(DefinitionError, match=words):
        mcp.ClientCredentials("fleet", **{"issuer": "https://login.example.com", **options})


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        ("https://example.com/mcp", {"authorization": "Bearer x"}),
        ("https://ana:word@example.com/mcp", {}),
        ("https://example.com/mcp", lambda _: {}),
    ],
)
def test_a_request_has_one_authorization(url, headers) -> None:
    """Beside `auth=` there is no other credential of the kind."""
    auth = mcp.ClientCredentials("fleet", issuer="https://login.example.com", client_secret="a")
    with pytest.raises(DefinitionError, match="auth= gives requests their Authorization"):
        mcp.Http(url, headers=headers, auth=auth)


async def test_the_fleet_shares_a_token_by_the_vault(opened, run, tmp_path) -> None:
    """Of four workers with one vault, one gets the token, and one renews it; a worker that starts later reads it."""
    vault = TokenVault(FolderVault(tmp_path / "vault"), make_ring(tmp_path / "ring.json"))
    async with guarded() as server:

        async def worker() -> mcp.McpToolset:
            transport = transport_of(server)
            transport.credentials.bind("ops.test", vault)
            return await opened(transport)

        fleet = await asyncio.gather(*(worker() for _ in range(4)))
        assert len(server.token_requests) == 1
        server.revoke()
        found = await asyncio.gather(*(run(each, "put", item="a") for each in fleet))
        assert all(each.ok for each in found)
        assert len(server.token_requests) == 2
        assert (await run(await worker(), "put", item="b")).ok
        assert len(server.token_requests) == 2
    (token,) = {token for token, _ in server.calls}
    kept = b"".join(path.read_bytes() for path in (tmp_path / "vault").iterdir())
    assert token.removeprefix("Bearer ").encode() not in kept
