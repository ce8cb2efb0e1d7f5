"""Retries: the table of the module, row by row (SR-90)."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import RateLimited, ToolSpec, ToolUnavailable, TypeSpec
from sojourn.contracts.tool_spec import Annotations
from sojourn.contracts.tool_spec import Retry as OwnRetry
from sojourn.core.run.retry import (
    LONGEST_INTERVAL,
    MAX_LOST,
    TRANSIENT,
    Failure,
    Retry,
    count_lost,
    decide,
    delay_of,
    lost_details,
    most_attempts,
    planner_attempts,
    read_lost,
    timed_out,
    transient,
)


def second(count: float) -> timedelta:
    return timedelta(seconds=count)


def tool(retry: OwnRetry | None = None, **annotations: bool) -> ToolSpec:
    return ToolSpec(
        id="ops.devices.list",
        title="",
        description="",
        payload=TypeSpec(name="Args", json_schema={}),
        result=TypeSpec(name="R", json_schema={}),
        annotations=Annotations(**annotations),
        retry=retry or OwnRetry(),
    )


def failure(error: Exception) -> Failure:
    return transient(tool(), error, str(error))


@pytest.mark.parametrize("error", [RateLimited(), ToolUnavailable(), ConnectionResetError()], ids=repr)
def test_what_may_pass_is_tried_three_times(error: Exception) -> None:
    """After 1 s and 2 s; then the planner has it, with the reason of its kind."""
    assert isinstance(error, TRANSIENT)
    made = failure(error)
    assert [decide(tool(), made, attempt) for attempt in (1, 2)] == [Retry(second(1)), Retry(second(2))]
    answer = decide(tool(), made, 3)
    assert not isinstance(answer, Retry)
    assert answer[1]
    assert answer[1].reason == made.reason
    assert made.reason == ("rate_limited" if isinstance(error, RateLimited) else "tool_unavailable")


@pytest.mark.parametrize(("after", "is_repeated"), [(0.01, True), (30, True), (30.1, False)])
def test_a_tool_says_when(after: float, is_repeated: bool) -> None:
    """Its `retry_after` wins; what would take longer than 30 s is the planner's to decide."""
    decided = decide(tool(), failure(RateLimited(retry_after=after)), 1)
    assert (decided == Retry(second(after))) is is_repeated
    if not isinstance(decided, Retry):
        assert decided[1]
        assert decided[1].retry_after == second(after)


@pytest.mark.parametrize(
    ("annotations", "is_repeated"),
    [
        ({}, False),
        ({"destructive": True}, False),
        ({"idempotent": False}, False),
        ({"read_only": False}, False),
        ({"read_only": True}, True),
        ({"idempotent": True}, True),
    ],
)
def test_a_time_out_may_have_taken_effect(annotations: dict[str, bool], is_repeated: bool) -> None:
    """Only what changes nothing, or where twice is as once, is done again."""
    spec = tool(**annotations)
    decided = [decide(spec, timed_out(spec, second(2)), attempt) for attempt in (1, 2, 3)]
    assert [isinstance(one, Retry) for one in decided] == [is_repeated, is_repeated, False]


def test_what_must_be_done_once_is_done_once() -> None:
    """Neither a lost worker nor a limit has an `idempotent=False` tool executed again."""
    spec = tool(idempotent=False)
    assert most_attempts(spec.annotations) == 1
    assert not isinstance(decide(spec, failure(ToolUnavailable()), 1), Retry)
    assert most_attempts(tool().annotations) == most_attempts(tool(idempotent=True).annotations) == 20


@given(st.integers(1, 40), st.timedeltas(timedelta(0)), st.integers(1, 50))
def test_no_delay_is_longer_than_the_longest(attempt: int, first: timedelta, most: int) -> None:
    """Whatever a tool declares, and whichever attempt it is."""
    spec = tool(OwnRetry(max_attempts=most, initial_interval=first))
    decided = decide(spec, failure(ToolUnavailable()), attempt)
    assert isinstance(decided, Retry) is (attempt < most)
    if isinstance(decided, Retry):
        assert timedelta(0) <= decided.delay <= LONGEST_INTERVAL


@pytest.mark.parametrize("said", [None, 5, "5", -second(1), float("nan")], ids=repr)
def test_what_is_no_duration_asks_for_nothing(said: object) -> None:
    """An exception may carry anything under that name."""
    assert delay_of(said) is None
    error = ToolUnavailable()
    error.retry_after = said  # type: ignore[assignment]
    assert decide(tool(), failure(error), 1) == Retry(second(1))


def test_a_planner_has_five_attempts() -> None:
    """Or those of an activity, where it says when it may be asked again and there is time left."""
    assert planner_attempts(None) == 5
    assert planner_attempts(second(60)) == 20
    assert planner_attempts(second(60), is_last_turn=True) == 5


@pytest.mark.parametrize(
    ("last", "is_lost"),
    [
        ("heartbeat", True),
        ("start_to_close", True),
        ("schedule_to_start", False),
        ("schedule_to_close", False),
        (None, False),
    ],
)
def test_only_what_a_living_worker_prevents_is_a_lost_one(last: str | None, is_lost: bool) -> None:
    """An attempt that failed, or that no worker took, lost none."""
    assert count_lost(1, last) == (2 if is_lost else 1)


@pytest.mark.parametrize("lost", range(MAX_LOST + 1))
def test_the_lost_workers_are_told_from_attempt_to_attempt(lost: int) -> None:
    """By the details of a heartbeat; none of them is nothing to tell."""
    details = lost_details(lost)
    assert read_lost([details] if details else []) == lost


@pytest.mark.parametrize("said", [True, -1, MAX_LOST + 1, "2", 2.0, None], ids=repr)
def test_what_is_no_count_of_lost_workers_counts_none(said: object) -> None:
    """Anybody may have written the details of a heartbeat."""
    assert read_lost([{"lost": said}]) == read_lost([said]) == 0
