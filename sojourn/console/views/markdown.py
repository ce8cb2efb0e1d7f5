"""Markdown of models as HTML: made without the HTML in it, and cleaned of all but what Markdown can make."""

from functools import cache

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup

from sojourn.console.views.text import readable

__all__ = ["rendered", "spoken"]

_TAGS = {
    "a", "blockquote", "br", "code", "del", "em", "hr", "li", "ol", "p", "pre", "s", "strong",
    "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "p": {"class"}}
_SCHEMES = {"http", "https", "mailto"}


@cache
def _markdown() -> MarkdownIt:
    return (
        MarkdownIt("commonmark", {"html": False, "linkify": False})
        .enable(["table", "strikethrough"])
        .disable("image")
    )


def rendered(text: str) -> Markup:
    """The text as HTML that loads nothing and runs nothing; its links say nothing of this page, and open beside it."""
    parser = _markdown()
    tokens = parser.parse(readable(text))
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):  # the headings of a page are its own
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


def spoken(text: str, most: int = 1_000) -> str:
    """The words of a text without its Markdown, for a line; where it has none, as `#`, the text as it is."""
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
