"""Presence: who is let in is looked at again while a stream lasts, where that is safe; who is not loses the stream, and the next request."""

import asyncio
import time

import httpx2
import pytest
from fastapi import FastAPI, Request
from joserfc.jwt import JWTClaimsRegistry

from sojourn import Principal
from sojourn.console.site import ConsoleSite
from sojourn.http import ApiKeys, FirstOf, Oidc
from sojourn.http.security import disconnect
from sojourn.http.security.keys import create_key, revoke_key
from sojourn.http.security.middleware import SecurityMiddleware
from tests.http.security.issuer import bearer, issuer

__all__ = ["issuer"]


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Look again after a moment."""
    monkeypatch.setattr(disconnect, "RECHECK", 0.1)


async def cut(client: httpx2.AsyncClient, headers: dict[str, str], *, after: int = 0, then=None) -> int:
    """Read a stream until it is cut; `then` is called after so many lines. Return how many it had; one that goes on fails."""
    count = 0
    try:
        async with asyncio.timeout(60), client.stream("GET", "/events", headers=headers) as answer:
            assert answer.status_code == 200
            async for _ in answer.aiter_lines():
                count += 1
                if count == after and then:
                    then()
    except httpx2.RemoteProtocolError:
        return count
    raise AssertionError("the stream has an end")


async def goes_on(client: httpx2.AsyncClient, headers: dict[str, str], seconds: float = 1.0) -> None:
    """Read a stream for a while."""
    began = time.monotonic()
    async with client.stream("GET", "/events", headers=headers) as answer:
        async for _ in answer.aiter_lines():
            if time.monotonic() - began > seconds:
                return
    raise AssertionError("the stream has ended")


async def test_a_stream_ends_with_its_key(tmp_path, serve_web):
    """One whose key is revoked is cut soon after, and its client is refused when it comes back; that of another key goes on."""
    path = tmp_path / "keys.json"
    _, ana = create_key(path, "ana", roles=["user"])
    _, bo = create_key(path, "bo", roles=["user"])
    client = await serve_web(auth=ApiKeys(path))
    other = asyncio.create_task(goes_on(client, bearer(bo), 3))
    assert await cut(client, bearer(ana), after=8, then=lambda: revoke_key(path, "ana")) >= 8
    assert (await client.get("/events", headers=bearer(ana))).status_code == 401
    await other


async def test_a_stream_ends_with_its_token(issuer, serve_web, monkeypatch):
    """One whose token expires is cut soon after; one whose token is good goes on, and asks the issuer for nothing more."""
    clock = [int(time.time())]
    monkeypatch.setattr(JWTClaimsRegistry, "now", property(lambda _: clock[-1]))
    client = await serve_web(auth=Oidc(issuer.url, "sojourn", leeway=0))
    short = bearer(issuer.token(iat=clock[0], exp=clock[0] + 60))
    other = asyncio.create_task(goes_on(client, bearer(issuer.token(iat=clock[0])), 3))
    assert await cut(client, short, after=8, then=lambda: clock.append(clock[0] + 61)) >= 8
    assert (await client.get("/events", headers=short)).status_code == 401
    await other
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]


class Own:
    """An authentication of the test's own, which counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self, request) -> Principal | None:
        self.asked += 1
        name = request.headers.get("authorization", "").removeprefix("Bearer ")
        return Principal(subject=name, roles=["user"]) if name else None


class Again(Own):
    """One that may be asked again."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = list[bool | Exception]()

    async def still_lets_in(self, request, asking) -> bool:
        assert asking == await self(request)
        found = self.answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


async def test_a_function_of_ones_own_is_asked_once(serve_web):
    """It may count, or take a credential that is good for once; so its streams go on, also where another way is asked with it."""
    for several in (False, True):
        own = Own()
        client = await serve_web(auth=FirstOf(own) if several else own)
        await goes_on(client, bearer("ana"))
        assert own.asked == 1


@pytest.mark.parametrize("last", [False, RuntimeError("the store is away")])
async def test_one_that_may_be_asked_again_is(serve_web, last):
    """Its streams go on while it says so, and end where it does not, or cannot say; the request is the one that was let in."""
    own = Again()
    own.answers = [True, True, last]
    client = await serve_web(auth=own)
    await cut(client, bearer("ana"))
    assert (own.answers, own.asked) == ([], 4)


async def test_of_several_ways_the_one_that_let_in_is_asked(tmp_path, serve_web):
    """The key of a stream is looked at again, though a function of ones own beside it would let the same text in."""
    path = tmp_path / "keys.json"
    _, ana = create_key(path, "ana", roles=["user"])
    own = Own()
    client = await serve_web(auth=FirstOf(FirstOf(ApiKeys(path)), own))
    await cut(client, bearer(ana), after=3, then=lambda: revoke_key(path, "ana"))
    assert own.asked == 0
    await goes_on(client, bearer("bo"))
    assert own.asked == 1


async def test_an_ordinary_request_is_not_looked_at_again(tmp_path, serve_web):
    """A request that is answered, and not by a stream, is judged once, when it comes."""
    own = Again()
    client = await serve_web(auth=own)
    assert (await client.get("/who", headers=bearer("ana"))).status_code == 200
    assert own.asked == 1


async def test_an_application_that_looks_whether_its_client_is_there_sees_that_it_has_left(serve_web, until):
    """Starlette's `is_disconnected` says so behind the locks too, while the sender of the request is looked at again."""
    own, seen = Again(), list[bool]()
    own.answers = [True] * 1_000
    web = FastAPI()
    web.add_middleware(SecurityMiddleware, auth=own)

    @web.get("/looks")
    async def looks(request: Request) -> None:
        while not seen or not seen[-1]:
            seen.append(await request.is_disconnected())
            await asyncio.sleep(0.01)

    client = await serve_web(web)
    with pytest.raises(httpx2.ReadTimeout):
        await client.get("/looks", headers=bearer("ana"), timeout=0.5)
    await until(lambda: seen[-1])
    assert seen.count(False) > 10


@pytest.mark.parametrize("several", [False, True], ids=["alone", "first of"])
async def test_a_page_with_a_cookie_lives_as_long_as_its_key(tmp_path, serve_web, several):
    """Who was let in by the cookie of a page is asked about with it: the page of a good key lives on, that of a revoked one is cut."""
    path = tmp_path / "keys.json"
    _, ana = create_key(path, "ana", roles=["user"])
    _, bo = create_key(path, "bo", roles=["user"])
    keys = ApiKeys(path)
    client = await serve_web(auth=FirstOf(keys) if several else keys, site=ConsoleSite("", {"events"}))
    cookies = [{"Cookie": f"sojourn_key_{client.base_url.port}={key}"} for key in (ana, bo)]
    other = asyncio.create_task(goes_on(client, cookies[1], 2))
    assert await cut(client, cookies[0], after=8, then=lambda: revoke_key(path, "ana")) >= 8
    await other
