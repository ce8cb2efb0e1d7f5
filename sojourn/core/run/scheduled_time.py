"""Fill in `{scheduled_at}`, the time at which a schedule acts, in its messages.

The server starts each run and each message with the same input. Only the workflow's id has the time, so the
workflow, the activity that sends a message, and readers of the history fill in the placeholder. The zone's rules are those of the machine that reads.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from sojourn.contracts.ids import split_scheduled_id
from sojourn.contracts.message import Message, Part, TextPart
from sojourn.contracts.run import RunInput

__all__ = [
    "fill_longest",
    "fill_message",
    "fill_opening",
    "fill_text",
    "format_fault",
    "has_scheduled_time",
]

_PLACEHOLDER = re.compile(r"\{(\{scheduled_at(?::[^{}]*)?\})\}|\{scheduled_at(?::([^{}]*))?\}")
"""A placeholder in doubled braces is text."""

MAX_FORMAT = 100
"""Longest format of the time, in characters."""

_FORMAT = re.compile(r"(?:[^%]|%[-_0^#]?[A-Za-z%])*")
"""A format of `strftime` without widths, which would make a time of any length."""

_LONGEST = datetime(2026, 9, 30, 22, 58, 59, tzinfo=UTC)
"""A Wednesday in September, whose names are the longest in English."""


def has_scheduled_time(messages: Sequence[Message]) -> bool:
    """Return whether the text of a message has the placeholder."""
    return any(_PLACEHOLDER.search(text) for text in _texts(messages))


def format_fault(messages: Sequence[Message]) -> str | None:
    """Return why a format of the placeholder is refused, or None."""
    for text in _texts(messages):
        for match in _PLACEHOLDER.finditer(text):
            if len(match[2] or "") > MAX_FORMAT:
                return f"the format of {{scheduled_at}} has at most {MAX_FORMAT} characters"
            if not _FORMAT.fullmatch(match[2] or ""):
                return f"in the format of {{scheduled_at}} a letter or a % follows each %, unlike in {match[2]!r}"
    return None


def fill_longest(messages: Sequence[Message], time_zone: str) -> list[Message]:
    """Return the messages with a long time filled in, to check their size."""
    return [_fill_in(each, _LONGEST.astimezone(_zone(time_zone))) for each in messages]


def fill_opening(run: RunInput, workflow_id: str) -> RunInput:
    """Return the input of a run with the time of its schedule filled in."""
    if run.time_zone is None:
        return run
    messages = [fill_message(each, run.time_zone, workflow_id) for each in run.messages]
    return run.model_copy(update={"messages": messages, "time_zone": None})


def fill_message(message: Message, time_zone: str, workflow_id: str) -> Message:
    """Return the message with the time at which the workflow was due.

    The time is in the zone of the schedule.
    """
    scheduled = split_scheduled_id(workflow_id)
    if scheduled is None:
        return message
    return _fill_in(message, datetime.fromisoformat(scheduled[1]).astimezone(_zone(time_zone)))


def fill_text(text: str, time_zone: str, workflow_id: str) -> str:
    """Return the text of a message with the time at which the workflow was due."""
    return fill_message(Message.user(text), time_zone, workflow_id).text


def _fill_in(message: Message, due: datetime) -> Message:
    parts: list[Part] = [
        part.model_copy(update={"text": _fill(part.text, due)}) if isinstance(part, TextPart) else part
        for part in message.parts
    ]
    return message.model_copy(update={"parts": parts})


def _fill(text: str, due: datetime) -> str:
    def write(match: re.Match[str]) -> str:
        if match[1]:
            return match[1]
        return due.strftime(match[2]) if match[2] else due.isoformat()

    return _PLACEHOLDER.sub(write, text)


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # this machine does not know the zone
        return UTC


def _texts(messages: Sequence[Message]) -> list[str]:
    return [part.text for each in messages for part in each.parts if isinstance(part, TextPart)]
