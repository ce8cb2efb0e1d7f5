"""What differs between what a model is asked now and what it was asked when its answers were recorded."""

import json
import textwrap
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher, unified_diff
from typing import Any, Final

from sojourn.testing.models.asked import Asked

__all__ = ["difference"]

MAX_SHOWN: Final = 1_400
"""Characters: a failure of a run holds 2,000 in all."""

_WIDTH: Final = 100


def difference(recorded: Sequence[Asked], now: Asked) -> str:
    """A unified diff against the recorded request that is the most alike; bounded, printable.

    Args:
        recorded: What was asked then, in order.
        now: What is asked.
    """
    lines = list(_lines(now))
    then = [list(_lines(each)) for each in recorded]
    if not then:
        return "The file holds no exchanges."
    matcher = SequenceMatcher(b=lines, autojunk=False)

    def likeness(position: int) -> float:
        matcher.set_seq1(then[position])
        return matcher.ratio()

    closest = max(range(len(then)), key=likeness)
    changed = unified_diff(
        then[closest],
        lines,
        f"asked then (exchange {closest + 1} of {len(then)})",
        "asked now",
        n=1,
        lineterm="",
    )
    text = "\n".join(changed)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}\n... (more differs)"


def _lines(what: Asked) -> Iterator[str]:
    for said in what.said:
        (who, content), *more = said.items()
        aside = "".join(f" {name} {_text(value)}" for name, value in more if name != "arguments")
        yield from _wrapped(f"{who}{aside}: {_text(content)}")
        if "arguments" in said:
            yield from _wrapped(f"  {_text(said['arguments'])}")
    for name, tool in what.tools.items():
        yield f"tool {name}"
        for line in json.dumps(tool, indent=1, ensure_ascii=False).splitlines():
            yield from _wrapped(f"  {line}")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _wrapped(text: str) -> Iterator[str]:
    """Lines that are safe to print, each short enough to see what changed in it."""
    for line in text.splitlines():
        safe = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)
        yield from textwrap.wrap(safe, _WIDTH, drop_whitespace=False, subsequent_indent="  ") or [""]
