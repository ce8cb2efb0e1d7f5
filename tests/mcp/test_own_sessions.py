"""Own sessions: what a server keeps for a session is seen by the calls of its owner only."""

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from sojourn import App, Principal, RunPolicy, mcp
from sojourn.contracts.tool_call import ToolCallMeta
from sojourn.errors import DefinitionError, ToolUnavailable
from sojourn.mcp.own_sessions import OwnSessions, owner_of

CART = str(Path(__file__).with_name("cart_server.py"))
ANA, ADA, BEN = (
    Principal(subject=subject, tenant=tenant)
    for subject, tenant in (("ana", "acme"), ("ada", "acme"), ("ben", "globex"))
)


@pytest.fixture
def cart_transport(serving):
    """Make the transport to a new cart server of a kind."""

    def make(kind: str):
        if kind == "stdio":
            return mcp.Stdio(sys.executable, CART, "stdio")
        served = serving(kind)
        served._start(CART, kind)
        path = "sse" if kind == "sse" else "mcp"
        return (mcp.Sse if kind == "sse" else mcp.Http)(f"http://127.0.0.1:{served.port}/{path}")

    return make


async def put(toolset: mcp.McpToolset, item: str, principal: Principal | None = None) -> dict:
    """Put an item into the cart of the session; return the cart."""
    meta = ToolCallMeta(run_id="run-1", principal=principal)
    tool = toolset["put"]
    found = await tool.prepare({}, tool.call(item=item), meta)()
    assert found.error is None, found.error
    return found.result


async def carts(toolset: mcp.McpToolset, *calls: tuple[str, Principal | None]) -> list[list[str]]:
    return [(await put(toolset, item, principal))["cart"] for item, principal in calls]


CALLS = (("a", ANA), ("b", BEN), ("c", ADA), ("d", None), ("e", BEN), ("f", None))


@pytest.mark.parametrize("kind", ["stdio", "sse"])
async def test_no_tenant_sees_the_cart_of_another(opened, cart_transport, kind):
    """By default each tenant has a session of its own, which its people share, and runs for nobody share one."""
    toolset = await opened(cart_transport(kind))
    assert await carts(toolset, *CALLS) == [["a"], ["b"], ["a", "c"], ["d"], ["b", "e"], ["d", "f"]]


async def test_on_request_no_principal_sees_the_cart_of_another(opened, cart_transport):
    """With `session="principal"` two people of a tenant have two sessions; with "shared" all calls have one."""
    transport = cart_transport("sse")
    own = await opened(transport, session="principal")
    assert await carts(own, *CALLS) == [["a"], ["b"], ["c"], ["d"], ["b", "e"], ["d", "f"]]
    shared = await opened(transport, session="shared")
    assert await carts(shared, *CALLS[:3]) == [["a"], ["a", "b"], ["a", "b", "c"]]


async def test_a_session_ends_when_it_is_idle_and_when_another_needs_its_place(opened, cart_transport, until):
    """There are never more sessions than may be, and an idle one ends with its process."""
    toolset = await opened(cart_transport("stdio"), max_sessions=1, session_idle=timedelta(seconds=0.3))
    first = await put(toolset, "a", ANA)
    second = await put(toolset, "b", BEN)
    assert (first["cart"], second["cart"]) == (["a"], ["b"])
    assert first["pid"] != second["pid"]
    others = toolset._connection._others
    assert len(others) == 1

    async def is_over() -> bool:
        return not len(others) and not others._closing

    await until(is_over)
    assert not Path(f"/proc/{second['pid']}").exists()
    assert (await put(toolset, "c", BEN))["cart"] == ["c"]


async def test_calls_of_one_owner_share_the_opening_of_its_session(opened, cart_transport):
    """Ten calls at once of a tenant that has no session yet open one."""
    toolset = await opened(cart_transport("sse"))
    found = await asyncio.gather(*(put(toolset, str(n), ANA) for n in range(10)))
    assert len(max((each["cart"] for each in found), key=len)) == 10


async def test_a_call_that_finds_all_sessions_busy_is_tried_again(until):
    """A session with a call under way is never taken from its owner: the other call is told when to come back."""
    sessions = OwnSessions("a.b", 1, timedelta(minutes=1))
    sessions.open_session = None
    with pytest.raises(AssertionError):
        async with sessions.line("acme"):
            pass
    sessions.open_session = asyncio.Event().wait  # never opened: the line is held without its session
    async with sessions.line("acme"):
        with pytest.raises(ToolUnavailable, match="all 1 sessions") as raised:
            async with sessions.line("globex"):
                pass
        assert raised.value.retry_after
    async with sessions.line("globex"):
        assert len(sessions) == 1
    await sessions.close()


def test_whose_session_a_call_has():
    """The names of tenants and subjects never meet, and there is no owner without a tenant."""
    assert owner_of(ANA, "tenant") == owner_of(ADA, "tenant") == "acme"
    elsewhere = Principal(subject="ana", tenant="globex")
    owners = {owner_of(each, "principal") for each in (ANA, ADA, BEN, elsewhere, Principal(subject="x"))}
    assert len(owners) == 5
    assert (
        owner_of(None, "principal")
        == owner_of(ANA, "shared")
        == owner_of(Principal(subject="x"), "tenant")
        == ""
    )


@pytest.mark.parametrize(
    "options",
    [{"session": "run"}, {"max_sessions": 0}, {"max_sessions": True}, {"session_idle": timedelta(0)}],
)
def test_a_wrong_option_is_refused(options):
    """What shares a session is one of three words, and both bounds are above zero."""
    with pytest.raises(DefinitionError):
        mcp.McpToolset("a.b", transport=mcp.Stdio("server"), **options)


async def test_a_run_calls_in_the_session_of_its_tenant(serve, cart_transport, calling):
    """The cart that a run of one tenant has filled is not seen by the run of another, on one worker."""
    toolset = mcp.McpToolset("shop.cart", transport=cart_transport("sse"))
    client = await serve(App(agents=[calling(toolset, "put", policy=RunPolicy())]))
    texts = [
        (await (await client.start("test.agent", f'{{"item": "{item}"}}', principal=each)).result()).text
        for item, each in (("a", ANA), ("b", BEN))
    ]
    assert ['"cart": ["a"]' in texts[0], '"cart": ["b"]' in texts[1]] == [True, True]
