"""The chart of a run: where its bars are."""

from datetime import UTC, datetime, timedelta

import pytest

from sojourn.console.views.chart import WIDTH, chart_of
from sojourn.contracts import event as events
from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.tool_result import ToolResult
from sojourn.timeline import Timeline

BEGIN = datetime(2027, 1, 2, tzinfo=UTC)


def test_long_waits_are_short_on_the_chart_and_marked():
    """A week of waiting leaves the work readable: bars are in order, and within the scale."""
    timeline, wait = Timeline("r"), AwaitConfirmation(id="w", tool_call_id="x", tool="a.b.c")
    result = ToolResult(name="a.b.c", tool_call_id="x", result=1)
    for seconds, kind, fields in (
        (1, events.PlanStartedEvent, {}),
        (2, events.AwaitConfirmationEvent, {"confirmation": wait}),
        (600_002, events.AwaitAnsweredEvent, {"await_id": "w", "approved": True, "by": "eve"}),
        (600_007, events.ToolEndEvent, {"result": result, "duration": timedelta(seconds=5)}),
    ):
        at = BEGIN + timedelta(seconds=seconds)
        timeline.feed(kind(run_id="r", event_id=f"0-{seconds:06}-00000", time=at, **fields))
    chart = chart_of(timeline.entries, BEGIN)
    plan, call = chart.bars
    assert [piece.kind for piece in call.pieces] == ["wait", "done"]
    waiting, working = call.pieces
    assert waiting.width < WIDTH / 4 < working.width
    assert plan.pieces[0].x == 0
    assert working.x + working.width == pytest.approx(WIDTH, abs=1)
    assert [gap.lasted for gap in chart.gaps] == [timedelta(seconds=600_000)]
    assert call.waited_for == "eve"
