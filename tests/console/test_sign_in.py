"""Signing in: a key opens the pages by a cookie, which opens nothing else, and nothing once the key is revoked."""

import pytest
from playwright.async_api import expect

from sojourn import Client
from sojourn.asgi import create_app
from sojourn.http import ApiKeys
from sojourn.http.security.keys import create_key, revoke_key
from sojourn.network import http_client
from tests.http.conftest import listening


@pytest.fixture
async def locked(shop, temporal_address, tmp_path):
    """A console that lets in by keys: its URL, the file, and a key."""
    path = tmp_path / "keys.json"
    _, key = create_key(path, "ana", roles=["viewer"])
    web = create_app(shop.app, client=await Client.connect(temporal_address), auth=ApiKeys(path))
    async with listening(web) as url:
        yield url, path, key


@pytest.mark.parametrize("script", [True, False])
async def test_a_key_opens_the_page_that_was_asked_for(locked, visit, script):
    """Who has not signed in is asked for a key, and then gets the page; a wrong key is told as one."""
    url, _, key = locked
    page = await visit(f"{url}/runs?status=failed", script=script)
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    await page.get_by_label("Key or token").fill("sojourn_wrong")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert")).to_contain_text("is not valid here")
    await page.get_by_label("Key or token").fill(key)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page).to_have_url(f"{url}/runs?status=failed")
    (cookie,) = await page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
    await page.locator("details.menu summary").click()
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert await page.context.cookies() == []


async def test_a_revoked_key_opens_no_page_any_more(locked, visit):
    """The next request of a page is asked for a key again."""
    url, path, key = locked
    page = await visit(f"{url}/sign-in", script=False)
    await page.get_by_label("Key or token").fill(key)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page).to_have_url(f"{url}/")
    revoke_key(path, "ana")
    await page.reload()
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


async def test_the_cookie_opens_pages_and_nothing_else(locked):
    """The API knows no cookie, and a form needs to come from a page of this service, cookie or not."""
    url, _, key = locked
    origin = {"Origin": url}
    async with http_client(base_url=url) as http:
        answer = await http.post("/sign-in", data={"key": key, "next": "//elsewhere.invalid"}, headers=origin)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert (await http.get("/runs")).status_code == 200
        assert (await http.get("/v1/runs")).status_code == 401
        for headers in ({}, {"Origin": "null"}, {"Origin": "https://elsewhere.invalid"}):
            answer = await http.post("/sign-out", headers=headers)
            assert (answer.status_code, "may not" in answer.text) == (403, True), headers


async def test_every_page_has_the_strict_policy(locked):
    """Pages, files and refusals say that nothing runs, loads or is sent but what is of this service."""
    url, _, _ = locked
    async with http_client(base_url=url) as http:
        for path in ("/", "/runs", "/sign-in", "/static/console.js", "/static/none.js"):
            answer = await http.get(path)
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'; script-src 'self'; style-src 'self';" in policy
            assert "unsafe" not in policy
            assert answer.headers["referrer-policy"] == "same-origin"
            assert (await http.get("/v1/runs")).headers["content-security-policy"].endswith("sandbox")
