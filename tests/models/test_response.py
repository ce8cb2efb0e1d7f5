"""What is read of a response: ids of its calls, and whether it was cut off."""

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

from sojourn.models.portable import fits_everywhere
from sojourn.models.response import was_cut_off, with_distinct_ids, without_repetitions


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
    ("second", "count"),
    [
        (ToolCallPart("pay", '{"to": "b", "n": 1}', "a"), 1),
        (ToolCallPart("pay", {"n": 1, "to": "b"}, "a"), 1),
        (ToolCallPart("pay", '{"n": 2, "to": "b"}', "a"), 2),
        (ToolCallPart("pay", '{"n": 1, "to": "b"}', "other"), 2),
        (ToolCallPart("refund", '{"n": 1, "to": "b"}', "a"), 2),
    ],
    ids=["as a text", "as an object", "other arguments", "another id", "another tool"],
)
def test_a_call_that_is_sent_twice_is_made_once(second: ToolCallPart, count: int) -> None:
    """Only the same id, tool and arguments are a repetition; a payment would be made twice."""
    response = ModelResponse([TextPart("Now."), ToolCallPart("pay", '{"n":1,"to":"b"}', "a"), second])
    read = without_repetitions(response)
    assert len(read.tool_calls) == count
    assert (read is response) is (count == 2)


def test_calls_without_ids_are_several() -> None:
    """Nothing says that one repeats the other, so a model may call a tool twice alike."""
    assert (
        len(
            without_repetitions(
                ModelResponse([ToolCallPart("add", {}, ""), ToolCallPart("add", {}, "")])
            ).parts
        )
        == 2
    )


@pytest.mark.parametrize("arguments", ['{"n": 1', "[" * 10_000, '{"n": 1e999, "m": 1}'])
def test_a_call_that_cannot_be_read_is_compared_as_it_is_written(arguments: str) -> None:
    """Nothing of arguments makes the comparison fail."""
    call = ToolCallPart("pay", arguments, "a")
    assert len(without_repetitions(ModelResponse([call, call])).tool_calls) == 1


def test_a_stream_without_a_finish_reason_was_cut_off(subtests: pytest.Subtests) -> None:
    """A response of a provider that reports a reason has one, or the reason why its prompt was blocked, or is a refusal."""
    rows = [
        ("openai", None, True),
        ("google", {}, True),
        ("google", {"finish_reason": "STOP"}, False),
        ("google-cloud", {"block_reason": "SAFETY"}, False),
        ("mistral", None, False),
        ("openai", {"refusal": "No."}, False),
    ]
    for provider, details, cut_off in rows:
        with subtests.test(provider=provider, details=details, cut_off=cut_off):
            finish = "content_filter" if details and "refusal" in details else None
            response = ModelResponse(
                [TextPart("It")], provider_name=provider, provider_details=details, finish_reason=finish
            )
            assert was_cut_off(response) is cut_off


@pytest.mark.parametrize(
    ("provider", "attempts"), [("google", [True, True, False]), ("openai", [True, True, True])]
)
def test_a_server_that_never_reports_an_end_is_not_asked_for_ever(
    provider: str, attempts: list[bool]
) -> None:
    """A stream of Google's has no other last event, so its end counts from the third attempt; those of others have one."""
    response = ModelResponse([TextPart("It")], provider_name=provider)
    assert [was_cut_off(response, attempt) for attempt in (1, 2, 3)] == attempts
    assert was_cut_off(ModelResponse([], provider_name=provider), 3)
