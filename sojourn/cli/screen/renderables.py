"""Draw Markdown, a call on one line, and work in progress with rich."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement
from rich.spinner import Spinner
from rich.text import Text

__all__ = ["AnswerMarkdown", "CallLine", "Working"]


class _Heading(Heading):
    """A heading on the left: rich would center it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class AnswerMarkdown(Markdown):
    """Lines of Markdown. A line of the text stays a line, and the address of a link stays visible."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": _Heading}

    def __init__(self, lines: Sequence[str]) -> None:
        # Two spaces before its end keep a line a line.
        super().__init__("  \n".join(lines), hyperlinks=False)


class CallLine:
    """A call on one line, whose arguments are cut to the width."""

    def __init__(self, head: str, arguments: str, tail: str, style: str = "") -> None:
        self.head, self.arguments, self.tail, self.style = head, arguments, tail, style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = Text(self.arguments)
        around = Text(self.head).cell_len + Text(self.tail).cell_len
        shown.truncate(max(options.max_width - around, 1), overflow="ellipsis")
        text = self.head + shown.plain + self.tail
        yield Text(text, style=self.style, no_wrap=True, overflow="ellipsis")


class Working:
    """Work in progress, with a spinner on a live screen, or `…`."""

    def __init__(self, text: Callable[[], str], *, spins: bool) -> None:
        self.text = text
        self._spinner = Spinner("dots") if spins else None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        mark = self._spinner.render(console.get_time()) if self._spinner else Text("…")
        assert isinstance(mark, Text)
        yield Text.assemble(mark, " ", (self.text(), "cyan"))
