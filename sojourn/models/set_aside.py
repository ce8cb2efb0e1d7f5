"""Set aside: files and results that a model's provider refused are not sent again.

A provider refuses a request whole, for one picture or one result in it. If a run's request is refused, it is made again without what
may be the cause, step by step, and the plan records what was set aside. From then on models read a short text in its place, and the transcript keeps
it as it was.

1. the files of users since the last message of the model
2. the results of tools since then, if the refusal is of the content filter or speaks of a file
3. all older files of users: some providers take a picture once, and refuse it beside twenty others

What remains is the text of a person. A turn whose text is refused fails, and `sojourn.core.run.refused` leaves it out of later turns.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from temporalio.exceptions import ApplicationError

from sojourn.contracts.message import DocumentPart, ImagePart, Message, OtherPart, TextPart
from sojourn.core.run.refused import left_out
from sojourn.core.values.json_value import is_array
from sojourn.core.values.text import clip, counted

__all__ = ["SetAside", "steps_after", "without_set_aside"]

KIND = "set_aside"
"""The `type` of the part by which a message records it."""

_MAX_WHY = 300

_FILE_LEFT_OUT = "(A file was left out here, because the model's provider refused it.)"

_REFUSALS = ("ModelRejected", "ContentFiltered")

_OF_FILES = re.compile(r"image|picture|media|file|document|pdf|vision|pixel|base64|too large", re.IGNORECASE)

_What = Literal["files", "results"]


@dataclass(frozen=True)
class SetAside:
    """Messages of a transcript whose files, or whose results, models read no more."""

    what: _What
    indices: tuple[int, ...]
    """Indices of the messages in the transcript."""
    why: str = ""
    """The provider's refusal."""

    @property
    def part(self) -> OtherPart:
        """The part that records it in the message of the plan."""
        return OtherPart.model_validate(
            {"type": KIND, "what": self.what, "messages": [*self.indices], "why": clip(self.why, _MAX_WHY)}
        )

    @property
    def note(self) -> str:
        """The note for people who follow the run."""
        return (
            f"set aside: the {self.what} in {counted(len(self.indices), 'message')}, because the provider refused the request: "
            f"{clip(self.why, _MAX_WHY)}"
        )

    def applied(self, messages: Sequence[Message]) -> list[Message]:
        """Return a transcript with short texts in place of what is set aside."""
        wanted = set(self.indices)
        return [
            _without(message, self.what) if index in wanted else message
            for index, message in enumerate(messages)
        ]


def steps_after(messages: Sequence[Message], error: ApplicationError) -> list[SetAside]:
    """Return what may be set aside after a refusal, in this order; empty for any other error.

    Args:
        messages: The transcript of the request.
        error: Its error.
    """
    if error.type not in _REFUSALS:
        return []
    last = max((at for at, message in enumerate(messages) if message.role == "assistant"), default=-1)
    files = [at for at, message in enumerate(messages) if _has_files(message)]
    results = [at for at in range(last + 1, len(messages)) if messages[at].role == "tool"]
    is_of_result = error.type == "ContentFiltered" or _OF_FILES.search(error.message)
    found: list[tuple[_What, Sequence[int]]] = [
        ("files", [at for at in files if at > last]),
        ("results", results if is_of_result else ()),
        ("files", [at for at in files if at < last]),
    ]
    return [SetAside(what, tuple(indices), error.message) for what, indices in found if indices]


def without_set_aside(messages: Sequence[Message]) -> list[Message]:
    """Return a transcript without what its own messages record as set aside."""
    read = [*messages]
    for message in messages:
        for each in _recorded(message):
            read = each.applied(read)
    return read


def _recorded(message: Message) -> Iterator[SetAside]:
    if message.role != "assistant":
        return
    for part in message.parts:
        if not isinstance(part, OtherPart) or part.type != KIND:
            continue
        fields: dict[str, Any] = part.model_extra or {}
        what, indices = fields.get("what"), fields.get("messages")
        if what in ("files", "results") and is_array(indices):
            yield SetAside(what, tuple(at for at in indices if isinstance(at, int)))


def _has_files(message: Message) -> bool:
    return message.role == "user" and any(
        isinstance(part, (ImagePart, DocumentPart)) for part in message.parts
    )


def _without(message: Message, what: _What) -> Message:
    if what == "results":
        return left_out(message) if message.role == "tool" else message
    if not _has_files(message):
        return message
    parts = [
        TextPart(type="text", text=_FILE_LEFT_OUT) if isinstance(part, (ImagePart, DocumentPart)) else part
        for part in message.parts
    ]
    return message.model_copy(update={"parts": parts})
