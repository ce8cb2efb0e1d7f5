"""Texts, amounts and Markdown: what a page shows of what others wrote."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.console.views.markdown import plain_words, render_markdown
from sojourn.console.views.text import ago, ago_now, escape_hidden, exact, lines_of, short_number, size
from sojourn.values.visible import format_money, one_line, readable

NOW = datetime(2027, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_moment_is_told_by_its_largest_unit(subtests: pytest.Subtests) -> None:
    """In the words that the page's script uses too."""
    rows = [
        (0, "now"),
        (4, "now"),
        (5, "5 s ago"),
        (130, "2 min ago"),
        (-7_300, "in 2 h"),
        (-2 * 86_400 + 10, "in 2 d"),
        (200_000, "2 d ago"),
    ]
    for seconds, words in rows:
        with subtests.test(seconds=seconds, words=words):
            assert ago(NOW - timedelta(seconds=seconds), NOW) == words


def test_what_was_made_before_says_how_long_ago_it_is_now():
    """The moments of HTML that is kept are told anew, and nothing else is."""
    at = NOW - timedelta(seconds=90)
    html = f'<p>now <time class="faint" datetime="{at.isoformat()}" title="x" data-ago>now</time> now</p>'
    assert ago_now(html, NOW) == html.replace(">now</time>", ">1 min ago</time>")


def test_amounts_are_short_and_say_their_unit():
    """Numbers, money and sizes."""
    assert [format_money(each) for each in (None, 0, 0.0609, 0.00001, 12.5)] == [
        "",
        "$0",
        "$0.0609",
        "< $0.0001",
        "$12.50",
    ]
    assert [short_number(each) for each in (7, 1_000, 12_345, 2_000_000)] == ["7", "1k", "12.3k", "2M"]
    assert [size(each) for each in (12, 1_200, 3_400_000)] == ["12 bytes", "1.2 kB", "3.4 MB"]
    assert exact(NOW) == "2027-01-02 03:04:05 UTC"


def test_what_nobody_sees_is_written_out():
    """Direction marks, escape sequences and zero-width spaces, in prose too; letters and emojis stay whole."""
    hostile = "pay\u202egpj.exe \x1b[31mred\u200b"
    for made in (escape_hidden(hostile), readable(hostile)):
        assert made.isprintable()
        assert "\\u202e" in made
        assert "\\u001b" in made
    prose = "naïve 👩\u200d🚒 ❤\ufe0f\nnext"
    assert readable(prose) == prose
    assert len(readable("a" + "\u0301" * 1_000)) < 10


@given(st.text(), st.integers(5, 300))
def test_a_line_is_one_line_of_at_most_so_many_characters(text, most):
    """Whatever is in it."""
    line = one_line(text, most)
    assert len(line) <= most
    assert len(line.splitlines()) <= 1


@given(st.text(), st.integers(1, 100))
def test_a_beginning_is_one_and_says_whether_it_is_all(text, most):
    """It is never longer than asked for."""
    begin, is_whole = lines_of(text, most)
    assert text.startswith(begin)
    assert len(begin) <= most
    assert is_whole == (begin == text)


def test_markdown_is_never_markup_of_its_author(subtests: pytest.Subtests) -> None:
    """Tags are text, and no link or picture runs or loads anything."""
    rows = [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "[x](data:text/html,<script>alert(1)</script>)",
        "![x](https://elsewhere.invalid/x.png)",
        "<svg/onload=alert(1)>",
        "[a]: javascript:alert(1)\n\n[a]",
        "<style>*{display:none}</style>",
        "`<b>`\n\n    <i>",
    ]
    for hostile in rows:
        with subtests.test(hostile=hostile):
            made = str(render_markdown(hostile)).lower()
            for part in ("<script", "<img", "<svg", "<style", 'href="javascript', 'href="data', "<b>", "<i>"):
                assert part not in made


def test_markdown_has_what_models_write():
    """Tables, lists, code, links and headings, which are none of the page's; as a line it is its words."""
    made = str(
        render_markdown("# Title\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- x\n\n`c` [l](https://example.org)")
    )
    for part in ('<p class="heading">Title</p>', "<td>1</td>", "<li>x</li>", "<code>c</code>"):
        assert part in made
    assert 'rel="noopener noreferrer nofollow"' in made
    assert plain_words("**Site** has `d-3`\n\n| a |\n|---|\n| 1 |") == "Site has d-3 a 1"
    assert plain_words("#") == "#"
