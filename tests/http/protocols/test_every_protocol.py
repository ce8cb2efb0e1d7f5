"""The table of the protocols in `every_protocol.py` has every route that the service has for them."""

from fastapi.routing import iter_route_contexts

from sojourn.http.app import create_api
from tests.http.every_protocol import PROTOCOLS, READING, say

OWN = ("/v1/", "/codec/", "/oauth/", "/health", "/metrics", "/openapi.json")
"""Paths of the API itself."""


def test_every_route_of_a_protocol_is_in_the_table(shop):
    """A route that takes a message has a row, from which the tests of all protocols send it; others only read."""
    contexts = iter_route_contexts(create_api(shop.app).routes)
    routes = {f"{each} {context.path_format}" for context in contexts for each in context.methods or ()}
    of_protocols = {
        each
        for each in routes
        if not each.startswith(("HEAD ", "OPTIONS ")) and not each.partition(" ")[2].startswith(OWN)
    }
    rows = {each.route for name, each in PROTOCOLS.items() if name != "message"}
    assert of_protocols == rows | READING
    assert PROTOCOLS["message"].route in routes


async def test_no_proxy_holds_a_stream_back(served):
    """Each answer that is a stream forbids proxies to buffer it, whichever protocol it is of."""
    streams = set()
    for name in PROTOCOLS:
        method, path, headers, body = say(name, "hello")
        answer = await served.http.request(method, path, headers=headers, json=body)
        if answer.headers["content-type"].startswith("text/event-stream"):
            streams.add(name)
            assert answer.headers.get("x-accel-buffering") == "no", name
    assert streams >= {name for name, each in PROTOCOLS.items() if each.is_stream}
