from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from planners.diagnosis import Diagnosis
from planners.facts import WorkOrder
from planners.wording import moment
from planners.work_orders import explains
from sojourn import RetryHint, mcp
from toolsets.work_orders import work_orders

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
LATER = NOON.replace(hour=20)


@pytest.fixture
async def no_server(mcp_server: None) -> AsyncIterator[None]:
    """Make the MCP server unavailable for a test."""
    transport = work_orders.transport
    await work_orders.close()
    work_orders.transport = mcp.Stdio("no-such-program")
    await work_orders.open()
    yield
    await work_orders.close()
    work_orders.transport = transport
    await work_orders.open()


def order(**fields: Any) -> WorkOrder:
    """Make a power cut under way at noon."""
    cut = {"cuts": "power", "opened_at": NOON, "starts_at": NOON, "ends_at": LATER}
    named = {"work_order_id": "wo-1", "summary": "Cut", "priority": "normal", "status": "open"}
    return WorkOrder(**{**named, **cut, **fields})


def lines_of(given: dict[str, Any]) -> list[str]:
    """Return the lines of an answer about work orders."""
    return [
        f"- {o['work_order_id']} {o['summary']}: {o['status']}, {o['priority']} priority, "
        + (
            f"planned from {when(o['starts_at'])} to {when(o['ends_at'])}"
            if o["starts_at"]
            else "planned for no time yet"
        )
        for o in given["work_orders"]
    ]


def when(text: str) -> str:
    """Return a tool's time as answers show it."""
    return moment(datetime.fromisoformat(text))


@pytest.mark.usefixtures("processes")
async def test_planned_work(run: Any):
    """The answer lists the open work orders of a site in the MCP server's order."""
    answer = await run.finish("what work is planned at s-3")
    assert run.steps == [["get_site"], ["list_work_orders"]]
    listed = run.result("list_work_orders")
    assert answer.splitlines() == ["s-3 (Cedar Point) has 2 open work orders:", *lines_of(listed)]
    assert run.plans[-1].result["total"] == listed["total"] == 2


async def test_closed_work(run: Any):
    """The answer has the time at which a work order was closed."""
    answer = await run.finish("work orders of s-3")
    assert "s-3 (Cedar Point) has 3 work orders:" in answer
    (closed,) = [o for o in run.result("list_work_orders")["work_orders"] if o["status"] == "closed"]
    assert f"{closed['summary']}: closed {when(closed['closed_at'])}" in answer


async def test_no_work(run: Any):
    """For a site without work orders the answer says that there are 0."""
    assert await run.finish("work orders of s-2") == "s-2 (Birch Hollow) has 0 work orders."


async def test_open_a_work_order(run: Any):
    """A new work order is open at the site, and the same request again leads to the same work order."""
    text = "open a high priority work order for s-7: replace the gateway battery"
    answer = await run.finish(text)
    number = run.result("open_work_order")["work_order_id"]
    assert answer == (
        f"Work order {number} is open at s-7 (Granite Pass): Replace the gateway battery, "
        f"high priority, since {when(run.result('get_site')['as_of'])}."
    )
    assert f"Work order {number} was open already" in await run.finish(text.upper())
    assert number in await run.finish("what work is planned at s-7")


async def test_summary_is_asked_for(run: Any):
    """The MCP server's own schema says what is missing, and a person is asked for it."""
    question = await run.ask("open a work order for s-7")
    assert question.missing_fields == ["summary"]
    assert "What is to be done" in question.question
    assert "Check the fuse of d-0700" in await run.finish("Check the fuse of d-0700")
    assert run.result("open_work_order")["priority"] == "normal"


async def test_unknown_site_is_asked_for(run: Any):
    """For a site that does not exist a person is asked before the MCP server is called."""
    await run.ask("work orders of s-30")
    assert "s-3 (Cedar Point) has 3" in await run.finish("s-3")
    assert run.payloads("list_work_orders") == [{"site_id": "s-3"}]


async def test_planned_outage_explains_a_dark_site(run: Any):
    """A planned power cut that is under way is named as the explanation of a loss of power."""
    await run.ask("why is s-7 dark")
    answer = await run.finish("no")
    (cut,) = run.result("list_work_orders")["work_orders"]
    assert (
        f"Work order {cut['work_order_id']} explains it: {cut['summary']}, "
        f"planned from {when(cut['starts_at'])} to {when(cut['ends_at'])}. It is still open."
    ) in answer.splitlines()


async def test_work_that_has_not_begun_explains_nothing(run: Any):
    """Work that will cut the uplink in two days is listed, but is not named as the explanation."""
    answer = await run.finish("why is s-16 dark")
    lines = answer.splitlines()
    at = lines.index("None of the open work orders of s-16 explains it:")
    assert lines[at + 1 : at + 2] == lines_of(run.result("list_work_orders"))
    assert run.plans[-1].result["work_order_id"] is None


async def test_dark_site_while_the_cause_is_open(run: Any):
    """Without the scan the cause is unknown, and a cut that is under way may explain it."""
    scan = "ops.devices.scan_site"
    run.broken[scan] = RetryHint(reason="tool_unavailable", tool=scan, message="the store is down")
    await run.ask("why is s-7 dark")
    assert "Work order wo-1005 may explain it" in await run.finish("no")


@pytest.mark.usefixtures("processes")
async def test_without_the_server_a_diagnosis_goes_on(run: Any, no_server: None):
    """Without the MCP server the answer says that work orders could not be read, and has the diagnosis and the advice."""
    await run.ask("why is s-7 dark")
    answer = await run.finish("no")
    assert (
        "Its work orders could not be read. "
        "List work orders is not available now: its MCP server cannot be used: there is no such program."
    ) in answer.splitlines()
    assert "So the gateway lost power" in answer
    assert "rb-01" in answer
    assert run.plans[-1].result["work_order_id"] is None


@pytest.mark.usefixtures("processes")
async def test_without_the_server_a_question_about_work_says_so(run: Any, no_server: None):
    """Without the MCP server the answer to a question about work orders says that they are not available."""
    answer = await run.finish("work orders of s-3")
    assert answer.startswith("List work orders is not available now")


def test_what_explains_a_silence() -> None:
    """Only work that cuts the lost supply, at the time of the loss, explains a silence."""
    rows = [
        (order(), "power", NOON, True),
        (order(), "power", LATER, True),
        (order(ends_at=None), "power", LATER, True),
        (order(starts_at=LATER), "power", NOON, False),
        (order(ends_at=NOON), "power", LATER, False),
        (order(starts_at=None, ends_at=None), "power", NOON, False),
        (order(cuts="uplink"), "power", NOON, False),
        (order(cuts=None), "power", NOON, False),
        (order(), "unclear", NOON, True),
        (order(cuts=None), "unclear", NOON, False),
    ]
    assert [
        (given, cause, since, found)
        for given, cause, since, expected in rows
        if (found := explains(given, Diagnosis(cause, [], "", since), LATER)) is not expected
    ] == []


def test_silence_without_a_time():
    """A silence without a known beginning is compared with the current time."""
    assert explains(order(), Diagnosis("unclear", [], "", None), LATER)
    assert not explains(order(ends_at=NOON), Diagnosis("unclear", [], "", None), LATER)
