"""Heads: what comes before the body is bounded before anything parses it, and no route gets a cookie."""

import time

import pytest

from sojourn import Principal
from sojourn.http.security import headers

SLOW = '"' + '\\"' * 7_900 + '"'
"""A cookie that `http.cookies` of Python before 3.11.10 unquotes in the square of its length."""


async def by_session(request):
    """An author's own authentication, which reads a cookie."""
    name = request.cookies.get("session", "")
    return Principal(subject=name, roles=["user"]) if name else None


def spy(monkeypatch) -> list[str]:
    """What is parsed as cookies from now on."""
    parsed = list[str]()

    def parse(text):
        parsed.append(text)
        return {}

    monkeypatch.setattr("starlette.requests.cookie_parser", parse)
    return parsed


@pytest.mark.parametrize("path", ["/health", "/who", "/nothing", "/openapi.json", "/html"])
async def test_no_route_parses_a_cookie(serve_web, monkeypatch, path):
    """FastAPI parses the cookies of every request to a route of it; behind the locks there are none, whether the path is open or not."""
    parsed = spy(monkeypatch)
    client = await serve_web()
    assert (await client.get(path, headers={"Cookie": f"a={SLOW}"})).status_code in (200, 404)
    assert parsed == []


async def test_an_authentication_of_ones_own_gets_cookies_within_a_bound(serve_web):
    """A function that reads a cookie finds it, one of 16 KB too; above that the request is refused before the function is asked."""
    client = await serve_web(auth=by_session)
    assert (await client.get("/who", headers={"Cookie": "session=ana"})).json()["subject"] == "ana"
    two = [("Cookie", "a=b"), ("Cookie", "session=bo; c=d")]
    assert (await client.get("/who", headers=two)).json()["subject"] == "bo"
    padded = {"Cookie": f"session=ana; a={'b' * (headers.MAX_COOKIES - 30)}"}
    assert (await client.get("/who", headers=padded)).json()["subject"] == "ana"
    answer = await client.get("/who", headers={"Cookie": f"session=ana; a={'b' * headers.MAX_COOKIES}"})
    assert (answer.status_code, answer.json()["code"]) == (431, "head_too_large")


@pytest.mark.parametrize(
    ("scope", "fits"),
    [
        ({"path": "/v1/runs", "query_string": b"a" * 60_000}, True),
        ({"path": "/v1/runs", "query_string": b"a" * 66_000}, False),
        ({"path": "/v1/runs/r/events", "query_string": b"a" * 256_000}, True),
        ({"path": "/v1/runs/r/events", "headers": [(b"last-event-id", b"a" * 256_000)]}, True),
        ({"path": "/v1/runs/r/events", "headers": [(b"x-other", b"a" * 66_000)]}, False),
        ({"path": "/v1/runs/r/events", "method": "POST", "query_string": b"a" * 66_000}, False),
        ({"path": "/v1/runs", "headers": [(b"x-other", b"a" * 66_000)]}, False),
        ({"path": "/v1/runs", "headers": [(b"cookie", b"a" * 16_385)]}, False),
        ({"path": "/v1/runs", "headers": [(b"cookie", b"a" * 9_000)] * 2}, False),
    ],
)
async def test_what_a_head_may_have(scope, fits):
    """The bound is the same for a server that has none of its own, such as uvicorn with httptools."""
    statuses = list[int]()

    async def app(scope, receive, send):
        statuses.append(200)
        assert all(name != b"cookie" for name, _ in scope["headers"])

    async def send(message):
        statuses.append(message.get("status", 0))

    plain = {"type": "http", "method": "GET", "headers": [], "query_string": b"", "raw_path": b"/"}
    await headers.HeaderLimits(app)({**plain, **scope}, None, send)
    assert statuses[0] == (200 if fits else 431)


def test_one_cookie_is_read_as_it_was_sent(subtests: pytest.Subtests) -> None:
    """Nothing is unquoted, and of two of a name neither counts: a sibling domain may have set one."""
    rows = [
        ([b"k=v"], "v"),
        ([b"a=b; k=v ; c=d"], "v"),
        ([b"a=b", b"k=v"], "v"),
        ([b'k="v\\"w"'], '"v\\"w"'),
        ([b"k=v; k=w"], ""),
        ([b"k"], ""),
        ([b"K=v"], ""),
        ([], ""),
    ]
    for sent, found in rows:
        with subtests.test(sent=sent, found=found):
            assert headers.cookie_of({"sojourn.cookies": sent}, "k") == found


def test_a_cookie_is_read_in_linear_time():
    """The quoted cookie that takes `http.cookies` minutes is read at once."""
    began = time.process_time()
    headers.cookie_of({"sojourn.cookies": [b'k="' + b'\\"' * 150_000 + b'"']}, "k")
    assert time.process_time() - began < 5
