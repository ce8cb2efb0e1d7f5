"""Ends for the markup that a model's text leaves open, so that it hides no call."""

import re
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

__all__ = ["close_markup"]

_AFTER = "after"
_TAG = re.compile(r"<([A-Za-z][A-Za-z0-9-]*)")
_MAY_OPEN = re.compile(r"<|```|~~~")
_HTML = re.compile(r"<[A-Za-z!/?]")
_ENDS = (("<!--", "-->"), ("<?", "?>"), ("<![CDATA[", "]]>"), ("<!", ">"))
_RAW = re.compile(r"<(script|pre|style|textarea)\b", re.IGNORECASE)

_OPEN = "<!-- \"']]> -->"
"""Raw HTML that shows nothing. It ends a comment, a CDATA section, and a tag whose attribute is open."""

_TEXTS = ("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes")
"""Elements with text as content: only their own end tag closes them."""

EXACT = 4_000
"""Longest text to parse, in characters.

A parser takes up to 5 ms for a thousand characters, on the event loop of all tenants.
"""

_FENCES = (re.compile(r"^ {0,3}(`{3,})", re.MULTILINE), re.compile(r"^ {0,3}(~{3,})", re.MULTILINE))

_ENDS_OF_BLOCKS = "<!-- ?> ]]> </script></style></pre></textarea> -->"
"""A comment that closes any open block of raw HTML before it."""

_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)


@cache
def _blocks() -> MarkdownIt:
    """Return a parser of blocks alone.

    Inline markup can take time that grows with the square of the text.
    """
    parser = MarkdownIt("commonmark", {"html": True})
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def close_markup(text: str, *, exact: int = EXACT) -> str:
    """Return the text that closes a model's open markup.

    It is empty for a short text that leaves nothing open. After a text longer than `exact` it closes everything
    that may be open, in time in proportion to the text, without parsing it.
    """
    if not _MAY_OPEN.search(text):
        return ""
    if len(text) > exact:
        return _ends_of_all(text)
    *blocks, last = _blocks().parse(f"{text}\n\n{_AFTER}")
    ends = "" if last.type == "paragraph_close" else f"\n{_end_of(last)}"
    markup = "\n".join(
        token.content
        for token in (*blocks, last)
        if token.type in ("html_block", "inline") and _HTML.search(token.content)
    )
    return ends + _ends_of_elements(markup) if markup else ends


def _ends_of_all(text: str) -> str:
    """Return the text that closes any block and element that a text may leave open.

    If it leaves none open, the result displays almost nothing.
    """
    ends = [_ENDS_OF_BLOCKS] if _HTML.search(text) else []
    for fence in _FENCES:
        if runs := fence.findall(text):
            mark = max(runs, key=len)
            # An end of a block has no word, so in an open block the first line is code. Otherwise it opens one.
            ends.append(f"{mark}end\n{mark}")
    elements = _ends_of_elements(text) if _HTML.search(text) else ""
    return "".join(f"\n\n{each}" for each in ends) + elements


def _ends_of_elements(markup: str) -> str:
    opened = [name.lower() for name in _TAG.findall(markup)]
    texts = "".join(f"</{name}>" for name in reversed(opened) if name in _TEXTS)
    rest = "".join(f"</{name}>" for name in reversed(opened) if name not in _VOID and name not in _TEXTS)
    # A line of raw HTML begins with its first tag. An empty comment counts as one, and ends at once.
    return f"\n\n{_OPEN}{texts}{rest}\n\n{_OPEN}"


def _end_of(block: Token) -> str:
    if block.type == "fence":
        return block.markup
    content = block.content.lstrip()
    if raw := _RAW.match(content):
        return f"</{raw[1]}>"
    return next((end for begin, end in _ENDS if content.startswith(begin)), "")
