"""Text from outside in Markdown: code spans and code blocks that the text cannot close."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from sojourn.values.visible import code, fence, inert, visible


def test_a_code_span_is_one_line_that_its_text_cannot_close(subtests: pytest.Subtests) -> None:
    """A span has more backticks than any run in its text, and a space where the text begins or ends with one."""
    rows = [
        ("plain", "`plain`"),
        ("a\n b", "`a b`"),
        ("a`b", "``a`b``"),
        ("`", "`` ` ``"),
        ("``x", "``` ``x ```"),
        ("", ""),
        ("\x00", "`\\u0000`"),
    ]
    for text, shown in rows:
        with subtests.test(text=text, shown=shown):
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


MARKUP = st.text(alphabet="`*_<>[]()&#;!|~\\\\$=-+1. \naé\u200b\u202e") | st.text()


@given(MARKUP)
@example("\\")
@example("a&lt")
def test_an_inert_text_is_itself_on_a_page_of_markdown(text: str) -> None:
    """Rendered as Markdown with HTML, what is seen of the text are its characters, on one line, and no element."""
    shown = inert(text)
    assert "\n" not in shown
    assert inert(shown) == shown
    tokens = (
        MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(f"Run {shown};?")
    )
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    assert [(part.type, part.content) for part in tokens[1].children or []] == [("text", f"Run {shown};?")]


@given(MARKUP)
@example(" -")
@example("  + a")
@example("   1.")
@example("  = =")
@example("    a")
@example("     - a")
def test_an_inert_text_begins_no_list_or_heading(text: str) -> None:
    """At the beginning of a line too, with white space before it or without, it is a paragraph."""
    shown = inert(text)
    for line in (shown, shown.strip(), f"   {shown.strip()}"):
        tokens = MarkdownIt("commonmark", {"html": True}).parse(line)
        assert {token.type for token in tokens} <= {"paragraph_open", "inline", "paragraph_close"}
