"""Lenient reading of responses from servers that almost follow an API.

Each deviation has one possible meaning, and is read by it.

| what a server sends | read as |
|---|---|
| chat: `arguments: null`, or none | no arguments, `{}` |
| chat: `arguments` as an object, in place of its JSON as a text | that object |
| chat: a call without `id` or `type`, a response without `id`, `object`, `model`, `index` or `role` | what the API has there |
| chat, streamed: calls that all have the same `index`, with or without ids | as many calls |
| chat, streamed: the id and the name in each piece; the call once more at the end | one call |
| Anthropic: no `usage`, `content` as a text or null | no tokens; a text, nothing |
| Responses: a call without `call_id`; a message whose content is a text | a call with its item's id; that text |
| Responses: a call that is incomplete, in a response that is completed | an incomplete response, which ends with that call |

pydantic-ai offers the hooks, for subclasses of its models. Streams are read by `lenient_streams` before that.
"""

import copy
import json
import uuid
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.models import Model

from sojourn.models.finish_reasons import UNREPORTED, is_complete_json
from sojourn.models.lenient_streams import AnthropicEvents, ChatEvents, LenientDecoder, ResponsesEvents

__all__ = ["lenient"]


def lenient(model: Model) -> Model:
    """Return a model of OpenAI's or Anthropic's APIs that reads leniently."""
    names = [each.__name__ for each in type(model).__mro__]  # by name, since importing a class loads its SDK
    kind = next((made for name, made in _KINDS.items() if name in names), None)
    if kind is None:
        return model
    made = copy.copy(model)
    made.__class__ = kind(type(model))
    return made


# OpenAI's Chat Completions API.


@lru_cache(maxsize=64)
def _chat_model(kind: Any) -> Any:
    def validate(self: Any, response: Any) -> Any:
        if not response.choices:
            raise UnexpectedModelBehavior(f"{self.system} gave a response without choices")
        _fill(response, id="", object="chat.completion", model=self.model_name)
        for at, choice in enumerate(response.choices):
            _fill(choice, index=at)
            if choice.message is None:
                raise UnexpectedModelBehavior(f"{self.system} gave a response without a message")
            _fill(choice.message, role="assistant")
            for call in getattr(choice.message, "tool_calls", None) or ():
                _mend_call(call)
        return kind._validate_completion(self, response)  # noqa: SLF001 - a hook for subclasses

    def streamed(self: Any) -> Any:
        return _chat_stream(kind._streamed_response_cls.fget(self))  # noqa: SLF001 - as above

    async def process(self: Any, response: Any, *args: Any, **options: Any) -> Any:
        events = ChatEvents()
        _decode(response, events)
        made = await kind._process_streamed_response(self, response, *args, **options)  # noqa: SLF001 - as above
        made._sojourn_events = events  # noqa: SLF001 - our own
        return made

    body = {
        "_validate_completion": validate,
        "_streamed_response_cls": property(streamed),
        "_process_streamed_response": process,
    }
    return type(kind.__name__, (kind,), body)


@lru_cache(maxsize=64)
def _chat_stream(kind: Any) -> Any:
    def map_calls(self: Any, choice: Any) -> Iterable[Any]:
        places = self.__dict__.setdefault("_sojourn_places", _Places())
        for call in choice.delta.tool_calls or ():
            _mend_call(call, is_piece=True)
            places.put(call)
        return kind._map_tool_call_delta(self, choice)  # noqa: SLF001 - a hook for subclasses

    def missing(self: Any) -> Any:
        events = self.__dict__.get("_sojourn_events")
        if events and events.is_done:
            self.provider_details = {**(self.provider_details or {}), "finish_reason": UNREPORTED}
        return kind._missing_finish_reason(self)  # noqa: SLF001 - as above

    body = {"_map_tool_call_delta": map_calls, "_missing_finish_reason": missing}
    return type(kind.__name__, (kind,), body)


def _decode(response: Any, events: Any) -> None:
    """Make an unread stream of an SDK decode its events leniently."""
    if hasattr(response, "_decoder"):
        response._decoder = LenientDecoder(response._decoder, events)  # noqa: SLF001 - the SDK has no hook


def _fill(record: Any, **fields: Any) -> None:
    for name, value in fields.items():
        if getattr(record, name, None) is None:
            setattr(record, name, value)


def _mend_call(call: Any, *, is_piece: bool = False) -> None:
    function = getattr(call, "function", None)
    if function is None:
        return
    if not is_piece:
        _fill(call, type="function", id="")
    arguments = getattr(function, "arguments", None)
    if arguments is None and not is_piece:
        function.arguments = "{}"
    elif isinstance(arguments, (dict, list)):
        function.arguments = json.dumps(arguments)


class _Call:
    def __init__(self, place: Any, id: str) -> None:
        self.place = place
        self.id = id
        self.name = ""
        self.arguments = ""

    @property
    def is_whole(self) -> bool:
        return self.arguments.rstrip().endswith("}") and is_complete_json(self.arguments)

    def repeats(self, name: str, arguments: str) -> bool:
        return name == self.name and arguments.strip() == self.arguments.strip()


class _Places:
    """The calls of a stream. Several may have one index."""

    def __init__(self) -> None:
        self._by_id: dict[tuple[Any, str], _Call] = {}
        self._latest: dict[Any, _Call] = {}
        self._shared = 0

    def put(self, piece: Any) -> None:
        """Give a piece of a call its call's place, without the parts that the call has."""
        index, id = getattr(piece, "index", None), getattr(piece, "id", None) or ""
        function: Any = getattr(piece, "function", None)
        name, arguments = getattr(function, "name", None) or "", getattr(function, "arguments", None) or ""
        call = self._by_id.get((index, id)) if id else None
        call = call or self._latest.get(index)
        if call is None or (name and self._is_another(call, id, name, arguments)):
            call = self._begin(index, id)
        elif name or (arguments and call.repeats(call.name, arguments) and call.is_whole):
            arguments = _rest(call, name or call.name, arguments)
            name = "" if call.arguments or name == call.name else name
            function.name, function.arguments = name or None, arguments or None
        if id:
            self._by_id[index, id] = call
            call.id = call.id or id
            piece.id = call.id
        self._latest[index] = call
        call.name += name
        call.arguments += arguments
        piece.index = call.place

    def _begin(self, index: Any, id: str) -> _Call:
        place = index
        if index in self._latest:
            self._shared += 1
            place = f"{index}/{self._shared}"
        return _Call(place, id)

    def _is_another(self, call: _Call, id: str, name: str, arguments: str) -> bool:
        is_same_id = not id or not call.id or id == call.id
        if not call.arguments:
            return not is_same_id
        if is_same_id and call.repeats(name, arguments):
            return False
        if not call.is_whole:
            is_begun = not arguments.strip() or arguments.lstrip().startswith("{")
            return not is_same_id and (name != call.name or is_begun)
        return not is_same_id or bool(arguments.strip())


def _rest(call: _Call, name: str, arguments: str) -> str:
    """Return the new part of a piece, which may repeat the call's arguments."""
    if not call.arguments:
        return arguments
    if call.repeats(name, arguments):
        return ""
    is_longer = arguments.startswith(call.arguments) and not call.is_whole
    return arguments[len(call.arguments) :] if is_longer else arguments


# Anthropic's Messages API.


@lru_cache(maxsize=64)
def _anthropic_model(kind: Any) -> Any:
    async def create(self: Any, client: Any, *args: Any, **options: Any) -> Any:
        if type(client).__name__ == "AsyncAnthropic":  # others have streams of another format
            client = client.copy() if client is self.client else client
            decoder = client._make_sse_decoder  # noqa: SLF001 - the SDK has no hook
            client._make_sse_decoder = lambda: LenientDecoder(decoder(), AnthropicEvents())  # noqa: SLF001
        return await kind._create_message(self, client, *args, **options)  # noqa: SLF001 - a hook for subclasses

    def process(self: Any, response: Any, *args: Any, **options: Any) -> Any:
        from anthropic.types.beta import BetaTextBlock, BetaUsage  # noqa: PLC0415 - loaded with the model

        usage = response.usage or BetaUsage.construct()
        _fill(usage, input_tokens=0, output_tokens=0)
        response.usage = usage
        if not isinstance(response.content, list):
            text: Any = response.content
            block = BetaTextBlock(type="text", text=text) if isinstance(text, str) else None
            response.content = [block] if block else []
        return kind._process_response(self, response, *args, **options)  # noqa: SLF001 - as above

    return type(kind.__name__, (kind,), {"_create_message": create, "_process_response": process})


# OpenAI's Responses API.


@lru_cache(maxsize=64)
def _responses_model(kind: Any) -> Any:
    def process(self: Any, response: Any, *args: Any, **options: Any) -> Any:
        _mend_output(response)
        return kind._process_response(self, response, *args, **options)  # noqa: SLF001 - a hook for subclasses

    async def streamed(self: Any, response: Any, *args: Any, **options: Any) -> Any:
        _decode(response, ResponsesEvents())
        return await kind._process_streamed_response(self, response, *args, **options)  # noqa: SLF001 - as above

    return type(
        kind.__name__, (kind,), {"_process_response": process, "_process_streamed_response": streamed}
    )


def _mend_output(response: Any) -> None:
    from openai.types.responses import ResponseOutputText  # noqa: PLC0415 - loaded with the model

    for at, item in enumerate(getattr(response, "output", None) or ()):
        content: Any = getattr(item, "content", None)
        if item.type == "message" and isinstance(content, str):
            item.content = [ResponseOutputText(type="output_text", text=content, annotations=[])]
        if item.type != "function_call":
            continue
        item.call_id = item.call_id or item.id or f"call_{uuid.uuid4().hex[:24]}"
        if item.status == "incomplete":
            response.output = response.output[: at + 1]
            if response.status == "completed":
                response.status = "incomplete"
            return


_KINDS: dict[str, Callable[[Any], Any]] = {
    "OpenAIChatModel": _chat_model,
    "OpenAIResponsesModel": _responses_model,
    "AnthropicModel": _anthropic_model,
}
