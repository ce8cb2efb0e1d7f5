"""Answers as sent: what is mended, and what is not touched."""

import copy
from typing import Any

import pytest

from sojourn.mcp.lenient_answers import is_answer, mend_answer


@pytest.mark.parametrize(
    "answer",
    [
        {"content": []},
        {"content": [{"type": "text", "text": "x", "annotations": {"priority": 1}}], "_meta": {"a": 1}},
        {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}], "isError": True},
        {"content": [{"type": "resource", "resource": {"uri": "x://1", "text": "t"}}]},
        {"content": [], "structuredContent": {"a": [1]}},
        {"content": [], "structuredContent": None},
    ],
    ids=range(6),
)
@pytest.mark.parametrize("is_modern", [True, False])
def test_an_answer_in_the_form_of_the_protocol_is_not_changed(
    answer: dict[str, Any], is_modern: bool
) -> None:
    """Whatever the protocol allows stays as the server sent it."""
    mended = copy.deepcopy(answer)
    mend_answer(mended, is_modern=is_modern)
    assert mended == answer


def test_a_structure_may_be_any_json_since_a_version() -> None:
    """Since 2026-07-28 a list is structured content; before, it is read from a text."""
    modern: dict[str, Any] = {"content": [], "structuredContent": [1]}
    older = copy.deepcopy(modern)
    mend_answer(modern, is_modern=True)
    mend_answer(older, is_modern=False)
    assert modern == {"content": [], "structuredContent": [1]}
    assert older == {"content": [{"type": "text", "text": "[1]"}]}


def test_other_results_are_no_answers() -> None:
    """A listing, the contents of a resource and a question of a tool have other fields."""
    for result in ({"tools": []}, {"contents": []}, {"resultType": "input_required"}, {}):
        assert not is_answer(result)
