"""Render the Markdown of models as safe HTML.

HTML in the text is not rendered, and the output is cleaned of everything that Markdown cannot make.

Others may control what a model writes. The work on a text is therefore bounded: its signs are counted
before it is parsed. A page renders its texts in a thread first (`prepare`), since many bounded texts would
block the event loop too.
"""

import re
from collections.abc import Iterable
from functools import cache

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup

from sojourn.reader import Cache
from sojourn.serving.pace import run_in_thread
from sojourn.values.visible import readable

__all__ = ["MOST", "pieces_of", "plain_words", "prepare", "render_draft", "render_markdown", "weight"]

MOST = 20_000
"""Longest text to render as Markdown. A longer one stays plain text."""

HEAVIEST = 10_000
"""Largest `weight` of a text that is read as Markdown.

A heavier one stays plain text.
"""

PIECE = 2_000
"""Length from which a piece of a draft ends at the next empty line."""

LITTLE = 40
"""Length up to which a text is rendered at once, and not cached."""

REMEMBERED = 8_000_000
"""Most characters of HTML that are cached."""

_TAGS = {
    "a", "blockquote", "br", "code", "del", "em", "hr", "li", "ol", "p", "pre", "s", "strong",
    "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "p": {"class"}}
_SCHEMES = {"http", "https", "mailto"}

_SIGNS = re.compile(r"[][!*_`<>&~|\\\n+-]")
"""Characters that may have a meaning in Markdown."""

_BELOW_HEAD = frozenset("|:- \t>")
"""Characters of the line below the head of a table."""

_FENCE = re.compile(r"[ >]*(```|~~~)")


@cache
def _markdown() -> MarkdownIt:
    return (
        MarkdownIt("commonmark", {"html": False, "linkify": False})
        .enable(["table", "strikethrough"])
        .disable("image")
    )


def weight(text: str) -> int:
    """Estimate the work of rendering a text as Markdown.

    It counts the text's signs, its lines, and the cells of its tables. A table has as many cells as its
    head has columns times its rows, however short the rows are.
    """
    lines = text.split("\n")
    found = len(_SIGNS.findall(text)) + 2 * text.count("[") + 3 * len(lines)
    columns = 0
    for line in lines:
        if not line.strip(" \t>"):
            columns = 0
        elif "|" in line and "-" in line and _BELOW_HEAD.issuperset(line):
            columns = max(columns, line.count("|") + 1)
        found += 2 * columns
    return found


_cache: Cache[str, Markup] = Cache(REMEMBERED, weigh=len)


def render_markdown(text: str) -> Markup:
    """Render a text as HTML that loads nothing and runs nothing.

    Its links send no referrer, and open in another tab. A text that is too long or too heavy is shown as
    it is, with its line breaks.
    """
    if len(text) > MOST:
        return _plain(text)
    if len(text) <= LITTLE:
        return _make(text)
    html = _cache.peek(text)
    if html is None:
        html = _make(text)
        _cache.put(text, html)
    return html


def _plain(text: str) -> Markup:
    return Markup('<p class="plain">{}</p>').format(readable(text))


def _make(text: str) -> Markup:
    plain = readable(text)
    if weight(plain) > HEAVIEST:
        return Markup('<p class="plain">{}</p>').format(plain)
    parser = _markdown()
    tokens = parser.parse(plain)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):  # only the page itself has headings
            token.tag = "p"
            if token.nesting == 1:
                token.attrSet("class", "heading")
    made: str = parser.renderer.render(tokens, parser.options, {})
    cleaned = nh3.clean(
        made,
        tags=_TAGS,
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        url_schemes=_SCHEMES,
        link_rel="noopener noreferrer nofollow",
    )
    return Markup(cleaned)  # noqa: S704 - nh3 has cleaned it


async def prepare(texts: Iterable[str]) -> None:
    """Render texts in a thread, so that `rendered` finds them in its cache."""
    wanted = {text for text in texts if LITTLE < len(text) <= MOST and _cache.peek(text) is None}
    if wanted:
        for text, html in await run_in_thread(lambda: [(each, _make(each)) for each in wanted]):
            _cache.put(text, html)


def render_draft(text: str) -> Markup:
    """Render a growing text as HTML.

    Only the last piece is rendered again. The pieces before it come from the cache.
    """
    return Markup("").join(render_markdown(piece) for piece in pieces_of(text))


def pieces_of(text: str) -> list[str]:
    """Split a growing text into pieces, which stay the same except for the last one.

    A piece ends at an empty line that is in no fence, or at the latest when it is twice `PIECE` long.
    """
    pieces = list[str]()
    begin = at = 0
    is_fenced = False
    for line in text.splitlines(keepends=True):
        if _FENCE.match(line):
            is_fenced = not is_fenced
        at += len(line)
        while at - begin > 4 * PIECE:
            pieces.append(text[begin : begin + 4 * PIECE])
            begin += 4 * PIECE
        if (
            line.endswith("\n")
            and at - begin >= PIECE
            and (at - begin >= 2 * PIECE or not (line.strip() or is_fenced))
        ):
            pieces.append(text[begin:at])
            begin = at
    return [*pieces, text[begin:]] if begin < len(text) else pieces


def plain_words(text: str, most: int = 1_000) -> str:
    """Return the words of a text without its Markdown, for one line.

    If it has no words, as in `#`, return the text as it is.
    """
    blocks = [
        token for token in _markdown().parse(text[:most]) if token.type in ("inline", "fence", "code_block")
    ]
    words = " ".join(
        "".join(" " if part.type in ("softbreak", "hardbreak") else part.content for part in block.children)
        if block.children
        else block.content
        for block in blocks
    )
    return words if words.strip() else text[:most]
