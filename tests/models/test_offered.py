"""The tools of a request, and its notices."""

import pytest

from sojourn import (
    Bounds,
    Message,
    PlanInput,
    PlanResumeInput,
    RetryHint,
    RunContext,
    ToolRequest,
    ToolResult,
    Toolset,
)
from sojourn.contracts.plan import Finalize
from sojourn.models.names import wire_name
from sojourn.models.offered import definitions
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


def turn(cls=PlanResumeInput, *, asks: bool = False, **fields) -> PlanInput:
    run = RunContext(run_id="r", agent_id="shop.clerk", interrupts_allowed=asks)
    messages = [Message.user("go"), Message.calls([ToolRequest(name="shop.orders.place", tool_call_id="c1")])]
    return cls(**{"run": run, "messages": messages, "tools": [place.spec, cancel.spec], **fields})


def names(given: PlanInput, *, asks: bool = True) -> list[str]:
    return [tool.name for tool in definitions(given, wire_name, asks=asks)]


def hint(tool: str, *, restricts: bool) -> RetryHint:
    return RetryHint(reason="invalid_arguments", tool=tool, restrict_to_tool=restricts)


def test_tools_are_offered_with_their_schema_and_an_example():
    """A tool's schema has no injected fields, and its description has the author's example."""
    first, _ = definitions(turn(), wire_name, asks=True)
    assert first.name == "shop__orders__place"
    assert first.description == 'Place an order for one article.\nArguments such as {"sku": "ABC"}'
    assert set(first.parameters_json_schema["properties"]) == {"sku"}


def test_ask_user_is_offered_only_where_run_and_planner_allow_it():
    """`ask_user` needs a run with `interrupts_allowed` and a planner with `asks`."""
    assert names(turn(asks=True))[-1] == "ask_user"
    assert "ask_user" not in names(turn(asks=False))
    assert "ask_user" not in names(turn(asks=True), asks=False)


@pytest.mark.parametrize(
    ("hints", "offered"),
    [
        ([hint("shop.orders.place", restricts=True)], ["shop__orders__place"]),
        ([hint("shop.orders.place", restricts=True), hint("shop.orders.cancel", restricts=True)], None),
        ([hint("shop.orders.place", restricts=True), hint("shop.orders.cancel", restricts=False)], None),
        ([hint("shop.orders.plaice", restricts=True)], None),
    ],
    ids=["one", "both", "not all restrict", "none is left"],
)
def test_hints_restrict_the_tools(hints, offered):
    """Hints restrict the tools only when all of them do, and never to none (SR-124)."""
    assert names(turn(hints=hints)) == (offered or ["shop__orders__place", "shop__orders__cancel"])


def test_the_last_turn_defines_the_tools_that_were_called():
    """In the last turn the tools of the transcript are defined as unavailable, since providers refuse calls of undefined tools."""
    (only,) = definitions(
        turn(asks=True, tools=[], finalize=Finalize(reason="max_tool_calls", message="Answer now.")),
        wire_name,
        asks=True,
    )
    assert (only.name, only.description) == ("shop__orders__place", "Not available any more.")


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
