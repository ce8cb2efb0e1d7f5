"""Lines about a turn of a conversation: its heading, messages and usage.

With them, what rich draws of a turn: Markdown, a call on one line, and work in progress.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement
from rich.spinner import Spinner
from rich.text import Text

from sojourn.cli.screen.calls import Detail
from sojourn.cli.screen.lines import name_of, usage_line, usage_text
from sojourn.cli.screen.text import Line, format_duration, local, plain, text_lines
from sojourn.contracts.message import Message, TextPart
from sojourn.timeline import Timeline, UserMessage, UserTurn, is_interruption
from sojourn.values.text import count_noun

__all__ = [
    "AnswerMarkdown",
    "Branch",
    "CallLine",
    "TurnLine",
    "Working",
    "accepted_lines",
    "branches_of",
    "heading",
    "joined_lines",
    "message_text",
    "opening_line",
    "opening_lines",
    "received_line",
    "summary",
    "waiting_lines",
]

_NOTICEABLE = timedelta(seconds=1)
"""Shortest wait of a message for its turn that the heading mentions."""

_WIDE = 100
"""Least width, in columns, of a line about a turn with the number of its calls."""

_LEAST = 20
"""Fewest columns of a message on a line, however long its sender's name is."""

_LEFT = "in another branch"
"""Mark of a turn after which the conversation does not go on."""

_SHOWN = 1_000
"""Most characters of a text that becomes a line."""


class TurnLine:
    """A turn that has ended, on one line: its message, its outcome and its usage."""

    def __init__(self, turn: UserTurn, *, is_left: bool = False) -> None:
        self._turn, self._is_left = turn, is_left

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        turn, width = self._turn, options.max_width
        mark, style = ("✗", "red") if turn.failure else ("✓", "green")
        when = turn.at.astimezone().strftime("%m-%d %H:%M")
        head, tail = (
            f"{mark} {plain(turn.id):<4} {when}  ",
            f" ({_briefly(turn, width, is_left=self._is_left)})",
        )
        said, became = Text(_text_of(turn)), Text(_became(turn))
        room = max(width - Text(head).cell_len - Text(tail).cell_len - 1, 2)
        if said.cell_len + became.cell_len > room:
            half = room // 2
            said.truncate(max(half, room - became.cell_len), overflow="ellipsis")
            became.truncate(max(room - said.cell_len, 1), overflow="ellipsis")
        yield Text.assemble(
            (head, style),
            said.plain,
            " ",
            (became.plain, style),
            (tail, "dim"),
            no_wrap=True,
            overflow="ellipsis",
        )


def heading(turn: UserTurn, detail: Detail = Detail.BRIEF, *, is_left: bool = False) -> Line:
    """Return the line above a turn.

    `is_left` says that the conversation went on in another branch.
    """
    senders = list(dict.fromkeys(filter(None, (_sender(each, detail) for each in turn.messages))))
    parts = [f"{plain(turn.id)}  {local(turn.at)}"]
    if senders:
        parts.append(f"by {', '.join(senders)}")
    if turn.waiting_time > _NOTICEABLE:
        parts.append(f"waited {format_duration(turn.waiting_time)}")
    if is_left:
        parts.append(_LEFT)
    return Line("  ".join(parts), "dim" if is_left else "bold")


def opening_lines(turn: UserTurn, detail: Detail = Detail.BRIEF) -> list[Line]:
    lines: list[Line] = []
    for message in turn.messages:
        lines += _message_lines(message.message)
        who = _sender(message, detail)
        if len(turn.messages) > 1 and who:
            lines.append(Line(f"· by {who}", "dim"))
    lines += [Line(f"· message {plain(each)}, whose text is not kept here", "dim") for each in turn.missing]
    return lines


def joined_lines(messages: Sequence[UserMessage], detail: Detail = Detail.BRIEF) -> list[Line]:
    lines: list[Line] = []
    for message in messages:
        lines += [*_message_lines(message.message), Line(f"· joins the turn{_by(message, detail)}", "dim")]
    return lines


def received_line(message: UserMessage, detail: Detail = Detail.BRIEF) -> Line:
    """Return the line about a message that is accepted while a turn is under way."""
    what = {"steer": "steers the turn", "interrupt": "interrupts the turn"}
    head = f"· {what.get(message.mode, 'waits for its turn')}{_by(message, detail)}"
    return Line(f"{head}: {plain(message_text(message.message), 100)}", "dim")


def accepted_lines(message: UserMessage, detail: Detail = Detail.BRIEF, *, is_behind: bool) -> list[Line]:
    """Return an accepted message, and whether it waits, steers or interrupts."""
    becomes = {"steer": "steers the turn", "interrupt": "interrupts the turn"}
    who = _sender(message, detail)
    about = [becomes.get(message.mode, "waits for its turn")] * is_behind + [f"by {who}"] * bool(who)
    return [*_message_lines(message.message), *([Line(f"· {', '.join(about)}", "dim")] if about else [])]


def opening_line(message: UserMessage, width: int, detail: Detail = Detail.BRIEF) -> Line:
    """Return the message that opens a turn on one line, cut to a width in columns."""
    who = _sender(message, detail)
    by = f" (by {who})" if who else ""
    said = Text(f"> {plain(message_text(message.message), _SHOWN)}")
    said.truncate(max(width - Text(by).cell_len, _LEAST), overflow="ellipsis")
    return Line(f"{said.plain}{by}")


def message_text(message: Message) -> str:
    """Return a message on one line, with images and documents by their kind."""
    return " ".join(" ".join(line.text for line in _message_lines(message)).removeprefix("> ").split())


def summary(turn: UserTurn, now: datetime | None = None) -> Line:
    if turn.end is None:
        return Line(
            f"so far {_usage_text(turn)}, {format_duration((now or datetime.now(UTC)) - turn.at)}", "dim"
        )
    return Line(f"{_usage_text(turn)}, took {format_duration(turn.end.at - turn.at)}", "dim")


def waiting_lines(
    messages: Sequence[UserMessage], most: int, detail: Detail = Detail.BRIEF, *, is_over: bool
) -> list[Line]:
    """Return the messages that have no turn, each on a line, the first ones."""
    if not messages:
        return []
    count = count_noun(len(messages), "message")
    verb = "waits" if len(messages) == 1 else "wait"
    first = f"{count} had no turn" if is_over else f"{count} {verb} for a turn"
    lines = [Line(first, "bold")]
    for message in messages[:most]:
        who = _sender(message, detail)
        by = f"by {who}, " if who else ""
        to = {"steer": ", steers", "interrupt": ", interrupts"}.get(message.mode, "")
        text = plain(message_text(message.message), 100)
        lines.append(Line(f"  > {text} ({by}{local(message.at)}{to})"))
        if detail:
            lines.append(Line(f"    id {plain(message.message_id, 300)}", "dim"))
    if len(messages) > most:
        lines.append(Line(f"  … {len(messages) - most} more", "dim"))
    return lines


def _sender(message: UserMessage, detail: Detail) -> str:
    name = name_of(message.by) if message.by else ""
    if message.identity and (detail or not name):
        identity = f"identity {name_of(message.identity)}"
        return f"{name} ({identity})" if name else identity
    return name


def _by(message: UserMessage, detail: Detail) -> str:
    who = _sender(message, detail)
    return f", by {who}" if who else ""


def _message_lines(message: Message) -> list[Line]:
    others = [f"({plain(part.type)})" for part in message.parts if not isinstance(part, TextPart)]
    return text_lines("\n".join(filter(None, [message.text, *others])), mark="> ")


def _text_of(turn: UserTurn) -> str:
    return plain(" ".join(message_text(each.message) for each in turn.messages), _SHOWN)


def _became(turn: UserTurn) -> str:
    if turn.failure:
        error = turn.failure.error
        if is_interruption(turn.failure):
            return f"✗ {plain(error.message, _SHOWN)}"
        return f"✗ {plain(list(error.chain())[-1].text, _SHOWN)}"
    if turn.end and (output := turn.end.output):
        limit = "" if output.reason == "answered" else f" ({output.reason})"
        return f"= {plain(' '.join(output.text.split()) + limit, _SHOWN)}"
    return ""


def _usage_text(turn: UserTurn) -> str:
    if turn.end and turn.end.output:
        return usage_text(turn.end.output)
    return usage_line(turn.calls, turn.spent.tokens, turn.spent.cost)


def _briefly(turn: UserTurn, width: int, *, is_left: bool) -> str:
    calls = [count_noun(turn.calls, "call")] if turn.calls and width >= _WIDE else []
    took = [format_duration(turn.end.at - turn.at)] if turn.end else []
    return ", ".join([*calls, *took, *[_LEFT] * is_left])


@dataclass(frozen=True, slots=True)
class Branch:
    """A turn beside which others began, and the line that offers it."""

    line: str
    key: str
    """The key of the turn."""


def branches_of(timeline: Timeline) -> list[Branch]:
    """Return the turns beside which others began, numbered from 1."""
    present = {turn.key for turn in timeline.path}
    found: list[Branch] = []
    for turns in timeline.alternatives:
        for turn in turns:
            sign = "*" if turn.key in present else " "
            line = f"{sign} {len(found) + 1}  {plain(turn.id)}  > {_text_of(turn)}"
            outcome = _became(turn)
            found.append(Branch(f"{line}  {outcome}".rstrip(), turn.key))
    return found


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
