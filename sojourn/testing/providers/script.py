"""The parts of a script, which are answers and faults, and function models.

They are the same for every protocol. Each is a pydantic model, so that a script can be sent to another
process as JSON.
"""

import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, cast

from pydantic import BeforeValidator, Field, NonNegativeInt, TypeAdapter

from sojourn.contracts.tool_call import ToolRequest
from sojourn.testing.providers.request import Item, Request, ToolCall

__all__ = [
    "SCRIPT",
    "Body",
    "Completion",
    "ErrorKind",
    "HttpError",
    "Part",
    "Refusal",
    "ReportedUsage",
    "ScriptedResponse",
    "Task",
    "Text",
    "Thinking",
    "as_answer",
    "calls",
    "counts",
    "fails",
    "load",
    "natural_finish",
    "object_of",
    "pieces",
    "repairs",
    "says",
]

ErrorKind = Literal[
    "bad_request",
    "content_filter",
    "context_length",
    "forbidden",
    "image",
    "overloaded",
    "quota",
    "rate_limit",
    "server_error",
    "unauthorized",
    "unknown_model",
]
"""The errors of providers; each protocol has a status and a body for each."""


class Text(Item):
    """A text of the answer."""

    kind: Literal["text"] = "text"
    text: str


class Thinking(Item):
    """Thinking of the model, which Chat Completions leaves out."""

    kind: Literal["thinking"] = "thinking"
    text: str
    signature: str = "c2lnbmVk"
    """Anthropic's signature, or the encrypted content of a reasoning item of Responses."""


class Refusal(Item):
    """A refusal of the model, with its text."""

    kind: Literal["refusal"] = "refusal"
    text: str


Part = Annotated[Text | Thinking | ToolCall | Refusal, Field(discriminator="kind")]


class ReportedUsage(Item):
    """Tokens of a request."""

    input: NonNegativeInt = 10
    """Input tokens, including those read from the cache, for every protocol."""
    output: NonNegativeInt = 5
    written: NonNegativeInt = 0
    """Input tokens written to the cache, which only Anthropic's format has."""
    cached: NonNegativeInt = 0


class ScriptedResponse(Item):
    """The fields of every answer."""

    delay: float = 0
    headers: dict[str, str] = Field(default_factory=dict[str, str])


class Completion(ScriptedResponse):
    """The model's answer."""

    kind: Literal["completion"] = "completion"
    parts: tuple[Part, ...] = ()
    finish: str | None = None
    """The finish reason: `stop`, `tool_call`, `length` and `content_filter` are sent as the protocol's own
    value, any other unchanged. None is the one that follows from the parts.
    """
    usage: ReportedUsage = ReportedUsage()
    piece: int = Field(default=12, gt=0)
    """Most characters of a streamed delta."""
    pace: float = 0
    hold: float | None = Field(default=None, ge=0, lt=1)
    """The fraction of the answer after which it waits for `release()`; 0 waits before the first byte."""
    cut: float | None = Field(default=None, ge=0, lt=1)
    """The fraction of the answer after which the connection is closed; 0 closes it before the first byte."""
    ends: float | None = Field(default=None, gt=0, lt=1)
    """The fraction of the answer that is sent as if it were complete."""
    breaks: ErrorKind | None = None
    """The error that a stream sends halfway, in place of the rest. An unstreamed answer is this error."""


class HttpError(ScriptedResponse):
    """A refusal of the request, with the provider's own error body."""

    kind: Literal["http_error"] = "http_error"
    error: ErrorKind
    status: int | None = None
    """The status; None is the provider's own status for this error."""


class Body(ScriptedResponse):
    """A response with any body, such as one that is no JSON, or an empty one."""

    kind: Literal["body"] = "body"
    content: str = ""
    status: int = 200
    content_type: str = "application/json"


AnyAnswer = Annotated[Completion | HttpError | Body, Field(discriminator="kind")]


def says(text: str, **fields: Any) -> Completion:
    """Return an answer with a text. `fields` are those of `Completion`."""
    return Completion(parts=(Text(text=text),), **fields)


def calls(*tool_calls: ToolCall | ToolRequest, **fields: Any) -> Completion:
    """Return an answer with tool calls.

    Args:
        tool_calls: Calls as the provider sends them, or as a Sojourn tool makes them: `calls(read_order.call(order_id=7))`.
        fields: Fields of `Completion`.
    """
    return Completion(parts=tuple(map(_as_sent, tool_calls)), **fields)


def fails(error: ErrorKind, *, retry_after: float | None = None, **fields: Any) -> HttpError:
    """Return an error of the provider in place of an answer.

    `retry_after` is in seconds, in the response's header; `fields` are those of `HttpError`.
    """
    headers = dict(fields.pop("headers", {}))
    if retry_after is not None:
        headers["retry-after-ms"] = str(round(retry_after * 1000))
        headers["retry-after"] = str(round(retry_after))
    return HttpError(error=error, headers=headers, **fields)


def _as_sent(call: ToolCall | ToolRequest) -> ToolCall:
    if isinstance(call, ToolCall):
        return call
    from sojourn.models.names import wire_name  # noqa: PLC0415 - needs the model layer, and nothing else here does

    arguments = call.payload if call.raw is None else call.raw
    return ToolCall(name=wire_name(call.name), arguments=arguments, id=call.tool_call_id or None)  # pyright: ignore[reportArgumentType] - an object is written as JSON


def as_answer(answer: Any) -> Any:
    """Return an answer, of a bare string one with this text."""
    return says(answer) if isinstance(answer, str) else answer


SCRIPT: TypeAdapter[list[Any]] = TypeAdapter(list[Annotated[AnyAnswer, BeforeValidator(as_answer)]])


def natural_finish(reply: Completion) -> str:
    kinds = {part.kind for part in reply.parts}
    if reply.finish is not None:
        return reply.finish
    return "tool_call" if "tool_call" in kinds else "stop"


def pieces(text: str, size: int) -> Sequence[str]:
    """Return a text in pieces for a stream."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def object_of(arguments: str) -> dict[str, Any]:
    """Return the object of a JSON text, or one that holds any other text."""
    try:
        parsed = json.loads(arguments)
    except ValueError:
        parsed = None
    return cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {"INVALID_JSON": arguments}


Task = Callable[[Request], ScriptedResponse]
"""A deterministic model without state, which decides only by the messages of the request."""


def counts(tool: str, times: int, arguments: str = "{}", answer: str | Completion = "Done.") -> Task:
    """Call a tool `times` times, once in each response, then answer.

    `{turn}` in the arguments is the call's number, from 1.
    """

    def reply(request: Request) -> ScriptedResponse:
        done = len(request.tool_results)
        if done < times:
            turn = str(done + 1)
            return calls(ToolCall(name=tool, arguments=arguments.replace("{turn}", turn)))
        return as_answer(answer)

    return reply


def repairs(tool: str, bad: str, good: str, facts: Sequence[str], answer: str | Completion = "Done.") -> Task:
    """Make a bad call, then the good call, then answer.

    The model makes the good call once the last result's text has all the facts. Without the facts it makes
    the bad call again, so that it never repairs the call by chance.
    """

    def reply(request: Request) -> ScriptedResponse:
        made = {call.id: call.arguments for call in request.tool_calls if call.name == tool}
        results = [result for result in request.tool_results if result.id in made]
        if results and _same(made[results[-1].id], good):
            return as_answer(answer)
        learned = bool(results) and all(fact in results[-1].text for fact in facts)
        return calls(ToolCall(name=tool, arguments=good if learned else bad))

    return reply


TASKS: dict[str, Callable[..., Task]] = {"counts": counts, "repairs": repairs}


def load(written: Any) -> Task | list[Any]:
    """Return a script from a JSON list of answers, or `{"task": name, ...}`."""
    if isinstance(written, list):
        return SCRIPT.validate_python(written)
    return TASKS[written["task"]](**{key: value for key, value in written.items() if key != "task"})


def _same(one: str, other: str) -> bool:
    try:
        return json.loads(one) == json.loads(other)
    except ValueError:
        return one == other
