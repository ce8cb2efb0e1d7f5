"""Retries: the rows of the table in `sojourn.core.run.retry` (SR-90)."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from sojourn import PlanResult, RateLimited, ToolUnavailable
from sojourn.contracts import ToolSpec, TypeSpec
from sojourn.contracts.plan import PolicyDecision
from sojourn.contracts.tool_spec import Annotations, Retry
from sojourn.core.run.retry import (
    LONGEST_INTERVAL,
    MAX_LOST,
    TRANSIENT,
    FailedAttempt,
    Repetition,
    count_lost,
    decide,
    delay_of,
    is_bug,
    lost_details,
    most_attempts,
    planner_attempts,
    read_lost,
    read_unknown,
    timeout_failure,
    transient,
)
from sojourn.errors import StorageUnavailable


def second(count: float) -> timedelta:
    return timedelta(seconds=count)


def tool(retry: Retry | None = None, **annotations: bool) -> ToolSpec:
    return ToolSpec(
        id="ops.devices.list",
        title="",
        description="",
        payload=TypeSpec(name="Args", json_schema={}),
        result=TypeSpec(name="R", json_schema={}),
        annotations=Annotations(**annotations),
        retry=retry or Retry(),
    )


def failure(error: Exception) -> FailedAttempt:
    return transient(tool(), error, str(error))


@pytest.mark.parametrize("error", [RateLimited(), ToolUnavailable(), ConnectionResetError()], ids=repr)
def test_a_transient_error_is_tried_three_times(error: Exception) -> None:
    """A transient error is retried after 1 s and 2 s; the third one is answered with its reason."""
    assert isinstance(error, TRANSIENT)
    made = failure(error)
    assert [decide(tool(), made, attempt) for attempt in (1, 2)] == [
        Repetition(second(1)),
        Repetition(second(2)),
    ]
    answer = decide(tool(), made, 3)
    assert not isinstance(answer, Repetition)
    assert answer[1]
    assert answer[1].reason == made.reason
    assert made.reason == ("rate_limited" if isinstance(error, RateLimited) else "tool_unavailable")


@pytest.mark.parametrize(("after", "is_repeated"), [(0.01, True), (30, True), (30.1, False)])
def test_a_tools_retry_after_is_the_delay(after: float, is_repeated: bool) -> None:
    """The delay is the error's `retry_after`; with more than 30 s the call is answered at once."""
    decided = decide(tool(), failure(RateLimited(retry_after=after)), 1)
    assert (decided == Repetition(second(after))) is is_repeated
    if not isinstance(decided, Repetition):
        assert decided[1]
        assert decided[1].retry_after == second(after)


def test_a_time_out_may_have_taken_effect(subtests: pytest.Subtests) -> None:
    """A tool that exceeded its time-out is retried only if it is `read_only` or `idempotent`."""
    rows = [
        ({}, False),
        ({"destructive": True}, False),
        ({"idempotent": False}, False),
        ({"read_only": False}, False),
        ({"read_only": True}, True),
        ({"idempotent": True}, True),
    ]
    for annotations, is_repeated in rows:
        with subtests.test(annotations=annotations, is_repeated=is_repeated):
            spec = tool(**annotations)
            decided = [decide(spec, timeout_failure(spec, second(2)), attempt) for attempt in (1, 2, 3)]
            assert [isinstance(one, Repetition) for one in decided] == [is_repeated, is_repeated, False]


@pytest.mark.parametrize(
    ("annotations", "is_repeated"),
    [({}, False), ({"idempotent": False}, False), ({"read_only": True}, True), ({"idempotent": True}, True)],
)
def test_a_call_of_an_mcp_server_that_may_have_taken_effect(
    annotations: dict[str, bool], is_repeated: bool
) -> None:
    """It is repeated only if the server declares the tool `read_only` or `idempotent`; MCP's default is neither."""
    spec = tool(**annotations).model_copy(update={"kind": "mcp"})
    broken = transient(spec, ToolUnavailable("the connection broke off", outcome_unknown=True), "it broke")
    refused = transient(spec, ToolUnavailable("HTTP 503"), "HTTP 503")
    assert isinstance(decide(spec, broken, 1), Repetition) is is_repeated
    assert isinstance(decide(spec, refused, 1), Repetition) is (annotations.get("idempotent") is not False)


def test_a_tool_that_is_not_idempotent_is_executed_once() -> None:
    """An `idempotent=False` tool has one attempt, after a lost worker and after a transient error."""
    spec = tool(idempotent=False)
    assert most_attempts(spec) == 1
    assert not isinstance(decide(spec, failure(ToolUnavailable()), 1), Repetition)
    assert most_attempts(tool()) == most_attempts(tool(idempotent=True)) == 20


def test_a_tool_may_be_tried_as_often_as_it_says() -> None:
    """A tool's `Retry` of more attempts than an activity has by default is not cut."""
    spec = tool(read_only=True).model_copy(update={"retry": Retry(max_attempts=100)})
    assert most_attempts(spec) == 100


@given(st.integers(1, 40), st.timedeltas(timedelta(0)), st.integers(1, 50))
def test_no_delay_is_longer_than_the_longest(attempt: int, first: timedelta, most: int) -> None:
    """The delay is at most 30 s for any declared `Retry` and any attempt."""
    spec = tool(Retry(max_attempts=most, initial_interval=first))
    decided = decide(spec, failure(ToolUnavailable()), attempt)
    assert isinstance(decided, Repetition) is (attempt < most)
    if isinstance(decided, Repetition):
        assert timedelta(0) <= decided.delay <= LONGEST_INTERVAL


def test_a_call_outlasts_a_minute_without_storage() -> None:
    """A storage that is away is asked for again by all attempts of a call, the last of which comes a minute later."""
    made = failure(StorageUnavailable("away"))
    decided = [decide(tool(), made, attempt) for attempt in (1, 2)]
    assert sum((each.delay for each in decided if isinstance(each, Repetition)), timedelta()) == second(60)


def test_an_invalid_retry_after_is_ignored(subtests: pytest.Subtests) -> None:
    """A `retry_after` that is no duration from 0 up is ignored, and the usual delay applies."""
    rows = [None, 5, "5", -second(1), float("nan")]
    for said in rows:
        with subtests.test(said=said):
            assert delay_of(said) is None
            error = ToolUnavailable()
            error.retry_after = said  # type: ignore[assignment]
            assert decide(tool(), failure(error), 1) == Repetition(second(1))


def test_a_planner_has_five_attempts() -> None:
    """A planner has 5 attempts, or 20 if it says when to try again, except in the last turn."""
    assert planner_attempts(None) == 5
    assert planner_attempts(second(60)) == 20
    assert planner_attempts(second(60), is_last_turn=True) == 5


def test_only_heartbeat_and_start_to_close_time_outs_count_as_a_lost_worker(
    subtests: pytest.Subtests,
) -> None:
    """An attempt that failed, or that no worker took, does not count as a lost worker."""
    rows = [
        ("heartbeat", True),
        ("start_to_close", True),
        ("schedule_to_start", False),
        ("schedule_to_close", False),
        (None, False),
    ]
    for last, is_lost in rows:
        with subtests.test(last=last, is_lost=is_lost):
            assert count_lost(1, last) == (2 if is_lost else 1)


@pytest.mark.parametrize("lost", range(MAX_LOST + 1))
def test_the_number_of_lost_workers_is_passed_on(lost: int) -> None:
    """The number of lost workers is written to and read from the heartbeat details; 0 writes none."""
    details = lost_details(lost)
    assert read_lost([details] if details else []) == lost


def test_that_an_attempt_may_have_taken_effect_is_passed_on() -> None:
    """The fact is in the heartbeat details beside the number of lost workers; anything else is not the fact."""
    assert read_unknown([lost_details(0, unknown=True)])
    assert read_lost([lost_details(2, unknown=True)]) == 2
    assert not any(map(read_unknown, ([], [{}], ["x"], [{"outcome_unknown": 1}], [lost_details(2)])))


def test_invalid_heartbeat_details_count_as_zero(subtests: pytest.Subtests) -> None:
    """Heartbeat details that are no valid number of lost workers count as 0."""
    rows = [True, -1, MAX_LOST + 1, "2", 2.0, None]
    for said in rows:
        with subtests.test(said=said):
            assert read_lost([{"lost": said}]) == read_lost([said]) == 0


def test_a_mistake_in_an_authors_code_is_a_bug(subtests: pytest.Subtests) -> None:
    """A `TypeError` and the like are a bug where the author's code raised them, not where a library did by itself."""
    rows = [TypeError, KeyError, IndexError, UnboundLocalError, ModuleNotFoundError, RecursionError]
    for kind in rows:
        with subtests.test(kind=kind):
            with pytest.raises(kind) as raised:
                raise kind("x")
            assert is_bug(raised.value)
            assert not is_bug(raised.value.with_traceback(None))


class Reply(BaseModel):
    text: str


def test_a_wrong_argument_of_a_record_is_a_bug():
    """A validation error is a bug where the author's code made a record of Sojourn, not where it read data or made a model of its own."""
    wrong: Any = "visits"
    for make, expected in (
        (lambda: PlanResult.final("done", memory=wrong), True),
        (lambda: PolicyDecision(caps=wrong), True),
        (lambda: PlanResult.model_validate({"memory": wrong}), False),
        (lambda: Reply.model_validate({"text": 7}), False),
        (lambda: Reply(text=None), False),
    ):
        with pytest.raises(ValidationError) as raised:
            make()
        assert is_bug(raised.value) is expected


def test_what_may_pass_is_no_bug(subtests: pytest.Subtests) -> None:
    """An exception that says nothing about the code may be gone at the next attempt."""
    rows = [OSError, TimeoutError, ConnectionError, RuntimeError, ValueError, LookupError, Exception]
    for kind in rows:
        with subtests.test(kind=kind):
            with pytest.raises(kind) as raised:
                raise kind("x")
            assert not is_bug(raised.value)
