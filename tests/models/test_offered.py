"""The tools of a request, and its notices."""

import pytest

from sojourn import (
    Message,
    PlanInput,
    PlanResumeInput,
    RetryHint,
    RunContext,
    ToolRequest,
    ToolResult,
    Toolset,
)
from sojourn.contracts import Bounds
from sojourn.contracts.ids import ToolId
from sojourn.contracts.plan import Finalize
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.models.names import wire_name
from sojourn.models.offered import Offer, last_offer, offer
from sojourn.models.projection import ProviderLimits
from sojourn.models.result_text import reminders

shop = Toolset("shop.orders")


@shop.tool(title="Place an order", examples=[{"sku": "ABC"}], inject=["session_id"])
async def place(sku: str, session_id: str) -> str:
    """Place an order for one article."""
    return sku + session_id


@shop.tool
async def cancel(order: str) -> str:
    """Cancel an order."""
    return order


LIMITS = ProviderLimits()


def turn(cls=PlanResumeInput, *, asks: bool = False, **fields) -> PlanInput:
    run = RunContext(run_id="r", agent_id="shop.clerk", interrupts_allowed=asks)
    messages = [Message.user("go"), Message.calls([ToolRequest(name="shop.orders.place", tool_call_id="c1")])]
    return cls(**{"run": run, "messages": messages, "tools": [place.spec, cancel.spec], **fields})


def names(given: PlanInput, *, asks: bool = True, limits: ProviderLimits = LIMITS) -> list[str]:
    return [tool.name for tool in offer(given, limits, asks=asks).tools]


def hint(tool: str, *, restricts: bool) -> RetryHint:
    return RetryHint(reason="invalid_arguments", tool=tool, restrict_to_tool=restricts)


@shop.tool(read_only=True, examples=[{"sku": "ABC"}])
async def find(sku: str) -> str:
    """Find an article."""
    return sku


def test_tools_are_offered_with_their_schema_and_without_an_example():
    """A tool's schema has no injected fields, and no description has the author's example: asked for rain, a model got that of Lisbon."""
    _, third, first = offer(turn(tools=[place.spec, cancel.spec, find.spec]), LIMITS, asks=True).tools
    assert first.name == "shop__orders__place"
    assert first.description == "Place an order for one article."
    assert third.description == "Find an article."
    assert set(first.parameters_json_schema["properties"]) == {"sku"}


def test_ask_user_is_offered_only_where_run_and_planner_allow_it():
    """`ask_user` needs a run with `interrupts_allowed` and a planner with `asks`."""
    assert names(turn(asks=True))[-1] == "ask_user"
    assert "ask_user" not in names(turn(asks=False))
    assert "ask_user" not in names(turn(asks=True), asks=False)


@pytest.mark.parametrize(
    "hints",
    [
        [],
        [hint("shop.orders.place", restricts=True)],
        [hint("shop.orders.place", restricts=True), hint("shop.orders.cancel", restricts=False)],
        [hint("shop.orders.plaice", restricts=True)],
    ],
)
def test_the_front_of_the_request_stays_the_same(hints):
    """Tools are sorted by name, in whatever order they come, and a hint withdraws none of them: it has a notice (SR-124)."""
    first = offer(turn(), LIMITS, asks=True).tools
    later = turn(hints=hints, tools=[cancel.spec, place.spec])
    assert [tool.name for tool in first] == ["shop__orders__cancel", "shop__orders__place"]
    assert offer(later, LIMITS, asks=True).tools == first


def test_the_last_turn_has_the_tools_of_the_turn_before():
    """In the last turn the definitions stay, so that a prompt cache still holds them."""
    before = offer(turn(asks=True), LIMITS, asks=True)
    last = turn(tools=[], finalize=Finalize(reason="max_tool_calls", message="Answer now."))
    assert last_offer(last, before) is before


def test_the_last_turn_defines_the_tools_that_were_called():
    """Where the turn before is not known, the tools of the transcript are defined, since providers refuse calls of undefined tools."""
    last = turn(tools=[], finalize=Finalize(reason="max_tool_calls", message="Answer now."))
    (only,) = last_offer(last, None).tools
    assert (only.name, only.description) == ("shop__orders__place", "Not available any more.")


def test_a_description_is_cut_to_the_provider_s_limit():
    """A long description loses its example first and then its end, never the rules of its schema."""
    payload = place.spec.payload
    rule = {"oneOf": [{"required": ["sku"]}, {"required": ["order"]}]}
    odd = payload.model_copy(update={"json_schema": {**payload.json_schema, **rule}})
    spec = place.spec.model_copy(update={"description": "word " * 300, "payload": odd})
    (made,) = offer(turn(tools=[spec]), LIMITS, asks=False).tools
    assert len(made.description) <= 1_024
    assert made.description.endswith("…\nGive exactly one of these: `sku`; or `order`.")


def many(count: int) -> list[ToolSpec]:
    """Return the tools of a large foreign toolset."""
    return [
        cancel.spec.model_copy(
            update={"id": ToolId(f"shop.mail.send_{number}"), "kind": "mcp", "description": f"Send {number}"}
        )
        for number in range(count)
    ]


def test_a_request_defines_no_more_tools_than_a_provider_takes():
    """Beyond the limit the author's own tools stay, and the rest are found by search, the same in every request."""
    given = turn(asks=True, tools=[place.spec, *many(150)])
    assert len(names(turn(asks=True, tools=many(126)))) == 127
    made = offer(given, LIMITS, asks=True)
    assert len(made.tools) == 127  # with `final_result` 128
    assert [tool.name for tool in made.tools[-3:]] == ["call_tool", "search_tools", "ask_user"]
    assert "shop__orders__place" in names(given)
    assert len(made.deferred) == 151 - 124
    shuffled = turn(asks=True, tools=[*reversed(many(150)), place.spec])
    assert offer(shuffled, LIMITS, asks=True) == made


def test_definitions_leave_room_for_the_conversation():
    """Long definitions are found by search too, however few they are."""
    specs = [spec.model_copy(update={"description": "d" * 1_000}) for spec in many(20)]
    made = offer(turn(tools=specs), ProviderLimits(definitions=10_000), asks=False)
    assert 0 < len(made.tools) - 2 < 10
    assert len(made.deferred) == 20 - (len(made.tools) - 2)


def test_a_refused_tool_is_offered_again_with_another_schema():
    """A tool that a provider refused is withheld until its schema is another one."""
    (one,) = offer(turn(tools=[cancel.spec]), LIMITS, asks=False).tools
    assert offer(turn(), LIMITS, asks=False, refused={one.name: one.parameters_json_schema}) == Offer(
        offer(turn(tools=[place.spec]), LIMITS, asks=False).tools, [], offer(turn(), LIMITS, asks=False).keys
    )
    assert len(offer(turn(), LIMITS, asks=False, refused={one.name: {}}).tools) == 2


def test_a_partial_result_has_a_notice():
    """The notice says how much a partial result holds, how to narrow it and where the next part begins."""
    bounds = Bounds(
        returned=50, total=812, truncated=True, refinement_hint="filter by site", next_cursor="p2"
    )
    given = turn(tool_results=[ToolResult(name="shop.orders.place", result=[], bounds=bounds)])
    (notice,) = reminders(given, wire_name)
    assert notice == (
        "The result of shop__orders__place is a part: 50 of 812 items. To narrow it: filter by site."
        " The next part begins at cursor 'p2'."
    )
    whole = turn(tool_results=[ToolResult(name="a.b.c", result=[], bounds=Bounds(returned=3))])
    assert reminders(whole, wire_name) == []


@pytest.mark.parametrize(
    ("returned", "total", "held"), [(1, None, "1 item"), (3, None, "3 items"), (0, 1, "0 of 1 item")]
)
def test_the_items_of_a_partial_result_are_counted(returned, total, held):
    """One item is told as one."""
    bounds = Bounds(returned=returned, total=total, truncated=True)
    given = turn(tool_results=[ToolResult(name="shop.orders.place", result=[], bounds=bounds)])
    assert reminders(given, wire_name) == [f"The result of shop__orders__place is a part: {held}."]


def test_a_call_to_repair_has_a_notice():
    """A restricting hint has a notice, except in the last turn, in which no tool may be called."""
    hints = [hint("shop.orders.place", restricts=True)]
    assert reminders(turn(hints=hints), wire_name) == [
        "Correct the call of shop__orders__place as its answer says, or answer without it."
    ]
    last = turn(hints=hints, finalize=Finalize(reason="max_tool_calls", message="Answer now."))
    assert reminders(last, wire_name) == []
