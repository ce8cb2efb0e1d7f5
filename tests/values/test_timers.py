"""Timers: durations within the limits of Temporal."""

from datetime import timedelta

import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import given
from hypothesis import strategies as st

from sojourn import Agent, RateLimited, RunPolicy, Toolset, ToolUnavailable
from sojourn.contracts.tool_spec import Retry
from sojourn.errors import DefinitionError
from sojourn.mcp import Http
from sojourn.mcp.toolset import McpToolset
from sojourn.values.timers import LONGEST, duration_fault, limit_duration

ANY = st.timedeltas()


@given(ANY)
def test_a_bounded_duration_is_positive_and_fits_a_protobuf_duration(duration):
    """`bounded` makes any duration valid for Temporal, and keeps a valid one of at least a millisecond unchanged."""
    kept = limit_duration(duration)
    Duration().FromTimedelta(kept)
    assert timedelta(0) < kept <= LONGEST
    if duration_fault("x", duration) is None and duration >= timedelta(milliseconds=1):
        assert kept == duration


@pytest.mark.parametrize(
    "duration", [timedelta.max, timedelta(days=3651), timedelta(0), timedelta(seconds=-1)]
)
def test_an_invalid_time_limit_is_a_definition_error(duration):
    """Tools, their retries, MCP servers and policies raise a DefinitionError for an invalid time limit (SR-115)."""
    tools = Toolset("t.tools")

    async def call() -> None:
        """Do it."""

    async def plan(turn):
        """Decide."""

    with pytest.raises(DefinitionError, match="3650 days"):
        tools.tool(timeout=duration)(call)
    if duration:
        with pytest.raises(DefinitionError, match="3650 days"):
            tools.tool(name="x", retry=Retry(initial_interval=duration))(call)
    for name in ("timeout", "ttl", "connect_timeout"):
        with pytest.raises(DefinitionError, match=f"{name} is longer"):
            McpToolset("t.mcp", transport=Http("https://x.example"), **{name: duration})
    if duration > timedelta(0):
        for name in ("time_budget", "finalizer_grace", "plan_timeout", "tool_timeout"):
            with pytest.raises(DefinitionError, match=f"policy.{name}"):
                Agent("t.agent", planner=plan, policy=RunPolicy(**{name: duration}))


def test_a_service_may_ask_for_any_delay() -> None:
    """Any `retry_after` becomes a valid delay or None, and raises nothing that would hide the service's error."""
    kinds = [RateLimited, ToolUnavailable]
    given_s = [
        (float("nan"), None),
        (float("inf"), LONGEST),
        (float("-inf"), timedelta(0)),
        (1e300, LONGEST),
        (-5, timedelta(0)),
        (timedelta.max, LONGEST),
        (timedelta(seconds=-5), timedelta(0)),
        (2.5, timedelta(seconds=2.5)),
        (None, None),
    ]
    assert [
        (kind, given_, found)
        for given_, kept in given_s
        for kind in kinds
        if (found := kind("away", retry_after=given_).retry_after) != kept
    ] == []
