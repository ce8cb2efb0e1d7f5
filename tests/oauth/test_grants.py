"""Grants: a fleet renews a rotating token once, and a grant is for one server and principal only."""

import asyncio
import time

import httpx2
import pytest

from sojourn import Principal
from sojourn.errors import ToolUnavailable
from sojourn.oauth.endpoints import OAuthRefused
from sojourn.oauth.grants import Grant, Grants, Revocation, SignInServer
from sojourn.vault import FolderVault
from sojourn.vault.sealed import TokenVault
from tests.crypto.ring import make_ring
from tests.mcp.guarded import Guarded, guarded

ANA = Principal(subject="ana", tenant="acme", roles=["user"])
BEN = Principal(subject="ben", tenant="acme")
CALLBACK = "http://127.0.0.1:1/oauth/callback/ops.cart"


@pytest.fixture
def vault(tmp_path) -> TokenVault:
    """A vault in a folder."""
    return TokenVault(FolderVault(tmp_path / "vault"), make_ring(tmp_path / "ring.json"))


async def granted(vault: TokenVault, server: Guarded, **options: object) -> tuple[Grants, Grant]:
    """Sign ana in, and return her grant."""
    grants = Grants(vault, SignInServer("ops.cart", server.url, **options))
    begun = await grants.begin(ANA, CALLBACK)
    async with httpx2.AsyncClient() as browser:
        sent = (await browser.get(begun.authorization_url)).headers["location"]
    asked = httpx2.URL(sent).params
    _, ticket = await grants.take_code(asked["state"], code=asked["code"], iss=asked["iss"])
    await grants.complete(begun.id, ANA, ticket)
    grant = await grants.find(ANA)
    assert grant is not None
    return grants, grant


async def test_a_fleet_renews_a_rotating_token_once(vault) -> None:
    """Of twenty processes whose token is refused at the same time one renews it, and the issuer sees no refresh token twice."""
    async with guarded() as server:
        _, grant = await granted(vault, server)
        fleet = [Grants(vault, SignInServer("ops.cart", server.url)) for _ in range(20)]
        renewed = await asyncio.gather(*(each.renew(ANA, grant.token) for each in fleet))
    assert len({each.token.access_token for each in renewed if each}) == 1
    assert [each["grant_type"] for each in server.token_requests] == ["authorization_code", "refresh_token"]
    assert server.reused == 0


async def test_a_refused_renewal_deletes_only_what_was_sent(vault) -> None:
    """A process that is late with an old token does not delete the token that another one has got since."""
    async with guarded() as server:
        grants, grant = await granted(vault, server)
        renewed = await grants.renew(ANA, grant.token)
        await grants.drop(ANA, grant.token)
        assert await grants.find(ANA) == renewed
        server.refreshable.clear()
        assert await grants.renew(ANA, renewed.token) is None
        await grants.drop(ANA, renewed.token)
        assert await grants.find(ANA) is None


async def test_only_a_refused_grant_is_over(vault) -> None:
    """An issuer that does not know the client for now refuses a renewal too; the grant stays, and the call is repeated."""
    async with guarded() as server:
        grants, grant = await granted(vault, server)
        clients, server.clients = server.clients, {}
        with pytest.raises(ToolUnavailable, match="invalid_client"):
            await grants.renew(ANA, grant.token)
        server.clients = clients
        assert await grants.renew(ANA, grant.token)


async def test_a_revoked_grant_is_not_restored(vault) -> None:
    """The revocation waits for a renewal in flight, and deletes what that has kept."""
    async with guarded() as server:
        grants, grant = await granted(vault, server)
        async with vault.lock(grants.key(ANA)):
            revoking = asyncio.create_task(grants.revoke(ANA))
            done, _ = await asyncio.wait({revoking}, timeout=0.3)
            assert not done
            await grants.keep(grant)
        assert await revoking == Revocation(was_there=True, is_accepted=True)
        assert await grants.find(ANA) is None
        assert await grants.revoke(ANA) == Revocation(was_there=False)


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_client_with_a_secret_revokes_as_itself(vault, is_known) -> None:
    """The issuer accepts it by the secret; whatever the issuer says, the grant is deleted."""
    async with guarded() as server:
        server.clients["ours"] = {"client_secret": "word", "redirect_uris": [CALLBACK]}
        declared = {"client_id": "ours", "client_secret": "word", "issuer": server.origin}
        grants, _ = await granted(vault, server, **declared)
        if not is_known:
            server.clients.clear()
        assert await grants.revoke(ANA) == Revocation(was_there=True, is_accepted=is_known)
        assert bool(server.refreshable) != is_known
        assert await grants.find(ANA) is None


async def test_a_grant_counts_for_its_server_and_its_principal(vault) -> None:
    """After the toolset's address has moved to another origin, the old grant is none, and a record is no one else's."""
    async with guarded() as server:
        grants, grant = await granted(vault, server)
        moved = Grants(vault, SignInServer("ops.cart", "https://cart.example.com/mcp"))
        assert await moved.find(ANA) is None
        assert await grants.find(BEN) is None
        assert await grants.find(replace_tenant(ANA)) is None
        assert grant.token.expires_at
        assert 3_500 < grant.token.expires_at - time.time() <= 3_600


def replace_tenant(principal: Principal) -> Principal:
    return principal.model_copy(update={"tenant": "globex"})


async def test_a_client_is_registered_once_for_an_issuer(vault) -> None:
    """Each further sign-in uses the same client; one that is declared is not registered."""
    async with guarded() as server:
        await granted(vault, server)
        await granted(vault, server)
        assert len(server.registrations) == 1
        server.clients["ours"] = {"client_secret": "word", "redirect_uris": [CALLBACK]}
        declared = {"client_id": "ours", "client_secret": "word", "issuer": server.origin}
        _, grant = await granted(vault, server, **declared)
    assert grant.client.client_id == "ours"
    assert len(server.registrations) == 1


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"issuer": "https://login.example.com"}, "names another issuer"),
        ({"code_challenge_methods_supported": ["plain"]}, "does not protect codes"),
        ({"registration_endpoint": "http://10.0.0.8/register"}, "without HTTPS"),
        ({"registration_endpoint": None}, "registers no clients"),
    ],
)
async def test_no_sign_in_begins_by_metadata_that_cannot_be_trusted(vault, metadata, words) -> None:
    """It is refused before a browser is sent anywhere."""
    async with guarded() as server:
        server.metadata = metadata
        with pytest.raises(OAuthRefused, match=words):
            await Grants(vault, SignInServer("ops.cart", server.url)).begin(ANA, CALLBACK)
    assert server.registrations == []
