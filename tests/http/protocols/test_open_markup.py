"""What a model's text leaves open ends before anything follows it."""

import time
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from sojourn.http.protocols.markup import close_markup

PIECES = [
    "<!--", "-->", "<details>", "</details>", '<div title="', "<div title='", "<p ", ">", "<script>", "</script>", "<textarea>",
    "<style>", "<?x", "<![CDATA[", "<!X", "```", "~~~~", "- ", "> ", "    ", "\n", "\n\n", "a", "`", "<select>", "<svg>", "<title>",
]  # fmt: skip
MARKDOWN = MarkdownIt("commonmark", {"html": True})


class _Open(HTMLParser):
    """What is open where a word stands."""

    open: list[str]

    def of(self, html: str) -> list[str] | None:
        """The elements around the word that a page shows; None where it shows none."""
        self.open, self.found = [], None
        self.feed(html)
        self.close()
        return self.found

    def handle_starttag(self, tag, attrs):
        """An element; a paragraph ends the one before it."""
        if tag == "p":
            self.handle_endtag("p")
        self.open.append(tag)

    def handle_endtag(self, tag):
        """The end of an element, and of all in it."""
        if tag in self.open:
            del self.open[len(self.open) - 1 - self.open[::-1].index(tag) :]

    def handle_data(self, data):
        """A text."""
        if "AFTER" in data:
            self.found = list(self.open)


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
@example("```")
@example("<details>\n\n<!--\n\n")
@example("<!----><![CDATA[")  # Python 3.13.5 reads CDATA to its own end
def test_what_follows_is_a_paragraph_of_its_own(text: str) -> None:
    """Whatever a text opens, a paragraph after it is one, in no comment, and in no element that hides or is code."""
    html = MARKDOWN.render(f"{text}{close_markup(text)}\n\nAFTER")
    around = _Open().of(html)
    assert around is not None, html
    assert set(around) <= {"p", "blockquote", "ul", "li"}, html


@given(st.text(alphabet="ab *_#`\n1.-"))
def test_a_text_without_html_gets_at_most_the_end_of_its_block(text: str) -> None:
    """Nothing is added but the end of a block of code."""
    assert close_markup(text).strip("`\n") == ""


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
@example("```")
@example("~~~~~\n```")
@example("<!--\n```")
@example("- a\n  ```\n")
def test_what_follows_a_long_text_is_a_paragraph_too(text: str) -> None:
    """A text that is too long to be parsed is ended just as well."""
    html = MARKDOWN.render(f"{text}{close_markup(text, exact=0)}\n\nAFTER")
    around = _Open().of(html)
    assert around is not None, html
    assert set(around) <= {"p", "blockquote", "ul", "li"}, html


def test_no_text_takes_long_to_end(subtests: pytest.Subtests) -> None:
    """A megabyte of what a parser takes longest for is ended in a time that nobody else notices."""
    rows = [
        "<\n",
        "> > > > >\n",
        "> - " * 5 + "\n",
        "<div>\n\n",
        "<a>",
        "```\n\n",
        "<!--",
        "`",
        "<a-",
        "[a]: <b\n",
        "1. ",
        "> ",
        " ",
    ]
    for piece in rows:
        with subtests.test(str(piece)):
            text = piece * (1_000_000 // len(piece)) + "<b"
            began = time.process_time()
            close_markup(text)
            assert time.process_time() - began < 1
