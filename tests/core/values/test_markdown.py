"""Text from outside in Markdown: code spans and code blocks that the text cannot close."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.core.values.visible import code, fence, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "`plain`"),
        ("a\n b", "`a b`"),
        ("a`b", "``a`b``"),
        ("`", "`` ` ``"),
        ("``x", "``` ``x ```"),
        ("", ""),
        ("\x00", "`\\u0000`"),
    ],
)
def test_a_code_span_is_one_line_that_its_text_cannot_close(text: str, shown: str) -> None:
    """A span has more backticks than any run in its text, and a space where the text begins or ends with one."""
    assert code(text) == shown


@given(st.text(alphabet="`a \n\x1b", max_size=12))
def test_the_backticks_around_a_span_are_not_in_its_text(text: str) -> None:
    """By CommonMark a span ends at the next run of as many backticks, and none of that length is inside."""
    span = code(text)
    if span:
        runs = re.findall("`+", span)
        assert runs[0] == runs[-1]
        assert runs[0] not in runs[1:-1]
        assert span.strip("`").strip() or "`" in text


@given(st.text(alphabet="`a \n\x1b", max_size=12))
def test_a_block_ends_with_its_last_line(text: str) -> None:
    """No line inside a block is a fence that closes it."""
    first, *inside, last = fence(text).split("\n")
    assert first == last
    assert "\n".join(inside) == visible(text, keep="\n")
    assert not any(re.fullmatch(rf" {{0,3}}`{{{len(first)},}} *", line) for line in inside)
