"""Hostile requests, one a row: each has its answer, tells nothing of another tenant, and leaves the service and its runs as they were."""

import json
import re

import pytest
from fasta2a.jsonrpc_v1 import V1_METHODS
from fasta2a.schema import a2a_request_ta
from fastapi.routing import iter_route_contexts

from sojourn.http.protocols.mcp.server import server_of
from sojourn.server import Server
from tests.http.security.hostile.bodies import BODIES
from tests.http.security.hostile.replays import REPLAYS
from tests.http.security.hostile.tenancy import OF_NO_TENANT, RPC_OF_NO_TENANT, TENANCY
from tests.http.security.hostile.tokens import TOKENS
from tests.http.security.hostile.values import VALUES
from tests.http.security.hostile.wire import WIRE
from tests.http.security.hostile.world import Answer, Row, World, absent_of, world_of

pytestmark = pytest.mark.usefixtures("processes")

TABLES = {
    "tenancy": TENANCY,
    "bodies": BODIES,
    "values": VALUES,
    "wire": WIRE,
    "tokens": TOKENS,
    "replays": REPLAYS,
}
TRACES = ("Traceback", 'File "', "site-packages", "sojourn/http", "Error(")


@pytest.fixture(scope="module")
async def world(shop, tmp_path_factory):
    """The service, on a server without the runs of other tests, in which nothing of the other tenant has changed in the end."""
    async with (
        Server(port=0, ui=False, attach=False) as server,
        world_of(shop.app, server.address, tmp_path_factory.mktemp("keys")) as made,
    ):
        before = [await made.events_of(each) for each in made.victims]
        yield made
        assert [await made.events_of(each) for each in made.victims] == before


@pytest.mark.parametrize("table", TABLES)
async def test_a_hostile_request_gets_its_answer_and_nothing_else(
    world: World, table: str, subtests: pytest.Subtests
):
    """It has the status and code of its row, tells no word of another tenant and no trace, and changes no run of theirs.

    Nobody learns by an answer which runs, sessions and tasks others have: it is the answer about what is not there.
    """
    absent = absent_of(world)
    for number, row in enumerate(TABLES[table], 1):
        with subtests.test(f"{number:03} {row.name}"):
            answer = await row.send(world)
            _check(world, row, answer)
            if table == "tenancy" and row.code == "run_not_found":
                other = await row.send(absent)
                assert (answer.status, world.unnamed(answer.text)) == (
                    other.status,
                    absent.unnamed(other.text),
                )
    assert await world.present_lengths() == world.lengths
    health = await world.send("GET", "/health", who="")
    assert (health.status, health.value["status"]) == (200, "ok")


def _check(world: World, row: Row, answer: Answer) -> None:
    assert (answer.status, answer.code) == (row.status, row.code), answer.text[:1_000]
    assert answer.status < 500
    for word in (*world.secrets, *TRACES):
        assert word not in answer.text
    if answer.status < 300 and not answer.code:
        assert not [each for each in world.victims if each in answer.text]
    if answer.media == "application/problem+json" and answer.text:
        told = answer.value
        assert told["status"] == answer.status
        assert told["type"] == f"urn:sojourn:problem:{told['code']}"
        assert all(told[name] for name in ("title", "detail", "then"))


def test_every_route_has_a_row_that_crosses_tenants(world: World):
    """A new route, or a new method of a protocol, has a row in `tenancy.py`, or is named there as of no tenant."""
    contexts = iter_route_contexts(world.web.routes)
    routes = {f"{each} {context.path_format}" for context in contexts for each in context.methods or ()}
    routes = {each for each in routes if not each.startswith(("HEAD ", "OPTIONS "))}
    crossed = {row.about for row in TENANCY}
    assert sum(row.code == "run_not_found" for row in TENANCY) > 60
    doors = {"POST /mcp", "POST /a2a/{agent_id}{rest}"}
    assert routes - crossed - OF_NO_TENANT == doors
    assert routes >= OF_NO_TENANT
    of_mcp = {*server_of(world.web.state.service)._request_handlers}
    of_a2a = {*V1_METHODS, *re.findall(r'"const": "(\w+/[\w/]+)"', json.dumps(a2a_request_ta.json_schema()))}
    assert len(of_a2a) > len(V1_METHODS)
    assert {f"POST /mcp {each}" for each in of_mcp - RPC_OF_NO_TENANT} <= crossed
    assert {f"POST /a2a/{{agent_id}}{{rest}} {each}" for each in of_a2a - RPC_OF_NO_TENANT} <= crossed
