"""A file of exchanges: what a model was asked, and what it answered, as JSON that a person reads and compares.

    {"format": 1, "model": "openai:gpt-5-mini",
     "tools": {"clinic__visits__book": {"description": "...", "parameters": {...}}},
     "exchanges": [
       {"said": [{"user": "Ana, on Monday"}], "tools": ["clinic__visits__book"], "answer": {"message": ...}},
       {"begins": {"exchange": 1, "said": 1}, "said": [{"call": ...}, {"result": ...}], "tools": [...], "answer": ...}]}

A conversation grows, so `begins` says of which exchange, counted from 1, the first so many things that were said are
the first of this one too; and a tool's definition stands once. The file of a run of 100 calls is hardly longer than its transcript.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from sojourn.testing.models.answered import Answered
from sojourn.testing.models.asked import Asked, Said

__all__ = ["Exchange", "read", "write"]


@dataclass(frozen=True)
class Exchange:
    """One request and its answer."""

    asked: Asked
    answer: Answered


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class _Begins(_Strict):
    exchange: PositiveInt
    said: PositiveInt


class _Written(_Strict):
    begins: _Begins | None = None
    said: list[Annotated[Said, Field(min_length=1)]]
    tools: list[str] = Field(default=[])
    answer: Answered


class _File(_Strict):
    format: Literal[1]
    model: str
    tools: dict[str, Any] = Field(default={})
    exchanges: list[_Written]


def write(path: Path, model: str, exchanges: Sequence[Exchange]) -> None:
    """Write a file anew, with its folders.

    Args:
        path: Where.
        model: Who answered, as `openai:gpt-5-mini`.
        exchanges: In order.
    """
    tools: dict[str, Any] = {}
    file = _File(
        format=1,
        model=model,
        tools=tools,
        exchanges=[_written(each, exchanges[:position], tools) for position, each in enumerate(exchanges)],
    )
    text = json.dumps(file.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False, indent=2)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.part")
    draft.write_text(f"{text}\n", encoding="utf-8")
    draft.replace(path)


def read(path: Path) -> tuple[str, list[Exchange]]:
    """Who answered, and the exchanges, in order.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is no file of exchanges; says where it is not.
    """
    try:
        file = _File.model_validate_json(path.read_bytes())
        exchanges: list[Exchange] = []
        for written in file.exchanges:
            before = _beginning(written.begins, exchanges)
            tools = {name.partition("#")[0]: file.tools[name] for name in written.tools}
            exchanges.append(Exchange(Asked([*before, *written.said], tools), written.answer))
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path}: nothing is recorded here; run the test once with SOJOURN_RECORD=1 and the provider's key"
        ) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"]) or "the file"
        raise ValueError(_unfit(path, f"{where}: {first['msg']}")) from None
    except LookupError as error:
        raise ValueError(_unfit(path, f"it names {error}, which it does not hold")) from None
    return file.model, exchanges


def _written(exchange: Exchange, before: Sequence[Exchange], tools: dict[str, Any]) -> _Written:
    said = exchange.asked.said
    shared = [_shared(said, other.asked.said) for other in before]
    most = max(shared, default=0)
    begins = _Begins(exchange=shared.index(most) + 1, said=most) if most else None
    names = [_name(name, tool, tools) for name, tool in exchange.asked.tools.items()]
    return _Written(begins=begins, said=said[most:], tools=names, answer=exchange.answer)


def _shared(one: Sequence[Said], other: Sequence[Said]) -> int:
    """How many things both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _name(name: str, tool: Any, tools: dict[str, Any]) -> str:
    """Under which name the file holds a definition; a second one of the same name as `name#2`."""
    number, known = 1, name
    while tools.setdefault(known, tool) != tool:
        number += 1
        known = f"{name}#{number}"
    return known


def _beginning(begins: _Begins | None, before: Sequence[Exchange]) -> list[Said]:
    if begins is None:
        return []
    if begins.exchange > len(before):
        raise LookupError(f"exchange {begins.exchange}")
    return before[begins.exchange - 1].asked.said[: begins.said]


def _unfit(path: Path, why: str) -> str:
    return f"{path} is no file of exchanges: {why}. Mend it, or record it anew with SOJOURN_RECORD=1"
