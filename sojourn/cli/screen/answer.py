"""Draw the text of an answer as Markdown for a terminal."""

from collections.abc import Sequence
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement

__all__ = ["Answer"]


class _Heading(Heading):
    """A heading on the left, as the text. Rich would center it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the heading."""
        self.text.justify = "left"
        yield self.text


class Answer(Markdown):
    """Lines of Markdown. A line of the text stays a line, and the address of a link is shown, not hidden behind its text.

    Args:
        lines: The lines, safe to print.
    """

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": _Heading}

    def __init__(self, lines: Sequence[str]) -> None:
        # Two spaces before its end keep a line a line.
        super().__init__("  \n".join(lines), hyperlinks=False)
