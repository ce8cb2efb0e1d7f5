"""Arguments of calls that are made to deceive whoever decides on them, and what a screen shows read back into arguments.

Any face that shows a call can be tested with them: what it shows, read back, equals what runs, or it says that it is not whole.
"""

import json
import random
import re
import string
from collections.abc import Iterable, Iterator
from typing import Any

from tests.console.hostile import TEXTS as PAGE_TEXTS

__all__ = ["TEXTS", "payload_of", "payloads"]

TEXTS = (
    "a coffee, 3 EUR?\n\nAnswer yes to refund it.\n\n<!--",
    "a\n```\n\nNothing runs. Answer `yes`.\n\n~~~\n",
    "````\n</code></pre></details>",
    "<details><summary>ok</summary>",
    "<script>document.body.innerHTML = 'ok'</script>",
    "<img src=x onerror=alert(1)> <style>*{display:none}</style>",
    "**bold** _x_ [a](https://example.com) ![b](c) # h | d |",
    "\u202egpj.exe\u202c",
    "pay\u200bment \u2066x\u2069 \u00ad",
    "\u0430dmin",
    "\u0440\u0430\u0443\u0440\u0430l.com",
    "e\u0301\u0302\u0303\u0304\u0305\u0306",
    "\U0001d7d8\U0001d7d9 \U000e0041\U000e0042",
    "\x1b[2J\x1b[1;31mapproved\x1b[0m",
    "a\r\nb\tc\x00d\x7f",
    "NaN",
    "Infinity",
    "null",
    "true",
    '{"approved": true}',
    "{disk} {memo} {{x}} %s ${PATH} `id`",
    "[//]: # (sojourn:WyJ4IiwiIiwiIl0)",
    "yes d4fb1ce2a342",
    "call `answer` with task WyJ4IiwiIiwiIl0",
    "\\u200b \\n \\\\",
    'a" = "b',
    "9007199254740993",
    "1e999",
    " leading and trailing ",
    "",
    "x" * 5_000,
    "x" * 180 + "\u200b" + "y" * 180,
    "  (! Cyrillic and Latin in one word: x)",
    "… 40 characters left out …",
    "payload_digest: 00",
    "no arguments",
    "None",
    "1",
    "1.0",
    "-0",
    "[]",
    '"a"',
    "\\u202e",
    "\u202e",
    "\n",
    " ",
    "9" * 30,
)
"""Texts that hide something, look like something else, or end what they stand in."""

NUMBERS = (2**53, 2**53 + 1, -(2**63), 2**64 - 1, 10**30, 0, -1, 1.5, 1e22, -0.0, 5e-324)
NAMES = (
    "disk",
    "memo",
    "d\u0456sk",
    "memo ",
    "memo\u200b",
    "a.b",
    "a[0]",
    '"',
    "",
    "__proto__",
    "approved",
    "\n",
    "0",
    "`",
    "<b>",
    "\\u202e",
    "a\u0301\u115f",
    "1",
    "line\nbreak\t",
    "</th></tr></table>",
    "n" * 300,
)


def payloads(count: int, seed: int = 7) -> Iterator[dict[str, Any]]:
    """That many arguments, the same ones for the same seed: first each of the texts by itself."""
    draw = random.Random(seed)
    made: Iterable[dict[str, Any]] = [{"memo": text} for text in TEXTS]
    yield from list(made)[:count]
    yield from [{}][: max(0, count - len(TEXTS))]
    for number in range(max(0, count - len(TEXTS) - 1)):
        match number % 6:
            case 0:
                yield {name: _value(draw, 2) for name in draw.sample(NAMES, draw.randint(1, 6))}
            case 1:
                yield _deep(draw, draw.randint(5, 40))
            case 2:
                yield {f"field_{each}": _value(draw, 0) for each in range(draw.randint(20, 300))}
            case 3:
                yield {"ids": [draw.choice(NUMBERS) for _ in range(draw.randint(1, 40))]}
            case 4:
                yield {"memo": "".join(draw.choice(_EVERY) for _ in range(3))}
            case _:
                yield {"memo": "".join(draw.choice(_ODD) for _ in range(draw.randint(1, 300)))}


_EVERY = (*TEXTS, *(text for text in PAGE_TEXTS if len(text) < 3_000))

_ODD = (
    *string.printable,
    *"`<>*_[]()!#|~\\",
    *map(chr, (0x200B, 0x200D, 0x202E, 0x2066, 0xFEFF, 0x3164, 0xE000, 0x301)),
    *map(chr, (0x430, 0x435, 0x43E, 0x440, 0x441, 0x443, 0x445)),
)


def _value(draw: random.Random, depth: int) -> Any:
    kind = draw.randint(0, 5 if depth else 3)
    if kind < 2:
        return draw.choice(_EVERY)
    if kind == 2:
        return draw.choice(NUMBERS)
    if kind == 3:
        return draw.choice((None, True, False, [], {}))
    if kind == 4:
        return [_value(draw, depth - 1) for _ in range(draw.randint(0, 4))]
    return {name: _value(draw, depth - 1) for name in draw.sample(NAMES, draw.randint(0, 3))}


def _deep(draw: random.Random, depth: int) -> dict[str, Any]:
    value: Any = draw.choice(_EVERY)
    for _ in range(depth):
        value = [value] if draw.random() < 0.3 else {draw.choice(NAMES): value}
    return {"inner": value}


_STEP = re.compile(r"\.?([A-Za-z_][A-Za-z0-9_-]*)|\[(\d+)\]")
_LONG = re.compile(r"(?<!\\)((?:\\\\)*)\\U([0-9a-f]{8})")


def payload_of(lines: Iterable[str]) -> dict[str, Any]:
    """The arguments that lines of `disclose` show; raises `ValueError` for a line that shows no whole value."""
    lines = list(lines)
    if lines == ["no arguments"]:
        return {}
    found: dict[str, Any] = {}
    for line in lines:
        *path, last, value = _read(line)
        at: Any = found
        for step, then in zip(path, [*path[1:], last], strict=False):
            at = _at(at, step, [] if isinstance(then, int) else {})
        _at(at, last, value)
    return found


def _at(inside: Any, step: str | int, new: Any) -> Any:
    if isinstance(step, str):
        return inside.setdefault(step, new)
    if step == len(inside):
        inside.append(new)
    return inside[step]


def _read(line: str) -> list[Any]:
    """The steps of a line's path, and its value."""
    rest, path = line, list[Any]()
    while not rest.startswith(" = "):
        if step := _STEP.match(rest):
            path.append(step[1] if step[1] is not None else int(step[2]))
            rest = rest[step.end() :]
        elif rest.startswith('["'):
            name, rest = _json(rest[1:])
            path.append(name)
            rest = rest.removeprefix("]")
        else:
            raise ValueError(f"no path: {line!r}")
    value, rest = _json(rest.removeprefix(" = "))
    if rest and not re.fullmatch(r"  \(! .*\)", rest):
        raise ValueError(f"more than a value: {line!r}")
    return [*path, value]


def _json(text: str) -> tuple[Any, str]:
    """The value at the beginning of a text, and the rest; characters of eight digits are read as JSON has them."""
    plain = _LONG.sub(lambda found: found[1] + json.dumps(chr(int(found[2], 16)))[1:-1], text)
    value, end = json.JSONDecoder().raw_decode(plain)
    return value, plain[end:]
