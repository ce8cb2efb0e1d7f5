"""Markdown: what a model writes costs work in proportion to its length, whatever it is."""

import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.console.views import markdown
from sojourn.console.views.markdown import (
    HEAVIEST,
    MOST,
    PIECE,
    pieces_of,
    render_draft,
    render_markdown,
    weight,
)

SIGNS = ["[", "![", "*a ", "_a_", "`", "`a``", "<a", "&#", "> ", "- a\n", "|a", "[a](", "[a]", "**a*", "~~a", "\n", "\\[",
         "[x](http://a) ", "*a_ ", "<http://a", "](", "1. a\n", "+ a\n", "# a\n", "a\u0301\u0301\u0301\u0301\u0301"]  # fmt: skip


def nested(size: int) -> str:
    """A list in a list, as deep as there is room."""
    lines, depth = list[str](), 0
    while sum(map(len, lines)) < size:
        lines.append(f"{'  ' * depth}- a\n")
        depth += 1
    return "".join(lines)[:size]


def table(size: int) -> str:
    """A head with as many columns as the table has short rows."""
    columns = int((size / 4) ** 0.5 * 1.4)
    return f"{'|a' * columns}\n{'|-' * columns}\n{('|' + chr(10)) * size}"[:size]


def ticks(size: int) -> str:
    """Openings of code that nothing closes."""
    return " ".join("`" * many for many in range(1, size))[:size]


KINDS: list[Callable[[int], str]] = [
    *((lambda size, sign=sign: (sign * size)[:size]) for sign in SIGNS),
    nested,
    table,
    ticks,
]


def work(text: str) -> int:
    """How many functions rendering calls; the same on every machine."""
    calls = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        markdown._make(text)
    finally:
        sys.setprofile(None)
    return calls


def test_the_work_on_a_text_is_bounded(subtests: pytest.Subtests) -> None:
    """A text of any kind calls at most 90 functions for each unit of its weight; so the heaviest takes some 40 ms at most."""
    rows = range(len(KINDS))
    for kind in rows:
        with subtests.test(str(kind)):
            for size in (300, 1_500):
                text = KINDS[kind](size)
                done = work(text)
                assert done < 90 * weight(text) + 2_000, (size, done)
            large = KINDS[kind](MOST)
            if weight(large) > HEAVIEST:
                assert work(large) < 3 * len(large.splitlines()) + 50


def test_a_text_that_is_long_or_heavy_is_shown_as_it_is():
    """Nothing of it is lost, and nothing of it is markup."""
    for text in ("<b>*a*" * 10_000, "[" * (HEAVIEST + 1), "*a*\n\n" + "a" * MOST):
        html = render_markdown(text)
        assert html.startswith('<p class="plain">')
        assert html.striptags() == " ".join(text.split())
    assert "<strong>" in render_markdown("**a** " * 300)


def test_a_page_of_ordinary_prose_is_no_heavy_text():
    """Lists, code, links and a table of what a model writes in 20,000 characters are rendered."""
    ordinary = (
        "# Orders\n\nThere are **three** orders of *last* week, see [the list](https://example.org/orders) or `orders.csv`:\n\n"
        "- the first one, of 12 EUR, was sent on Monday and came on Thursday\n- the second one waits for its customer\n\n"
        "| order | paid | where |\n|---|---|---|\n| 1 | yes | Berlin |\n| 2 | no | Paris |\n\n```python\nfor order in orders:\n    send(order)\n```\n\n"
    )
    text = (ordinary * 60)[:MOST]
    assert weight(text) < HEAVIEST
    assert "<table>" in render_markdown(text)


@given(st.lists(st.sampled_from(["a" * 700, "\n", "\n\n", "```\n", "- b\n", "c " * 3_000]), max_size=30))
def test_the_pieces_of_a_draft_stay_while_it_grows(parts):
    """All pieces but the last two are those that were there before, and none is long."""
    text, before = "", list[str]()
    for part in parts:
        text += part
        pieces = pieces_of(text)
        assert "".join(pieces) == text
        assert all(len(piece) <= 4 * PIECE + 1 for piece in pieces)
        kept = before[:-1]
        assert pieces[: len(kept)] == kept
        before = pieces


def test_a_growing_draft_is_not_rendered_anew(monkeypatch):
    """With each of 600 pieces at most 8,000 characters are parsed, and all in all a small multiple of what a piece holds."""
    parsed = list[int]()
    made = markdown._make

    def counted(text):
        parsed.append(len(text))
        return made(text)

    monkeypatch.setattr(markdown, "_make", counted)
    text = ""
    for number in range(600):
        text += f"Line {number} of what is written, *slowly*.\n\n"
        parsed.clear()
        html = render_draft(text)
        assert sum(parsed) <= 4 * PIECE
    assert html.count("<em>slowly</em>") == 600
