"""The cookie of the console: which name it has, and which one counts, by how the browser asks."""

import pytest
from starlette.requests import Request
from starlette.responses import Response

from sojourn.console.cookie import forget, keep, key_of

KEY = "sojourn_0a1b_secret"


def scope(*, cookie: str = "", scheme: str = "http", host: str = "agents.example.org", **headers: str):
    """A request."""
    named = {"host": host, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return {
        "type": "http",
        "method": "POST",
        "path": "/sign-in",
        "query_string": b"",
        "scheme": scheme,
        "headers": [(name.encode(), value.encode()) for name, value in named.items()],
        "sojourn.cookies": [cookie.encode()],
    }


def test_by_https_a_browser_takes_the_cookie_from_this_host_alone(subtests: pytest.Subtests) -> None:
    """The prefix makes the browser refuse one that a sibling domain sets; it needs Secure, and `__Host-` the path `/` and no domain."""
    rows = [
        ({"scheme": "https"}, "", "__Host-sojourn_key="),
        ({"origin": "https://agents.example.org"}, "", "__Host-sojourn_key="),
        ({"origin": "https://agents.example.org"}, "/desk", "__Secure-sojourn_key="),
        ({"origin": "http://agents.internal:8460", "host": "agents.internal:8460"}, "", "sojourn_key_8460="),
        ({"host": "127.0.0.1:8460"}, "", "sojourn_key_8460="),
    ]
    for asked, base, begin in rows:
        with subtests.test(asked=asked, base=base, begin=begin):
            answer = Response()
            keep(answer, Request(scope(**asked)), base, KEY)
            told = answer.headers["set-cookie"]
            assert told.startswith(begin + KEY)
            assert (f"path={base}/;" in told.lower() + ";", "domain" in told.lower()) == (True, False)
            assert ("secure" in told.lower().split("; ")) is begin.startswith("__")


def test_neither_a_script_nor_another_site_has_the_cookie():
    """The browser shows the cookie to no script and sends it with no request of another site; and forgets the one that it was given."""
    kept, forgotten = Response(), Response()
    keep(kept, Request(scope(scheme="https")), "", KEY)
    forget(forgotten, Request(scope(scheme="https")), "")
    for answer in (kept, forgotten):
        told = answer.headers["set-cookie"].lower()
        assert told.startswith("__host-sojourn_key=")
        assert {"httponly", "samesite=strict", "secure"} <= {*told.split("; ")}
    assert "max-age=0" in forgotten.headers["set-cookie"].lower()


def test_which_cookie_counts() -> None:
    """Where the browser asks by TLS, which it shows, only the one with the prefix; of two of a name none; and only what can be a key."""
    rows = [
        ({"scheme": "https", "cookie": f"__Host-sojourn_key={KEY}"}, KEY),
        ({"scheme": "https", "cookie": f"__Secure-sojourn_key={KEY}"}, ""),
        ({"scheme": "https", "cookie": f"sojourn_key={KEY}"}, ""),
        ({"origin": "https://agents.example.org", "cookie": f"sojourn_key={KEY}"}, ""),
        ({"sec_fetch_site": "none", "cookie": f"sojourn_key={KEY}"}, ""),
        ({"sec_fetch_site": "none", "cookie": f"sojourn_key={KEY}; __Host-sojourn_key=mine"}, "mine"),
        ({"cookie": f"sojourn_key={KEY}"}, KEY),
        ({"host": "localhost:1", "sec_fetch_site": "none", "cookie": f"sojourn_key_1={KEY}"}, KEY),
        ({"host": "127.0.0.1:1", "sec_fetch_site": "none", "cookie": f"sojourn_key_1={KEY}"}, KEY),
        ({"host": "[::1]:1", "sec_fetch_site": "none", "cookie": f"sojourn_key_1={KEY}"}, KEY),
        ({"cookie": f"sojourn_key={KEY}; sojourn_key=another"}, ""),
        ({"cookie": 'sojourn_key="quoted"'}, ""),
        ({"cookie": f"sojourn_key={'a' * 4_000}"}, ""),
        ({"cookie": "sojourn_key=a\x7fb"}, ""),
    ]
    assert [(asked, actual) for asked, found in rows if (actual := key_of(scope(**asked), "")) != found] == []
