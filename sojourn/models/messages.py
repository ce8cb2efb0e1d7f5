"""Conversion between a transcript and pydantic-ai's messages.

All that a provider must get back is preserved: signatures, ids and details (see `provider_metadata`), and
arguments as the model wrote them. A transcript is stored in Sojourn's types, so that a history does not
depend on the version of pydantic-ai. Only a part of an unknown kind (`model_part`) holds pydantic-ai's
JSON, and is left out when it can no longer be read.

A transcript from a client may not be well-formed. The messages sent always are:

- requests and responses alternate, beginning and ending with a request, if need be with a short text;
- each call is answered in the next request, in call order, before all other content. A call without an answer is
  marked as having no result; an answer without a call is left out;
- a call has the id that its provider knows, unless an earlier call has the same id.
"""

import json
import operator
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, count
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_ai import messages as theirs
from pydantic_core import to_json

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
from sojourn.contracts.tool_result import ToolResult
from sojourn.models.attachments import Shown, introduction
from sojourn.models.files import file_of, image_of, user_file
from sojourn.models.names import Names
from sojourn.models.provider_metadata import (
    citations_of,
    encodable,
    escape_surrogates,
    known_call_id,
    metadata_of,
    origin_of,
    plain_json,
    response_origin_of,
    with_response,
    without_state,
)

__all__ = ["Converter", "from_response", "is_prefix"]

_START = "(The conversation begins.)"
_GO_ON = "(Go on.)"

MAX_CALLS = 128
"""Most calls of one message: OpenAI refuses a conversation with more, even if its own model has made them."""

_UNANSWERED = "No result was recorded for this call."


def from_response(response: theirs.ModelResponse, names: Names, tokens: int | None = None) -> Message:
    """Return a model's response as an assistant message.

    Arguments that the model wrote as a text are not parsed: they are in `raw`, even if they are not JSON.
    """
    parts = [_part_of(part, names) for part in response.parts]
    if parts:
        first = parts[0]
        kept = with_response(first.provider_metadata, response, tokens)
        parts[0] = first.model_copy(update={"provider_metadata": kept})
    return Message(role="assistant", parts=parts)


class Converter:
    """Converts a growing transcript, its settled part only once."""

    def __init__(
        self,
        names: Names,
        result_text: Callable[[ToolResult], Any],
        files: Mapping[str, Shown] | None = None,
    ) -> None:
        self._names = names
        self._text = result_text
        self._files = files or {}
        self._begin()

    def _begin(self) -> None:
        self._read: list[Message] = []
        self._settled = _Converted(_Calls(self._names, self._text), self._files)

    def messages(self, transcript: Sequence[Message]) -> list[theirs.ModelMessage]:
        """Return a transcript as messages that begin and end with a request."""
        if not is_prefix(self._read, transcript):
            self._begin()
        done = len(self._read)
        until = _last_response(transcript, done)
        self._settled.add(transcript[done:until])
        self._read.extend(transcript[done:until])
        if self._settled.calls.is_matched:
            return self._settled.copy().add(transcript[until:]).messages()
        # An answer is not beside its call, and may be anywhere: nothing of it is converted for good.
        self._begin()
        return _Converted(_Calls(self._names, self._text), self._files).add(transcript).messages()


def is_prefix(read: Sequence[Message], transcript: Sequence[Message]) -> bool:
    """Return whether a transcript begins with these very objects."""
    return len(read) <= len(transcript) and all(map(operator.is_, read, transcript))


def _last_response(transcript: Sequence[Message], after: int) -> int:
    for index in range(len(transcript) - 1, after - 1, -1):
        if transcript[index].role == "assistant":
            return index
    return after


class _Converted:
    def __init__(self, calls: "_Calls", files: Mapping[str, Shown]) -> None:
        self.calls = calls
        self._files = files
        self._sent: list[theirs.ModelMessage] = []
        self._pending: list[theirs.ModelRequestPart] = []

    def copy(self) -> "_Converted":
        copied = _Converted(self.calls.copy(), self._files)
        copied._sent, copied._pending = [*self._sent], [*self._pending]
        return copied

    def add(self, messages: Sequence[Message]) -> "_Converted":
        self.calls.add_results(messages)
        for message in messages:
            if message.role != "assistant":
                self._pending.extend(_request_parts(message, self._files))
                continue
            origin = response_origin_of(message.parts)
            for parts, answers in _in_pieces(*_response_parts(message, self.calls)):
                self._sent += [
                    _request(self._pending, first=not self._sent),
                    theirs.ModelResponse(parts, **origin),
                ]
                self._pending = answers
                origin = without_state(origin)
        return self

    def messages(self) -> list[theirs.ModelMessage]:
        return [*self._sent, _request(self._pending, first=not self._sent)]


class _Calls:
    def __init__(self, names: Names, text: Callable[[ToolResult], Any], taken: Collection[str] = ()) -> None:
        self._names = names
        self._text = text
        self._taken_before = taken
        self._taken: set[str] = set()
        self._results: defaultdict[str, deque[ToolResult]] = defaultdict(deque)
        self._unmatched = 0

    @property
    def is_matched(self) -> bool:
        return not self._unmatched and not self._results

    def copy(self) -> "_Calls":
        return _Calls(self._names, self._text, self._taken)

    def add_results(self, messages: Sequence[Message]) -> None:
        for message in messages:
            for result in message.tool_results:
                self._results[result.tool_call_id].append(result)

    def pair(self, part: ToolCallPart) -> tuple[theirs.ToolCallPart, theirs.ToolReturnPart]:
        name, arguments = self._names.to_model(part.name, part.payload if part.raw is None else part.raw)
        own = part.tool_call_id
        ids = chain((known_call_id(part), own), (f"{own[:40]}-{n}" for n in count(2)))
        id = next(id for id in ids if id and id not in self._taken and id not in self._taken_before)
        self._taken.add(id)
        call = theirs.ToolCallPart(name, arguments, id, **origin_of(part))
        results = self._results.get(own)
        if not results:
            self._unmatched += 1
            return call, theirs.ToolReturnPart(name, _UNANSWERED, id, outcome="interrupted")
        result = results.popleft()
        if not results:
            del self._results[own]
        outcome = "success" if result.ok else "failed"
        return call, theirs.ToolReturnPart(name, self._text(result), id, outcome=outcome)


# Requests: messages of users and the system, and the results of tools.


def _request(parts: Sequence[theirs.ModelRequestPart], *, first: bool) -> theirs.ModelRequest:
    if first and all(isinstance(part, theirs.SystemPromptPart) for part in parts):
        return theirs.ModelRequest([*parts, theirs.UserPromptPart(_START)])
    return theirs.ModelRequest(parts or [theirs.UserPromptPart(_GO_ON)])


def _request_parts(message: Message, files: Mapping[str, Shown]) -> Iterator[theirs.ModelRequestPart]:
    content = [each for part in message.parts for each in _user_content(part, files)]
    if message.role == "system":
        if text := message.text:
            yield theirs.SystemPromptPart(text)
        content = [each for each in content if not isinstance(each, str)]
    if content:
        [only, *more] = content
        yield theirs.UserPromptPart(only if isinstance(only, str) and not more else content)


def _user_content(part: Part, files: Mapping[str, Shown]) -> Iterator[theirs.UserContent]:
    match part:
        case TextPart() if part.text:
            yield part.text
        case ImagePart() | DocumentPart() if part.attachment:
            shown = files.get(part.attachment.id)
            yield introduction(part.attachment, shown)
            if shown and not isinstance(shown, str):
                yield shown
        case ImagePart() | DocumentPart():
            yield user_file(part)
        case _:
            return


# Responses: messages of the model.


def _response_parts(
    message: Message, calls: _Calls
) -> tuple[list[theirs.ModelResponsePart], list[theirs.ModelRequestPart]]:
    parts: list[theirs.ModelResponsePart] = []
    answers: list[theirs.ModelRequestPart] = []
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            call, answer = calls.pair(part)
            parts.append(call)
            answers.append(answer)
        elif (sent_back := _response_part(part)) is not None:
            parts.append(sent_back)
    return parts, answers


def _in_pieces(
    parts: Sequence[theirs.ModelResponsePart], answers: Sequence[theirs.ModelRequestPart]
) -> Iterator[tuple[list[theirs.ModelResponsePart], list[theirs.ModelRequestPart]]]:
    """Yield a response and its answers in pieces of at most `MAX_CALLS` calls."""
    if not parts:
        return
    calls = [at for at, part in enumerate(parts) if isinstance(part, theirs.ToolCallPart)]
    begins = [0, *calls[MAX_CALLS::MAX_CALLS]]
    for number, (begin, end) in enumerate(zip(begins, [*begins[1:], len(parts)], strict=True)):
        first = number * MAX_CALLS
        yield [*parts[begin:end]], [*answers[first : first + MAX_CALLS]]


def _response_part(part: Part) -> theirs.ModelResponsePart | None:
    match part:
        case TextPart():
            return _response_text(part)
        case ThinkingPart():
            return theirs.ThinkingPart(part.text, signature=part.signature, **origin_of(part))
        case ImagePart() | DocumentPart():
            file = file_of(part)
            return (
                theirs.TextPart(file) if isinstance(file, str) else theirs.FilePart(file, **origin_of(part))
            )
        case OtherPart(type="model_part"):
            return _model_part(part)
        case _:
            return None


def _response_text(part: TextPart) -> theirs.TextPart | None:
    """Return the text, or None for an empty one without a signature or other details."""
    origin = origin_of(part)
    if not part.text and origin["provider_details"] is None:
        return None
    return theirs.TextPart(part.text, citations=citations_of(part), **origin)


def _part_of(part: theirs.ModelResponsePart, names: Names) -> Part:
    kept = metadata_of(part)
    match part:
        case theirs.TextPart():
            return TextPart(type="text", text=encodable(part.content), provider_metadata=kept)
        case theirs.ThinkingPart():
            signature = None if part.signature is None else encodable(part.signature)
            text = encodable(part.content)
            return ThinkingPart(type="thinking", text=text, signature=signature, provider_metadata=kept)
        case theirs.ToolCallPart():
            return _call(part, names, kept)
        case theirs.FilePart() if part.content.is_image:
            return image_of(part.content, kept)
        case _:
            return _other(part)


def _call(part: theirs.ToolCallPart, names: Names, kept: dict[str, Any] | None) -> ToolCallPart:
    sent = None if isinstance(part.args, str) else plain_json(part.args or {})
    if sent is None:
        sent = escape_surrogates(
            part.args if isinstance(part.args, str) else json.dumps(part.args, default=str)
        )
    id, arguments = names.to_tool(encodable(part.tool_name), sent)
    return ToolCallPart(
        type="tool_call",
        tool_call_id=encodable(part.tool_call_id),
        name=id,
        payload={} if isinstance(arguments, str) else arguments,
        raw=arguments if isinstance(arguments, str) else None,
        provider_metadata=kept,
    )


# Parts of a kind that Sojourn does not have.


def _other(part: theirs.ModelResponsePart) -> OtherPart:
    dumped = _any_part().dump_python(part, mode="json")
    return OtherPart.model_validate({"type": "model_part", "part": plain_json(dumped)})


def _model_part(part: OtherPart) -> theirs.ModelResponsePart | None:
    try:
        return _any_part().validate_json(to_json((part.model_extra or {}).get("part")))
    except (ValidationError, ValueError):
        return None


@cache
def _any_part() -> TypeAdapter[theirs.ModelResponsePart]:
    return TypeAdapter(theirs.ModelResponsePart)
