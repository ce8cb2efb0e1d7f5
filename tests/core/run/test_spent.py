"""What a run has spent: its sum, its record, and the reading of what a client sends."""

from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic_core import from_json

from sojourn import Usage
from sojourn.contracts import Artifact, RunLink, ToolTelemetry
from sojourn.contracts.run import Spent
from sojourn.core.run.totals import MAX_ARTIFACTS, RunTotals, read_child_spent, read_spent, spending_of
from sojourn.values.wire import encode

LINK = RunLink(run_id="r/c", agent_id="a.b", parent_run_id="r", parent_tool_call_id="c")
ARTIFACTS = [
    Artifact(kind="chart", source_tool="a.b.c", size=3, ref="r/c#x/chart", run_link=LINK),
    Artifact(kind="note", ref="r/c#y/note"),
]
COUNTS = RunTotals(
    children_count=3,
    telemetry=ToolTelemetry(duration_ms=7, attempts=4, input_tokens=1, cost=0.5),
    usage=Usage(
        input_tokens=10, output_tokens=5, cached_tokens=9, cache_write_tokens=2, cost=0.25, model="m"
    ),
)


def test_spending_is_the_sum_of_plans_and_calls() -> None:
    """The usage of plans and the telemetry of calls are added up for the parent run (SR-53)."""
    spent = spending_of(COUNTS, ARTIFACTS, timedelta(seconds=1.5))
    assert spent == Spent(
        children_count=3,
        telemetry=ToolTelemetry(
            duration_ms=7, attempts=4, input_tokens=11, output_tokens=5, cost=0.75, model="m"
        ),
        artifacts=ARTIFACTS,
        active_ms=1500,
        may_have_acted=False,
    )
    assert spent.active_time == timedelta(seconds=1.5)


def test_a_run_that_spent_nothing_has_no_record() -> None:
    """`spent_by` is None without counts, artifacts and active time."""
    assert spending_of(RunTotals(), [], None) is None
    assert spending_of(RunTotals(), [], timedelta(0)) is None


def test_spending_is_read_back() -> None:
    """`read_spent` and `read_child_spent` read back what was encoded."""
    spent = spending_of(COUNTS, ARTIFACTS, timedelta(seconds=2))
    assert read_spent(from_json(encode(spent))) == spent
    assert read_child_spent([{"run_id": "r/c", "spent": from_json(encode(spent))}]) == ("r/c", spent)


def test_an_invalid_value_is_not_read(subtests: pytest.Subtests) -> None:
    """A value that is no object, or no arguments, gives no spending."""
    rows = [None, 3, "x", [], [{}]]
    for value in rows:
        with subtests.test(value=value):
            assert read_spent(value) is None
            assert read_child_spent([value]) == ("", None)
            assert read_child_spent([]) == ("", None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["cost", "attempts", "kind", "size", "run_link", "run_id", "x"]), inner
        )
    ),
    max_leaves=8,
)


FIGURES = ("duration_ms", "attempts", "input_tokens", "output_tokens", "cost")


@example({"children_count": -1, "active_ms": -1, "telemetry": dict.fromkeys(FIGURES, -1)})
@example({"children_count": 2**60, "active_ms": 2**60, "telemetry": dict.fromkeys(FIGURES, float("inf"))})
@given(st.dictionaries(st.sampled_from(list(Spent.model_fields)), JSON))
def test_any_object_gives_valid_figures(value: dict) -> None:
    """For any object the figures are finite and not negative, and the spending can be written and read back."""
    spent = read_spent(value)
    assert spent is not None
    assert 0 <= spent.children_count <= 2**53
    assert 0 <= spent.active_ms <= 2**53
    used = spent.telemetry or ToolTelemetry()
    assert min(used.duration_ms, used.attempts, used.input_tokens, used.output_tokens) >= 0
    assert used.cost is None or 0 <= used.cost < float("inf")
    assert len(spent.artifacts) <= MAX_ARTIFACTS
    assert read_spent(from_json(encode(spent))) == spent


def test_the_last_hundred_artifacts_are_read() -> None:
    """Of more than 100 artifacts, the last 100 are read."""
    sent = {"artifacts": [{"kind": str(n)} for n in range(150)]}
    assert [one.kind for one in read_spent(sent).artifacts] == [str(n) for n in range(50, 150)]
