"""Renderables that take one line of a live screen.

They are a call, which is cut to the width with its end in sight, and work in progress, whose text
is made at each drawing.
"""

from collections.abc import Callable

from rich.console import Console, ConsoleOptions, RenderResult
from rich.spinner import Spinner
from rich.text import Text

__all__ = ["CallLine", "Working"]


class CallLine:
    """A call on one line, such as `✓ ops.disks.wipe(disk="a") (9 ms)`.

    If the line is too long, its arguments are cut.

    Args:
        head: The text before the arguments.
        arguments: The arguments.
        tail: The text after the arguments.
        style: A style of rich.
    """

    def __init__(self, head: str, arguments: str, tail: str, style: str = "") -> None:
        self.head, self.arguments, self.tail, self.style = head, arguments, tail, style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the line in the available width."""
        shown = Text(self.arguments)
        around = Text(self.head).cell_len + Text(self.tail).cell_len
        shown.truncate(max(options.max_width - around, 1), overflow="ellipsis")
        text = self.head + shown.plain + self.tail
        yield Text(text, style=self.style, no_wrap=True, overflow="ellipsis")


class Working:
    """Work in progress, with a spinner on a live screen, or `…`.

    Args:
        text: Returns the current activity; called at each drawing.
        spins: Whether there is a spinner.
    """

    def __init__(self, text: Callable[[], str], *, spins: bool) -> None:
        self.text = text
        self._spinner = Spinner("dots") if spins else None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the spinner and the text."""
        mark = self._spinner.render(console.get_time()) if self._spinner else Text("…")
        assert isinstance(mark, Text)
        yield Text.assemble(mark, " ", (self.text(), "cyan"))
