"""Who is let in: on real connections, by keys, functions and the place a request comes from."""

import asyncio

import pytest

from sojourn import Principal
from sojourn.http.problems import Problem
from sojourn.http.security.authentication import _is_loopback
from sojourn.http.security.principals import FirstOf


async def by_name(request):
    """The test's own authentication: the token is the subject."""
    name = request.headers.get("authorization", "").removeprefix("Bearer ")
    return Principal(subject=name, tenant="acme", roles=["user"]) if name else None


async def test_without_authentication_this_machine_is_let_in(serve_web):
    """Whoever is on the machine asks as `local`, with every role."""
    client = await serve_web()
    answer = await client.get("/who")
    assert answer.json() == {
        "subject": "local",
        "tenant": "",
        "roles": ["viewer", "user", "approver", "operator"],
    }


@pytest.mark.parametrize(
    "header",
    [
        "Forwarded",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "X-Forwarded-Proto",
        "X-Real-IP",
        "Via",
        "CF-Connecting-IP",
        "True-Client-IP",
        "X-Envoy-External-Address",
        "X-Amzn-Trace-Id",
    ],
)
async def test_without_authentication_nobody_is_let_in_through_a_proxy(serve_web, header):
    """A tunnel or proxy that ends on the machine is not the machine."""
    client = await serve_web()
    answer = await client.get("/who", headers={header: "for=127.0.0.1"})
    assert answer.status_code == 403
    assert answer.json()["code"] == "local_only"
    assert "sojourn keys create" in answer.json()["then"]


def test_the_addresses_of_this_machine() -> None:
    """Only loopback addresses are this machine; a name is none."""
    rows = [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::1%lo", True),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("0.0.0.0", False),
        ("localhost.example.org", False),
        ("testclient", False),
        ("", False),
    ]
    assert [(host, found) for host, expected in rows if (found := _is_loopback(host)) is not expected] == []


async def test_a_request_without_credentials_is_refused(serve_web):
    """It is answered with 401, what to send, and nothing of the route; the open paths need none."""
    client = await serve_web(auth=by_name)
    answer = await client.get("/who")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "unauthenticated"
    assert (await client.get("/nothing")).status_code == 401, "not even whether there is a route"
    assert (await client.options("/who")).status_code == 401
    assert (await client.get("/health")).json() == "ok"
    assert (await client.get("/openapi.json")).status_code == 200
    assert (await client.post("/health")).status_code == 401
    assert (await client.get("/health/../who")).status_code == 401
    assert (await client.get("//health")).status_code == 401


async def test_the_route_learns_who_asks(serve_web):
    """The principal of a route is the one that the authentication has found."""
    client = await serve_web(auth=by_name)
    answer = await client.get("/who", headers={"Authorization": "Bearer ana"})
    assert answer.json() == {"subject": "ana", "tenant": "acme", "roles": ["user"]}


async def test_two_credentials_are_none(serve_web):
    """A request with several Authorization headers is refused: a proxy and the service might each read another."""
    client = await serve_web(auth=by_name)
    answer = await client.get(
        "/who", headers=[("Authorization", "Bearer ana"), ("Authorization", "Bearer bo")]
    )
    assert answer.status_code == 400


@pytest.mark.parametrize(
    "found",
    [
        RuntimeError("password=7"),
        Principal(subject="a\nb"),
        Principal(subject=""),
        Principal(subject="a", tenant="'"),
    ],
    ids=["raises", "a line break", "nobody", "a quote"],
)
async def test_an_authentication_that_fails_lets_nobody_in(serve_web, found):
    """A function that raises, or finds somebody who cannot be, is answered with 500 and not a word of why."""

    async def broken(_request):
        if isinstance(found, Exception):
            raise found
        return found

    client = await serve_web(auth=broken)
    answer = await client.get("/who")
    assert answer.status_code == 500
    assert answer.json()["code"] == "internal_error"
    assert "password" not in answer.text
    assert "Traceback" not in answer.text


async def test_an_authentication_sees_no_body(serve_web):
    """It decides by the headers: the body of a stranger is not read."""

    async def reads(request):
        await request.body()
        return Principal(subject="ana")

    client = await serve_web(auth=reads)
    assert (await client.post("/echo", json={})).status_code == 500


async def test_the_first_that_knows_decides(serve_web):
    """Of several ways the first that knows the sender counts; where one has said why not, that is the answer."""

    async def never(_request):
        return None

    async def expired(request):
        if request.headers.get("authorization") == "Bearer old":
            raise Problem(401, "unauthenticated", "the token has expired", then="Get another.")

    client = await serve_web(auth=FirstOf(never, expired, lambda request: asyncio.sleep(0, None)))
    assert (await client.get("/who")).json()["detail"] == "the request has no valid credentials"
    old = await client.get("/who", headers={"Authorization": "Bearer old"})
    assert old.json()["detail"] == "the token has expired"
    client = await serve_web(auth=FirstOf(expired, by_name))
    assert (await client.get("/who", headers={"Authorization": "Bearer old"})).json()["subject"] == "old"


@pytest.mark.parametrize(
    ("has", "may"),
    [
        ([], set()),
        (["auditor"], set()),
        (["viewer"], {"viewer"}),
        (["user"], {"viewer", "user"}),
        (["approver"], {"viewer", "approver"}),
        (["operator"], {"viewer", "operator"}),
        (["user", "operator", "auditor"], {"viewer", "user", "operator"}),
    ],
)
async def test_a_role_opens_what_it_says(serve_web, has, may):
    """Each role allows its own, and every one of them reading; roles of tools allow nothing."""

    async def somebody(_request):
        return Principal(subject="ana", roles=has)

    client = await serve_web(auth=somebody)
    allowed = set()
    for role in ("viewer", "user", "approver", "operator"):
        answer = await client.get(f"/as/{role}")
        if answer.status_code == 200:
            allowed.add(role)
        else:
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
            assert role in answer.json()["then"]
    assert allowed == may


async def test_a_route_without_locks_serves_nobody(serve_web):
    """An application that was put together without the locks answers with 500, and never as somebody."""
    from tests.http.security.conftest import make_web

    web = make_web()
    web.user_middleware.clear()
    client = await serve_web(web)
    assert (await client.get("/who")).status_code == 500


async def test_no_stack_trace_is_sent(serve_web):
    """A route that fails is answered with a problem that says nothing of what is inside."""
    client = await serve_web()
    answer = await client.get("/boom")
    assert answer.status_code == 500
    assert answer.json()["code"] == "internal_error"
    assert "secret" not in answer.text
    assert "RuntimeError" not in answer.text


async def test_the_locks_are_in_the_openapi_document(serve_web):
    """The document says that requests have a bearer."""
    client = await serve_web()
    document = (await client.get("/openapi.json")).json()
    assert document["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
    assert document["paths"]["/who"]["get"]["security"] == [{"HTTPBearer": []}]


async def test_there_are_no_websockets(serve_web):
    """A websocket is closed before anything is said on it."""
    from tests.http.security.conftest import make_web

    sent = []

    async def send(message):
        sent.append(message)

    await make_web()({"type": "websocket", "path": "/who", "headers": []}, None, send)
    assert [message["type"] for message in sent] == ["websocket.close"]
