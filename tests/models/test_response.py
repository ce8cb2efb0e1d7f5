"""What is read of a response: ids of its calls, and whether it was cut off."""

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

from sojourn.models.portable import fits_everywhere
from sojourn.models.response import was_cut_off, with_distinct_ids


@pytest.mark.parametrize(
    ("given", "distinct"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a"], ["a", "a_2"]),
        (["a", "a", "a_2", "a"], ["a", "a_3", "a_2", "a_4"]),
        (["x" * 40, "x" * 40], ["x" * 40, "x" * 36 + "_2"]),
    ],
)
def test_each_call_of_a_response_has_an_id_of_its_own(given: list[str], distinct: list[str]) -> None:
    """Where calls of one response have the same id, the first keeps it, and the others get ids that nobody has."""
    response = ModelResponse([TextPart("Now."), *(ToolCallPart("add", {}, id) for id in given)])
    read = with_distinct_ids(response)
    assert [call.tool_call_id for call in read.tool_calls] == distinct
    assert all(map(fits_everywhere, distinct))
    assert (read is response) is (given == distinct)


@pytest.mark.parametrize(
    ("provider", "details", "cut_off"),
    [
        ("openai", None, True),
        ("google", {}, True),
        ("google", {"finish_reason": "STOP"}, False),
        ("google-cloud", {"block_reason": "SAFETY"}, False),
        ("mistral", None, False),
        ("openai", {"refusal": "No."}, False),
    ],
)
def test_a_stream_without_a_finish_reason_was_cut_off(provider, details, cut_off) -> None:
    """A response of a provider that reports a reason has one, or the reason why its prompt was blocked, or is a refusal."""
    finish = "content_filter" if details and "refusal" in details else None
    response = ModelResponse(
        [TextPart("It")], provider_name=provider, provider_details=details, finish_reason=finish
    )
    assert was_cut_off(response) is cut_off
