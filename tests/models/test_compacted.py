"""What a model reads in place of results that compaction has cleared."""

import pytest

from sojourn import Message, ToolResult
from sojourn.contracts.message import CompactionPart
from sojourn.contracts.tool_error import ToolError
from sojourn.models.compaction import compact_messages

RECEIPT = "R-1 " * 150
PAID = ToolResult(name="x.y.pay", tool_call_id="1", result=RECEIPT)


def failed(**fields: bool) -> ToolResult:
    return ToolResult(
        name="x.y.pay", tool_call_id="1", error=ToolError.new(RECEIPT, code="lost").model_copy(update=fields)
    )


def cleared(result: ToolResult, reads: set[str]) -> str:
    part = CompactionPart(type="compaction", cleared=1, at=1)
    [message] = compact_messages([Message.results([result])], part, lambda _: RECEIPT, reads)
    return message.tool_results[0].text  # pyright: ignore[reportAttributeAccessIssue] - what models read of it


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (PAID, "the call succeeded and its effect took place"),
        (failed(outcome_unknown=True), "the call failed and may have taken effect"),
        (failed(without_effect=True), "the call failed without an effect (lost)"),
        (failed(), "the call failed (lost)"),
    ],
    ids=["succeeded", "unknown", "no effect", "failed"],
)
def test_a_model_knows_how_a_cleared_call_ended(result: ToolResult, outcome: str) -> None:
    """It is never told to make the call of a tool again that may change something: it would pay twice."""
    text = cleared(result, set())
    assert outcome in text
    assert "again if it is needed" not in text


def test_a_cleared_result_of_a_tool_that_changes_nothing_can_be_read_again() -> None:
    """Reading again has no effect."""
    assert "call the tool again if it is needed" in cleared(PAID, {"x.y.pay"})
