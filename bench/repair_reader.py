"""The stand-in for a model: it corrects exactly what the text of a refusal names.

The stand-in knows the right tool and the right value of every field from the task, but not what was wrong with the
call. It corrects a field if the text names the field or quotes its value, the tool's name if the text names the
tool, and arguments that are no JSON if the text mentions JSON's grammar. Everything else stays, so that a text
that names nothing gets the same call again.

It ignores the lines of the text with an example and with the arguments that it sent.

The copier is the opposite: it knows nothing, and sends the arguments that the text shows word for word, as weak models do.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from bench.repair_tasks import Task
from sojourn.models.names import wire_name
from sojourn.values.json_value import is_array, is_object

__all__ = ["copier", "reader"]

_UNREAD = ("arguments that fit: ", "arguments to complete: ", "you sent: ")

_SHOWN = re.compile(r"^arguments (?:that fit|to complete): (.*)$", re.MULTILINE)

_GRAMMAR = re.compile(r"JSON|Expecting|Unterminated|delimiter|Extra data")

_MISSING: Any = object()


def reader(tasks: Sequence[Task]) -> FunctionModel:
    """The stand-in for these tasks, as a pydantic-ai model."""
    by_words = {task.wanted: task for task in tasks}

    async def read(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        [wanted] = [part.content for part in messages[0].parts if isinstance(part, UserPromptPart)]
        call = next(part for part in reversed(messages[-2].parts) if isinstance(part, ToolCallPart))
        texts = [str(part.content) for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        if not texts:
            return ModelResponse([TextPart("done")])
        return ModelResponse([_corrected(by_words[str(wanted)], call, "\n".join(texts))])

    return FunctionModel(read, model_name="standin")


def copier() -> FunctionModel:
    """A stand-in that copies the arguments of the text, as a pydantic-ai model."""

    async def copy(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        call = next(part for part in reversed(messages[-2].parts) if isinstance(part, ToolCallPart))
        texts = [str(part.content) for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        shown = _SHOWN.search("\n".join(texts))
        return ModelResponse([ToolCallPart(call.tool_name, shown[1]) if shown else TextPart("done")])

    return FunctionModel(copy, model_name="copier")


def _corrected(task: Task, call: ToolCallPart, text: str) -> ToolCallPart:
    read = "\n".join(line for line in text.splitlines() if not line.startswith(_UNREAD))
    right = wire_name(task.tool)
    name = right if call.tool_name != right and _names_tool(read, call.tool_name) else call.tool_name
    try:
        sent: Any = call.args_as_dict(raise_if_invalid=True)
    except ValueError:
        arguments = json.dumps(task.right) if _GRAMMAR.search(read) else call.args
    else:
        arguments = json.dumps(_mended(sent, task.right, read))
    return ToolCallPart(name, arguments)


def _names_tool(text: str, name: str) -> bool:
    return name in text or name.replace("__", ".") in text


@dataclass(frozen=True)
class _Difference:
    """A difference between the payload sent and the right one; a misspelt name is one difference, not two."""

    at: tuple[str | int, ...]
    sent: Any = _MISSING
    misspelt: str | None = None


def _mended(sent: Any, right: Any, text: str) -> Any:
    """The payload sent, with each difference that the text names corrected."""
    kept = json.loads(json.dumps(sent))
    for difference in list(_differences(sent, right, ())):
        if _is_named(difference, sent, text):
            _put_right(kept, right, difference)
    return kept


def _differences(sent: Any, right: Any, at: tuple[str | int, ...]) -> Iterator[_Difference]:
    if is_object(sent) and is_object(right):
        unknown = [name for name in sent if name not in right]
        for name, value in right.items():
            if name in sent:
                yield from _differences(sent[name], value, (*at, name))
            else:
                misspelt = next((other for other in unknown if sent[other] == value), None)
                yield _Difference((*at, name), misspelt=misspelt)
    elif is_array(sent) and is_array(right) and len(sent) == len(right):
        for number, value in enumerate(right):
            yield from _differences(sent[number], value, (*at, number))
    elif sent != right or type(sent) is not type(right):
        yield _Difference(at, sent)


def _is_named(difference: _Difference, sent: Any, text: str) -> bool:
    names = [difference.at[-1], *([difference.misspelt] if difference.misspelt else [])]
    if any(f"{quote}{name}{quote}" in text for name in names for quote in "'`"):
        return True
    paths = [_path(difference.at[:length]) for length in range(1, len(difference.at) + 1)]
    if difference.misspelt:
        paths.append(_path((*difference.at[:-1], difference.misspelt)))
    return any(f"`{path}`" in text for path in paths) or any(
        _quotes(text, value) for value in _values(sent, difference)
    )


def _values(sent: Any, difference: _Difference) -> Iterator[Any]:
    """The value sent for a field, and the objects and lists around it except the whole payload."""
    value = sent
    for token in difference.at[:-1]:
        value = value[token]
        yield value
    if difference.sent is not _MISSING:
        yield difference.sent


def _quotes(text: str, value: Any) -> bool:
    forms = {repr(value), json.dumps(value)}
    return any(re.search(rf"(?<![\w.]){re.escape(form)}(?![\w.])", text) for form in forms)


def _path(tokens: Sequence[str | int]) -> str:
    return "".join(f"[{t}]" if isinstance(t, int) else f".{t}" if n else t for n, t in enumerate(tokens))


def _put_right(kept: Any, right: Any, difference: _Difference) -> None:
    *parents, last = difference.at
    for token in parents:
        kept, right = kept[token], right[token]
    if difference.misspelt:
        kept.pop(difference.misspelt)
    kept[last] = right[last]
