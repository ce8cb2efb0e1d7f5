"""Lenient chat: responses of servers that speak OpenAI's chat API almost, read as what they can only mean.

| what a server sends | read as |
|---|---|
| `arguments: null`, or none | no arguments, `{}` |
| `arguments` as an object, in place of its JSON as a text | that object |
| a call without `id` or `type`, a response without `id`, `object`, `model`, `index` or `role` | what the API has there |
| a stream whose calls all have the same `index`, with ids and names of their own (Ollama) | as many calls |

pydantic-ai offers the hooks, for subclasses of its model.
"""

import copy
import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.models import Model

__all__ = ["lenient"]


def lenient(model: Model) -> Model:
    """Return a model of OpenAI's chat API as one that reads its responses leniently; any other model unchanged."""
    if not any(each.__name__ == "OpenAIChatModel" for each in type(model).__mro__):
        return model  # asked by name, since importing the class loads OpenAI's SDK
    made = copy.copy(model)
    made.__class__ = _lenient_model(type(model))
    return made


@lru_cache(maxsize=64)
def _lenient_model(kind: Any) -> Any:
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
        return _lenient_stream(kind._streamed_response_cls.fget(self))  # noqa: SLF001 - as above

    body = {"_validate_completion": validate, "_streamed_response_cls": property(streamed)}
    return type(kind.__name__, (kind,), body)


@lru_cache(maxsize=64)
def _lenient_stream(kind: Any) -> Any:
    def map_calls(self: Any, choice: Any) -> Iterable[Any]:
        places = self.__dict__.setdefault("_sojourn_places", _Places())
        for call in choice.delta.tool_calls or ():
            _mend_call(call, is_piece=True)
            places.put(call)
        return kind._map_tool_call_delta(self, choice)  # noqa: SLF001 - as above

    return type(kind.__name__, (kind,), {"_map_tool_call_delta": map_calls})


def _fill(record: Any, **fields: Any) -> None:
    """Set fields that a record lacks, or in which it has null."""
    for name, value in fields.items():
        if getattr(record, name, None) is None:
            setattr(record, name, value)


def _mend_call(call: Any, *, is_piece: bool = False) -> None:
    """Give a call, or a piece of one, the shape that the API has."""
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


class _Places:
    """The calls of a stream, of which a server may give several the same index."""

    def __init__(self) -> None:
        self._by_id: dict[tuple[Any, str], Any] = {}
        self._latest: dict[Any, Any] = {}
        self._shared = 0

    def put(self, call: Any) -> None:
        """Give a piece of a call the place of its call: its own index, or a new one for another call at the same."""
        index, id = getattr(call, "index", None), getattr(call, "id", None) or ""
        place = self._latest.get(index, index)
        if (index, id) in self._by_id:
            place = self._by_id[index, id]
        elif id and getattr(call.function, "name", None) and index in self._latest:
            self._shared += 1
            place = f"{index}/{self._shared}"
        if id:
            self._by_id[index, id] = place
        self._latest[index] = place
        call.index = place
