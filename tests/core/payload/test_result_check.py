"""The gate: a result that passes can be recorded, read again and counted; any other becomes a plain error."""

import functools
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import Message, RetryHint, ToolError, ToolRequest, ToolResult
from sojourn.contracts import Artifact, Bounds, RunLink, ToolSpec, ToolTelemetry, TypeSpec
from sojourn.contracts.message import ToolResultPart
from sojourn.contracts.tool_error import FieldIssue
from sojourn.core.payload.result_check import Oversized, check_result
from sojourn.values.json_fault import MAX_FIGURE
from sojourn.values.wire import (
    MAX_ARTIFACT_BYTES,
    MAX_LOCAL_BYTES,
    MAX_RESULT_BYTES,
    decode_messages,
    encode,
)

SPEC = ToolSpec(
    id="ops.devices.list",
    title="",
    description="",
    payload=TypeSpec(name="Args", json_schema={}),
    result=TypeSpec(name="R", json_schema={}),
)
CALL = ToolRequest(name="ops.devices.list", tool_call_id="c1")


def deep(levels: int) -> Any:
    return functools.reduce(lambda inner, _: {"a": inner}, range(levels), {"b": 1})


def cycle() -> Any:
    ring: list[Any] = []
    ring.append(ring)
    return ring


class Odd:
    """An object that cannot be written as JSON."""


UNREADABLE: dict[str, Any] = {
    "deep": deep(190),
    "bottomless": deep(900),
    "cycle": cycle(),
    "object": Odd(),
    "half a character": "\ud800",
    "half a name": {"\ud800": 1},
    "digits": 10**5000,
}


def through(result: ToolResult) -> ToolResult | Oversized:
    return check_result(SPEC, CALL, result)


def judged(result: ToolResult) -> ToolResult:
    made = through(result)
    assert isinstance(made, ToolResult)
    assert_recordable(made)
    return made


def assert_recordable(result: ToolResult) -> None:
    """Assert that a result in a transcript is read back unchanged, has finite numbers, and fits Temporal's limits."""
    message = Message(role="tool", parts=[ToolResultPart(type="tool_result", result=result)])
    written = encode([message])
    assert len(written) < MAX_RESULT_BYTES + MAX_ARTIFACT_BYTES + 1_000
    assert decode_messages(written)[0].tool_results[0].model_dump() == result.model_dump()
    json.loads(written, parse_constant=pytest.fail)


def test_a_value_that_cannot_be_read_again_makes_a_plain_error(subtests: pytest.Subtests) -> None:
    """In a success the value makes the result malformed; in a failure the error is kept without the rest (SR-51, SR-130)."""
    places = ["result", "artifact", "telemetry", "input", "issue", "hint"]
    for place in places:
        for name, value in UNREADABLE.items():
            with subtests.test(f"{name} in {place}"):
                error = ToolError.new("the site is closed", code="closed")
                hint = RetryHint(reason="invalid_arguments", tool="x")
                hinted = ToolResult(error=error, retry_hint=hint)
                issue = FieldIssue(field="/a", constraint="invalid_enum_value", allowed=[value])
                given = {
                    "result": ToolResult(result=value),
                    "artifact": ToolResult(artifacts=[Artifact(kind="k", data=value)]),
                    "telemetry": ToolResult(telemetry=ToolTelemetry(extra={"a": value})),
                    "input": hinted.model_copy(
                        update={"retry_hint": hint.model_copy(update={"example_input": {"a": value}})}
                    ),
                    "issue": hinted.model_copy(
                        update={"retry_hint": hint.model_copy(update={"issues": [issue]})}
                    ),
                    "hint": hinted.model_copy(update={"retry_hint": value}),
                }[place]
                made = judged(given)
                assert made.error
                assert made.result is None
                assert len(made.error.message) < 2_001
                if given.error:
                    assert (made.error.code, made.retry_hint) == ("closed", None)
                    assert made.error.message.startswith("the site is closed (what came with this error")
                else:
                    assert made.error.code == "malformed_response"


def test_a_hint_that_can_be_read_passes() -> None:
    """A hint may be as deep and as large as a result."""
    hint = RetryHint(reason="own", tool="x", example_input=deep(150), message="m" * 500_000)
    given = ToolResult(error=ToolError.new("no"), retry_hint=hint)
    assert judged(given) == given.model_copy(update={"name": CALL.name, "tool_call_id": "c1"})


def test_a_hint_that_is_too_large_is_left_out() -> None:
    """The error keeps its message and code, with a note on the hint that was left out."""
    hint = RetryHint(reason="own", tool="x", message="m" * 3_000_000)
    made = judged(ToolResult(error=ToolError.new("no", code="own"), retry_hint=hint))
    assert made.error
    assert made.error.message.startswith("no (")
    assert "1,000,000 allowed" in made.error.message
    assert (made.error.code, made.retry_hint) == ("own", None)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_an_infinite_number_or_nan_is_malformed(number: float) -> None:
    """JSON would write an infinite number or NaN as null, and a success would not fit its type (SR-131)."""
    for answer in (
        ToolResult(result=number),
        ToolResult(result={"a": [1.5, number]}),
        ToolResult(artifacts=[Artifact(kind="k", data=[number])]),
        ToolResult(telemetry=ToolTelemetry(cost=number)),
        ToolResult(telemetry=ToolTelemetry(extra={"a": number})),
    ):
        made = judged(answer)
        assert made.error
        assert made.error.code == "malformed_response"
        assert "no number of JSON" in made.error.message
    assert judged(ToolResult(result="NaN is not Infinity")).result == "NaN is not Infinity"


FIGURES = ("duration_ms", "attempts", "input_tokens", "output_tokens", "cost")


def test_a_count_outside_its_range_is_malformed(subtests: pytest.Subtests) -> None:
    """Counts and costs are at least 0 and bounded, so that no result lifts a limit of the run (SR-53)."""
    figures = [-1, -(10**12), 2 * MAX_FIGURE, 10**400]
    names = ["children_count", *FIGURES]
    for name in names:
        for figure in figures:
            with subtests.test(str((figure, name))):
                if name == "children_count":
                    given = ToolResult(result=1, children_count=figure)
                else:
                    spent = ToolTelemetry().model_copy(update={name: figure})
                    given = ToolResult(result=1, telemetry=spent)
                made = judged(given)
                assert made.error
                assert made.error.code == "malformed_response"
                assert (made.children_count, made.telemetry) == (0, None)


def test_an_invalid_record_is_malformed(subtests: pytest.Subtests) -> None:
    """The gate finds invalid fields that `model_copy`, which does not validate, has set."""
    rows = [
        {"children_count": "many"},
        {"telemetry": "cheap"},
        {"artifacts": ["chart"]},
        {"artifacts": None},
        {"bounds": {"returned": "some"}},
        {"run_link": 5},
        {"error": "no"},
        {"retry_hint": ["x"]},
    ]
    for changes in rows:
        with subtests.test(changes=changes):
            made = judged(ToolResult(result=1).model_copy(update=changes))
            assert made.error
            assert made.error.code == "malformed_response"


def test_a_chain_of_errors_is_bounded() -> None:
    """Long messages and codes are shortened, lone surrogates replaced, and a long chain loses its middle (SR-87)."""
    chain = ToolError(message="root\ud800" + "r" * 10_000_000, code="c" * 10_000_000)
    for number in range(10_000):
        chain = ToolError(message=f"link {number}", cause=chain)
    made = judged(ToolResult(error=chain))
    assert made.error
    links = list(made.error.chain())
    assert len(links) == 8
    assert links[0].message == "link 9999"
    assert links[-1].message.startswith("root?rrr")
    assert len(links[-1].message) == 2_000
    assert links[-1].code == "c" * 100


def test_a_result_that_is_too_large_is_not_shortened() -> None:
    """A result that is too large is returned whole as `Oversized`, with its size (SR-28)."""
    made = through(ToolResult(result="x" * MAX_RESULT_BYTES))
    assert isinstance(made, Oversized)
    assert len(made.result.result) == MAX_RESULT_BYTES < made.size


@pytest.mark.parametrize(
    ("each", "fits"), [(MAX_ARTIFACT_BYTES // 2 - 2, True), (MAX_ARTIFACT_BYTES // 2, False)]
)
def test_artifacts_are_measured_together(each: int, fits: bool) -> None:
    """Artifacts are limited by their size together; a size that the tool states is replaced (SR-102)."""
    artifacts = [Artifact(kind=kind, data="x" * each, size=1) for kind in ("a", "b")]
    made = through(ToolResult(artifacts=artifacts))
    assert isinstance(made, ToolResult) is fits
    measured = made.artifacts if isinstance(made, ToolResult) else made.result.artifacts
    assert [one.size for one in measured] == [each + 2] * 2


@pytest.mark.parametrize("local", [True, False], ids=["local", "ordinary"])
def test_a_local_result_is_small_with_its_artifacts(local: bool) -> None:
    """Local results of one workflow task share a message, so they have a smaller limit, which includes artifacts."""
    chart = Artifact(kind="chart", data="x" * MAX_LOCAL_BYTES)
    made = check_result(SPEC, CALL, ToolResult(result=1, artifacts=[chart]), local=local)
    assert isinstance(made, Oversized) is local
    whole = check_result(SPEC, CALL, ToolResult(result="x" * MAX_LOCAL_BYTES), local=local)
    assert isinstance(whole, Oversized) is local


def test_a_masked_result_is_measured_again() -> None:
    """A mask may make a result too large."""

    def longer(result: ToolResult) -> ToolResult:
        return result.model_copy(update={"result": "[field]" * 300_000})

    made = check_result(SPEC, CALL, ToolResult(result="x"), longer)
    assert isinstance(made, Oversized)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.just(Odd())
    | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(ANYTHING, ANYTHING, st.integers() | st.floats(), st.none() | st.text())
def test_any_result_can_be_recorded(value: Any, extra: Any, figure: Any, said: str | None) -> None:
    """Any result passes, or becomes a plain error, and can be recorded; nothing raises."""
    spent = ToolTelemetry().model_copy(update={"cost": figure, "extra": {"a": extra}})
    hint = RetryHint(reason="own", tool="x").model_copy(update={"example_input": {"a": extra}})
    error = None if said is None else ToolError(message=said)
    link = RunLink(run_id="r", agent_id="a", parent_run_id="p", parent_tool_call_id="c")
    for answer in (
        ToolResult(result=value, telemetry=spent, run_link=link, bounds=Bounds(returned=1)),
        ToolResult(error=error, retry_hint=hint),
    ):
        judged(answer)
