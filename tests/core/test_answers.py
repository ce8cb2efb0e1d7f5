"""Answers from people: taken when they answer the open question, refused with a reason else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import AwaitClarification
from sojourn.core.answers import MAX_ANSWER_CHARS, Answer, Refused, read_answer

QUESTION = AwaitClarification(id="fix-a.b.c#2", question="Which site?")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def read(value, question=QUESTION, closed=("fix-a.b.c",)):
    return read_answer(value, question, closed)


@pytest.mark.parametrize("id", [{}, {"id": ""}, {"id": None}, {"id": "fix-a.b.c#2"}], ids=str)
def test_an_answer_may_leave_the_id_out(id: dict) -> None:
    """The one open question is meant when no id is given."""
    assert read({**id, "answer": "s-1", "by": "ana"}) == Answer("fix-a.b.c#2", "s-1", "ana")


def test_values_by_field_are_kept_as_json() -> None:
    """An object of values is passed on as JSON, readable in any script."""
    assert read({"answer": {"site": "Zürich"}}) == Answer(QUESTION.id, '{"site": "Zürich"}', None)


@pytest.mark.parametrize("value", [None, "s-1", 3, [], [{"answer": "x"}]], ids=str)
def test_an_answer_is_an_object(value: object) -> None:
    """Whatever somebody types into Temporal's CLI is refused with the form that is wanted."""
    refused = read(value)
    assert isinstance(refused, Refused)
    assert '{"id": "...", "answer": "text"}' in refused.reason
    assert refused.kind == "InvalidAnswer"


@pytest.mark.parametrize("answer", [None, "", {}, 3, True, ["x"]], ids=str)
def test_an_empty_answer_is_none(answer: object) -> None:
    """An answer is a text or an object, and not empty."""
    refused = read({"answer": answer})
    assert isinstance(refused, Refused)
    assert refused.kind == "InvalidAnswer"
    assert "fix-a.b.c#2" in refused.reason


@pytest.mark.parametrize("by", [3, "x" * 201, ["ana"], ""], ids=lambda by: str(by)[:10])
def test_who_answers_is_a_name(by: object) -> None:
    """A name has at most 200 characters; an empty one says nothing and harms nothing."""
    answer = read({"answer": "x", "by": by})
    assert isinstance(answer, Answer if by == "" else Refused)


def test_an_answer_has_a_bounded_length() -> None:
    """At most 64,000 characters, as text or as JSON."""
    assert isinstance(read({"answer": "x" * MAX_ANSWER_CHARS}), Answer)
    for answer in ("x" * (MAX_ANSWER_CHARS + 1), {"a": "x" * MAX_ANSWER_CHARS}):
        refused = read({"answer": answer})
        assert isinstance(refused, Refused)
        assert "64,000" in refused.reason


def test_a_closed_question_takes_no_answer() -> None:
    """An answer to a question that was answered before is refused, and never used later (D-16)."""
    for question in (QUESTION, None):
        refused = read({"id": "fix-a.b.c", "answer": "late"}, question)
        assert refused == Refused("the question fix-a.b.c was answered before", "AwaitClosed")


def test_an_unknown_question_takes_no_answer() -> None:
    """An id that names no question is told from one that is closed, and the open one is named."""
    refused = read({"id": "other", "answer": "x"})
    assert isinstance(refused, Refused)
    assert refused.kind == "AwaitNotOpen"
    assert "fix-a.b.c#2" in refused.reason


def test_without_a_question_there_is_no_answer() -> None:
    """An answer to a run that asks nothing is refused."""
    assert read({"answer": "x"}, None) == Refused("the run has no open question", "AwaitNotOpen")


@given(JSON | st.fixed_dictionaries({}, optional={"id": JSON, "answer": JSON, "by": JSON, "more": JSON}))
def test_nothing_that_somebody_sends_raises(value: object) -> None:
    """A signal is read in workflow code, where an exception would stop the run for ever."""
    for question in (QUESTION, None):
        judged = read(value, question)
        assert isinstance(judged, (Answer, Refused))
        if isinstance(judged, Refused):
            assert len(judged.reason) < 500
