"""Hosts: a request for another name, or from the page of another site, is refused; and answers are data to a browser."""

import re

import pytest

from sojourn import Principal
from sojourn.errors import DefinitionError
from sojourn.http.security.headers import OriginCheck
from sojourn.http.security.middleware import SecuritySettings


async def ana(_request):
    return Principal(subject="ana", roles=["user"])


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8460", "127.0.0.1", "[::1]:8460", "LOCALHOST", "localhost."]
)
async def test_without_authentication_this_machines_names_are_answered(serve_web, host):
    """Its usual names, with any port."""
    client = await serve_web()
    assert (await client.get("/who", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "0.0.0.0", "[::2]"],
)
async def test_a_rebound_name_is_refused(serve_web, host):
    """A page whose name was made to point to this machine gets nothing from the service, not even its health."""
    client = await serve_web()
    for path in ("/who", "/health"):
        answer = await client.get(path, headers={"Host": host})
        assert (answer.status_code, answer.json()["code"]) == (421, "unknown_host")


@pytest.mark.parametrize(
    "host", ["", "a b", "user@localhost", "localhost:99999999", "localhost/x", "localhost#", "ä"]
)
async def test_a_broken_host_is_refused(serve_web, host):
    """What is no name is refused, with authentication too."""
    client = await serve_web(auth=ana)
    answer = await client.get("/who", headers=[(b"Host", host.encode("latin-1"))])
    assert answer.status_code == 400


async def test_named_hosts_are_answered_and_no_others(serve_web):
    """With authentication every name is answered, until some are named; a star stands for all below a name."""
    client = await serve_web(auth=ana)
    assert (await client.get("/who", headers={"Host": "any.example"})).status_code == 200
    client = await serve_web(
        auth=ana, settings=SecuritySettings(hosts=["api.example.org", "*.tenants.example.org"])
    )
    for host, status in (
        ("api.example.org", 200),
        ("API.example.org:443", 200),
        ("acme.tenants.example.org", 200),
        ("a.b.tenants.example.org", 200),
        ("tenants.example.org", 421),
        ("eviltenants.example.org", 421),
        ("api.example.org.evil.example", 421),
        ("localhost", 421),
    ):
        assert (await client.get("/who", headers={"Host": host})).status_code == status, host
    local = await serve_web(settings=SecuritySettings(hosts=["sojourn.internal"]))
    for host in ("sojourn.internal", "localhost"):
        assert (await local.get("/who", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({}, 200, id="no browser"),
        pytest.param({"Origin": "http://localhost:8460"}, 200, id="its own page"),
        pytest.param({"Origin": "HTTP://LOCALHOST:8460"}, 200, id="in capitals"),
        pytest.param({"Origin": "http://localhost:3000"}, 403, id="another port"),
        pytest.param({"Origin": "http://evil.example"}, 403, id="another site"),
        pytest.param({"Origin": "null"}, 403, id="a sandboxed page"),
        pytest.param({"Origin": ""}, 403, id="empty"),
        pytest.param({"Origin": "file://"}, 403, id="a file"),
        pytest.param({"Origin": "http://localhost:8460.evil.example"}, 403, id="a longer name"),
        pytest.param({"Origin": "http://evil.example@localhost:8460"}, 403, id="with a user"),
        pytest.param({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403, id="embedded"),
        pytest.param({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403, id="a sister site"),
        pytest.param({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200, id="a link"),
        pytest.param({"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}, 200, id="the same origin"),
    ],
)
async def test_pages_of_other_origins_are_refused(serve_web, headers, status):
    """Nothing runs that a page of another site asks for, whatever the method."""
    client = await serve_web()
    for method in ("GET", "POST"):
        answer = await client.request(
            method, "/who" if method == "GET" else "/decide", headers={"Host": "localhost:8460", **headers}
        )
        assert answer.status_code == status
        assert "access-control-allow-origin" not in answer.headers


async def test_two_origins_are_refused(serve_web):
    """A request with two origins has none that can be trusted."""
    client = await serve_web(settings=SecuritySettings(origins=["https://app.example.org"]))
    headers = [("Origin", "https://app.example.org"), ("Origin", "https://evil.example")]
    assert (await client.get("/who", headers=headers)).status_code == 403


async def test_tls_that_ends_before_the_service_is_its_own_page(serve_web):
    """Behind a proxy the page has https and the service is asked by http: names and ports decide."""
    client = await serve_web(auth=ana)
    headers = {"Host": "api.example.org", "Origin": "https://api.example.org"}
    assert (await client.get("/who", headers=headers)).status_code == 200
    headers = {"Host": "api.example.org:443", "Origin": "https://api.example.org"}
    assert (await client.get("/who", headers=headers)).status_code == 200
    headers = {"Host": "api.example.org", "Origin": "https://api.example.org:8443"}
    assert (await client.get("/who", headers=headers)).status_code == 403


async def test_a_named_origin_may_use_the_service(serve_web):
    """Its browsers are told so, before the request and with every answer, refusals too; other origins are not."""
    client = await serve_web(auth=ana, settings=SecuritySettings(origins=["https://app.example.org:443/"]))
    asks = {
        "Origin": "https://app.example.org",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, content-type, last-event-id",
    }
    before = await client.options("/decide", headers=asks)
    assert before.status_code == 200
    assert before.headers["access-control-allow-origin"] == "https://app.example.org"
    assert "authorization" in before.headers["access-control-allow-headers"].lower()
    assert "access-control-allow-credentials" not in before.headers
    for path, status in (("/who", 200), ("/nothing", 404)):
        answer = await client.get(path, headers={"Origin": "https://app.example.org"})
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == "https://app.example.org"
        assert "Origin" in answer.headers["vary"]
    evil = await client.options("/decide", headers={**asks, "Origin": "https://evil.example"})
    assert evil.status_code == 403
    assert "access-control-allow-origin" not in evil.headers


async def test_pages_send_what_clients_of_the_protocols_do(serve_web):
    """The headers of A2A, MCP, OpenAI and streams may be sent by a named origin's pages; any other is refused as a problem."""
    client = await serve_web(auth=ana, settings=SecuritySettings(origins=["https://app.example.org"]))

    async def ask(names: str, method: str = "POST"):
        headers = {
            "Origin": "https://app.example.org",
            "Access-Control-Request-Method": method,
            "Access-Control-Request-Headers": names,
        }
        return await client.options("/decide", headers=headers)

    for names in (
        "a2a-version,a2a-extensions,authorization,content-type",
        "mcp-method,mcp-name,mcp-param-city,mcp-protocol-version,mcp-session-id",
        "x-stainless-lang,x-stainless-retry-count,openai-organization,user-agent",
        "cache-control,idempotency-key,last-event-id",
    ):
        answer = await ask(names)
        assert answer.status_code == 200, answer.text
        assert answer.headers["access-control-allow-headers"] == names
    for names, method in (
        ("x-forwarded-for", "POST"),
        ("authorization, x-verified-user", "POST"),
        ("accept", "PUT"),
    ):
        answer = await ask(names, method)
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
        assert answer.headers["content-type"] == "application/problem+json"
        assert "access-control-allow-headers" not in answer.headers


async def test_pages_read_the_headers_that_the_pages_name(serve_web):
    """What clients are told to read is exposed to the pages of a named origin."""
    client = await serve_web(auth=ana, settings=SecuritySettings(origins=["https://app.example.org"]))
    answer = await client.get("/who", headers={"Origin": "https://app.example.org"})
    exposed = answer.headers["access-control-expose-headers"].lower().split(", ")
    assert {"sojourn-cursor", "link", "retry-after", "www-authenticate", "allow"} <= set(exposed)


async def test_refusals_name_the_options(serve_web):
    """What is refused for its host or its origin names the option of the command line, and that of a program."""
    client = await serve_web()
    for headers, words in (
        ({"Host": "evil.example"}, ("--allow-host", "hosts=")),
        ({"Host": "localhost", "Origin": "http://evil.example"}, ("--allow-origin", "origins=")),
        ({"Host": "localhost", "X-Forwarded-For": "10.0.0.7"}, ("--keys", "--oidc-issuer")),
    ):
        then = (await client.get("/who", headers=headers)).json()["then"]
        assert all(word in then for word in words), then


def test_what_is_no_origin_cannot_be_named(subtests: pytest.Subtests) -> None:
    """A star above all: who may use the service is named one by one."""
    rows = ["*", "null", "app.example.org", "https://", "https://a/b", "ftp://a", "https://u@a"]
    for origin in rows:
        with (
            subtests.test(origin=origin),
            pytest.raises(DefinitionError, match=re.escape(repr(origin))),
        ):
            OriginCheck(None, origins=[origin], is_authenticated=True)


async def test_answers_are_data_to_a_browser(serve_web):
    """Every answer has the headers that keep a browser from running, framing, guessing or keeping it; refusals too."""
    client = await serve_web()
    for path, headers in (("/who", {}), ("/html", {}), ("/nothing", {}), ("/who", {"Host": "evil.example"})):
        answer = await client.get(path, headers=headers)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert "sandbox" in answer.headers["content-security-policy"]
    page = await client.get("/docs")
    assert page.headers["content-security-policy"] == "frame-ancestors 'none'"
