"""Marks and ids of tasks in what models write are taken out, however the text comes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.http.protocols.openai.chat import _MARK
from sojourn.http.protocols.reply_token import (
    REMOVED,
    MarkFilter,
    ReplyToken,
    mark_of,
    remove_marks,
    remove_tokens,
)

MARK = mark_of(ReplyToken("run-1"))
PARTS = [MARK, MARK[:9], MARK[9:], "[//]: # (soj", "ourn:", "WyJy", ")", "[", "a", "\n\n"]


@given(st.lists(st.sampled_from(PARTS)).map("".join), st.lists(st.integers(0, 60)))
def test_no_text_has_a_mark_left_however_it_is_cut(text: str, cuts: list[int]) -> None:
    """What is sent of a text in pieces is what is sent of the whole, and has no mark, also not one made by what was taken out."""
    filter, sent, at = MarkFilter(), "", 0
    for cut in cuts:
        sent += filter.take(text[at : at + cut])
        at += cut
    sent += filter.take(text[at:]) + filter.end()
    assert sent == remove_marks(text)
    assert "(sojourn:" not in sent or "[//]: # (sojourn:" not in sent
    assert not _MARK.search(sent)


@given(st.text())
def test_a_text_without_a_mark_stays(text: str) -> None:
    """Every other text is sent as it is, at once but for what may be the beginning of a mark."""
    assert remove_marks(text) == text
    assert MarkFilter().take(text + "a") == text + "a"


@pytest.mark.parametrize("text", [f"a{MARK} b", f"call `answer` with task {ReplyToken('run-1').text} b"])
def test_ids_of_tasks_are_taken_out_too(text: str) -> None:
    """A text for a model of a host names no task of its own."""
    assert remove_tokens(text).endswith(f"{REMOVED} b")
    assert ReplyToken("run-1").text not in remove_tokens(text)
    assert remove_tokens("a" * 40) == "a" * 40
