"""Retries of a refused request without what its provider may have refused.

A provider refuses a request whole, for one picture or one result in it. Each further attempt leaves out its
own part of the transcript alone, so that nothing is left out that the provider takes. The plan records what
the accepted request was made without. From then on models read a short text in its place; the transcript
stays.

1. the messages of turns that failed because their provider refused them, since the model's last message
2. the model's own reasoning, if the refusal speaks of it: it is sent back as a courtesy, and never needed
3. the files of users since the last message of the model
4. the results of tools since then, one at a time, then together; those of tools that change something come last. What stays says how the call ended
5. all older files of users: some providers take a picture once, and refuse it beside twenty others
6. the arguments of the last calls, one at a time, if the refusal speaks of them
7. the model's own reasoning, whatever the refusal says
8. the messages of older turns that failed so
9. all of this together

What remains is the text of a person. A turn whose text is refused fails, and makes its messages suspects of
later turns. What a content filter refused in a failed turn is left out of later turns at once (see
`sojourn.core.run.set_aside`).
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from temporalio.exceptions import ApplicationError

from sojourn.contracts.message import (
    DocumentPart,
    ImagePart,
    Message,
    OtherPart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from sojourn.contracts.wire_names import SET_ASIDE
from sojourn.core.run.set_aside import leave_out, records_in, suspects_in
from sojourn.models.provider_metadata import without_origin
from sojourn.values.json_value import is_array
from sojourn.values.text import clip, count_noun

__all__ = ["SetAside", "attempts_after", "filter_refused", "without_set_aside"]

_MAX_WHY = 300

_MAX_LISTED = 10

_WHY_FILTERED = "the content filter of the provider refused the turn"

_FILE_LEFT_OUT = "(A file was left out here, because the model's provider refused it.)"

_ARGUMENTS_LEFT_OUT = "The arguments were left out here, because the model's provider refused them."

_REFUSALS = ("ModelRejected", "ContentFiltered")

_OF_THINKING = re.compile(r"thinking|reasoning|thought|signature|encrypted|\brs_\w", re.IGNORECASE)

_OF_CALLS = re.compile(r"tool_?calls?\b|tool_use|function_?call\b|arguments", re.IGNORECASE)

_OF_SETTINGS = re.compile(
    r"\b(?:temperature|top_[pk]|max_(?:completion_|output_)?tokens|(?:frequency|presence)_penalty|logit_bias"
    r"|tool_choice|parallel_tool_calls|service_tier|stop_sequences|reasoning[._]effort|budget_tokens|response_format|verbosity"
    r"|generation_?config|(?:top_)?logprobs|stream_options)\b",
    re.IGNORECASE,
)
"""Settings of a request: a refusal that names one is of no content."""

_MOST_SINGLE = 8
"""Most attempts that each leave out one call; of more calls, each leaves out several."""

_Leaving = Literal["messages", "files", "results", "arguments", "thinking"]
_LEAVING: tuple[_Leaving, ...] = get_args(_Leaving)


@dataclass(frozen=True)
class SetAside:
    """Content of some messages of a transcript that models no longer read."""

    what: _Leaving
    indices: tuple[int, ...]
    why: str = ""
    calls: tuple[str, ...] = ()
    """The calls whose results or arguments are meant; empty for all in the messages."""

    @property
    def part(self) -> OtherPart:
        fields = {"what": self.what, "messages": [*self.indices], "why": clip(self.why, _MAX_WHY)}
        of_calls = {"calls": [*self.calls]} if self.calls else {}
        return OtherPart.model_validate({"type": SET_ASIDE, **fields, **of_calls})

    @property
    def note(self) -> str:
        of_calls = f"{count_noun(len(self.calls), 'call')} in " if self.calls else ""
        of_messages = count_noun(len(self.indices), "message")
        listed = ", ".join(map(str, self.indices[:_MAX_LISTED]))
        what = (
            f"{of_messages} ({listed})"
            if self.what == "messages"
            else f"the {self.what} {'of' if self.calls else 'in'} {of_calls}{of_messages}"
        )
        return f"set aside: {what}, because the provider refused the request: {clip(self.why, _MAX_WHY)}"

    def apply(self, messages: Sequence[Message]) -> list[Message]:
        wanted = set(self.indices)
        return [
            _without(message, self.what, self.calls) if index in wanted else message
            for index, message in enumerate(messages)
        ]


def attempts_after(
    messages: Sequence[Message], error: ApplicationError, reads: Collection[str] = ()
) -> list[tuple[SetAside, ...]]:
    """Return the messages that each further attempt at a refused request leaves out."""
    if error.type not in _REFUSALS:
        return []
    why = error.message
    last = max((at for at, message in enumerate(messages) if message.role == "assistant"), default=-1)
    files = [at for at, message in enumerate(messages) if _has_files(message)]
    reasoning = [at for at, message in enumerate(messages) if _has_thinking(message)]
    attempts = [
        *_files([at for at in files if at > last], why),
        *([] if _OF_SETTINGS.search(why) else _results(messages, last, why, reads)),
        *_files([at for at in files if at < last], why),
        *(_arguments(messages, last, why) if _OF_CALLS.search(why) else []),
    ]
    if reasoning and not _OF_SETTINGS.search(why):
        thinking = SetAside("thinking", tuple(reasoning), why)
        attempts.insert(0 if _OF_THINKING.search(why) else len(attempts), thinking)
    if not _OF_SETTINGS.search(why):
        suspects, known = suspects_in(messages), _set_aside_whole(messages)
        earlier = [at for at in suspects.earlier if at not in known]
        attempts = [*_messages(suspects.recent, why), *attempts, *_messages(earlier, why)]
    every = _widest(attempts)
    return [*((each,) for each in attempts), *([every] if len(every) > 1 else [])]


def filter_refused(messages: Sequence[Message]) -> tuple[SetAside, ...]:
    """Return the step that leaves out turns refused by a content filter."""
    known = _set_aside_whole(messages)
    indices = [at for at in suspects_in(messages).filtered if at not in known]
    return tuple(_messages(indices, _WHY_FILTERED))


def _set_aside_whole(messages: Sequence[Message]) -> set[int]:
    return {at for each in _read_records(messages) if each.what == "messages" for at in each.indices}


def _messages(indices: Sequence[int], why: str) -> list[SetAside]:
    return [SetAside("messages", tuple(indices), why)] if indices else []


def _files(indices: Sequence[int], why: str) -> list[SetAside]:
    return [SetAside("files", tuple(indices), why)] if indices else []


def _results(messages: Sequence[Message], last: int, why: str, reads: Collection[str]) -> list[SetAside]:
    """Return the attempts for results since the last message of the model."""
    found = [
        (at, result)
        for at in range(last + 1, len(messages))
        if messages[at].role == "tool"
        for result in messages[at].tool_results
    ]
    found.sort(key=lambda each: each[1].name not in reads)
    return _one_at_a_time("results", [(at, result.tool_call_id) for at, result in found], why)


def _arguments(messages: Sequence[Message], last: int, why: str) -> list[SetAside]:
    newest = next((at for at in range(last, -1, -1) if messages[at].tool_calls), None)
    if newest is None:
        return []
    return _one_at_a_time(
        "arguments", [(newest, call.tool_call_id) for call in messages[newest].tool_calls], why
    )


def _one_at_a_time(what: _Leaving, places: Sequence[tuple[int, str]], why: str) -> list[SetAside]:
    size = -(-len(places) // _MOST_SINGLE) or 1
    groups = [places[at : at + size] for at in range(0, len(places), size)]
    groups += [places] if len(groups) > 1 else []
    return [
        SetAside(what, tuple(sorted({at for at, _ in group})), why, tuple(call for _, call in group))
        for group in groups
    ]


def _widest(attempts: Sequence[SetAside]) -> tuple[SetAside, ...]:
    """Return the widest attempt of each kind, new and old ones apart."""
    files = tuple(each for each in attempts if each.what in ("messages", "files"))
    others = {each.what: each for each in attempts if each.what not in ("messages", "files", "thinking")}
    thinking = tuple(each for each in attempts if each.what == "thinking")
    return (*files, *others.values(), *thinking)


def without_set_aside(messages: Sequence[Message]) -> list[Message]:
    read = [*messages]
    for each in _read_records(messages):
        read = each.apply(read)
    return read


def _read_records(messages: Sequence[Message]) -> Iterator[SetAside]:
    for _, fields in records_in(messages, "assistant"):
        what, indices, calls = fields.get("what"), fields.get("messages"), fields.get("calls", [])
        if what in _LEAVING and is_array(indices) and is_array(calls):
            at = tuple(index for index in indices if isinstance(index, int))
            yield SetAside(what, at, calls=tuple(id for id in calls if isinstance(id, str)))


def _has_files(message: Message) -> bool:
    return message.role == "user" and any(
        isinstance(part, (ImagePart, DocumentPart)) for part in message.parts
    )


def _has_thinking(message: Message) -> bool:
    return message.role == "assistant" and any(isinstance(part, ThinkingPart) for part in message.parts)


def _without(message: Message, what: _Leaving, calls: Collection[str]) -> Message:
    match what:
        case "messages":
            return leave_out(message)
        case "results":
            return leave_out(message, calls) if message.role == "tool" else message
        case "arguments":
            parts: list[Part] = [_without_arguments(part, calls) for part in message.parts]
        case "thinking":
            if message.role != "assistant":
                return message
            parts = [without_origin(part) for part in message.parts if not isinstance(part, ThinkingPart)]
        case "files":
            if not _has_files(message):
                return message
            parts = [
                TextPart(type="text", text=_FILE_LEFT_OUT)
                if isinstance(part, (ImagePart, DocumentPart))
                else part
                for part in message.parts
            ]
    return message.model_copy(update={"parts": parts})


def _without_arguments(part: Part, calls: Collection[str]) -> Part:
    if not isinstance(part, ToolCallPart) or (calls and part.tool_call_id not in calls):
        return part
    return part.model_copy(update={"payload": {"left_out": _ARGUMENTS_LEFT_OUT}, "raw": None})
