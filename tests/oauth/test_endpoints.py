"""Endpoints: what a server's metadata may make the deployment ask, and how much it reads."""

import gzip

import pytest
from starlette.applications import Starlette
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from sojourn.errors import ToolUnavailable
from sojourn.oauth.endpoints import MAX_BYTES, Endpoints, OAuthRefused
from tests.http.conftest import listening

PACKED = gzip.compress(b" " * 10_000_000)
"""Under the limit as sent, and 40 times over it as read."""

FAR, NEAR = "https://93.184.216.34/mcp", "http://127.0.0.1:8000/mcp"


@pytest.mark.parametrize(
    ("server", "url", "words"),
    [
        (FAR, "http://169.254.169.254/latest/meta-data", "private network"),
        (FAR, "https://10.0.0.8/token", "private network"),
        (FAR, "https://localhost/token", "private network"),
        (FAR, "https://vault.internal/token", "private network"),
        (FAR, "https://[::1]/token", "private network"),
        (FAR, "http://93.184.216.35/token", "without HTTPS"),
        (NEAR, "http://10.0.0.8/token", "without HTTPS"),
        (FAR, "ftp://93.184.216.35/token", "no web address"),
        (FAR, "https://user:word@93.184.216.35/token", "no web address"),
        (FAR, "https://[::1/token", "no web address"),
        (FAR, f"https://{'a' * 70}.example.com/token", "no web address"),
        (FAR, "https://a..example.com/token", "no web address"),
        (FAR, "https://example.com/\x00", "no web address"),
        (FAR, "https://[64:ff9b::a00:8]/token", "private network"),
        (FAR, "https://[2002:a00:8::1]/token", "private network"),
        (FAR, "https://93.184.216.35/token", None),
        (NEAR, "http://127.0.0.1:9000/token", None),
        (NEAR, "https://10.0.0.8/token", None),
    ],
)
async def test_metadata_cannot_aim_requests_at_the_network_inside(server, url, words) -> None:
    """A public server names public addresses by HTTPS only; one of a private network also those beside it."""
    if words is None:
        await Endpoints(server).check(url)
        return
    with pytest.raises(OAuthRefused, match=words):
        await Endpoints(server).check(url)


async def test_an_answer_is_bounded_and_never_redirects() -> None:
    """Too large an answer is refused, a redirect is an answer that is no metadata, and HTTP 503 is for now only."""
    web = Starlette(
        routes=[
            Route("/large", lambda _: Response(b" " * (MAX_BYTES + 1))),
            Route("/packed", lambda _: Response(PACKED, headers={"content-encoding": "gzip"})),
            Route("/away", lambda _: RedirectResponse("/large")),
            Route("/busy", lambda _: Response(status_code=503, headers={"retry-after": "7"})),
        ]
    )
    async with listening(web) as origin:
        endpoints = Endpoints(f"{origin}/mcp")
        with pytest.raises(OAuthRefused, match="compressed"):
            await endpoints.get(f"{origin}/packed")
        with pytest.raises(OAuthRefused, match="too large"):
            await endpoints.get(f"{origin}/large")
        assert (await endpoints.get(f"{origin}/away")).status == 307
        with pytest.raises(ToolUnavailable, match="answers HTTP 503") as raised:
            await endpoints.get(f"{origin}/busy")
        assert raised.value.retry_after.total_seconds() == 7
    with pytest.raises(ToolUnavailable, match="cannot be reached"):
        await endpoints.get(f"{origin}/large")
