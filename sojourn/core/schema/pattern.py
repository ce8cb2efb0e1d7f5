"""Make a text that matches a regular expression.

The text is always the same: the shortest from the expression's first alternatives. Patterns come from
foreign schemas, so the work is bounded, and a text counts only after RE2 has matched it: a pattern that RE2
reads differently than this module, or does not support, has no text.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from sojourn.core.schema.formats import matches, runs

__all__ = ["text_for"]

_MAX_PATTERN = 500
_MAX_DEPTH = 20
_MAX_TEXT = 1_000
_MAX_STEPS = 20_000
_MAX_TRIES = 100
_MAX_CHOICES = 4
_MAX_REPEATS = 1_000

_REPEAT = re.compile(r"(?:([*+?])|\{(\d{1,4})(?:(,)(\d{1,4})?)?\})[?+]?", re.ASCII)
_GROUP = re.compile(r"\((?:\?(?:P?<\w+>|[a-zA-Z-]*:))?(?!\?)", re.ASCII)
_FLAGS = re.compile(r"\(\?[a-zA-Z-]+\)", re.ASCII)
_CODE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|x\{([0-9A-Fa-f]{1,6})\})", re.ASCII)
_PROPERTY = re.compile(r"\\p(?:\{(\w+)\}|(\w))", re.ASCII)
_POSIX = re.compile(r"\[:(\w+):\]", re.ASCII)

_ANCHORS = ("^", "$", r"\b", r"\B", r"\A", r"\z")
_CLASSES = {"d": "0", "w": "a", "s": " ", "D": "a", "W": "-", "S": "a"}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_PROPERTIES = {"L": "a", "Ll": "a", "Latin": "a", "Lu": "A", "N": "0", "Nd": "0"}
_POSIX_CLASSES = {
    "alpha": "a",
    "lower": "a",
    "alnum": "a",
    "word": "a",
    "upper": "A",
    "digit": "0",
    "xdigit": "0",
}
_USUAL = "axAX019_-.~ "
"""Characters to try if a class names nothing printable, or only exclusions."""


class _TooMuchError(Exception):
    """The pattern is not supported here, or its text would be too long."""


@lru_cache(maxsize=1_024)
def text_for(pattern: str, least: int = 0, most: int = _MAX_TEXT) -> str | None:
    """Return a text of `least` to `most` characters that matches the pattern."""
    if len(pattern) > _MAX_PATTERN or least > _MAX_TEXT or not runs(pattern):
        return None
    try:
        tree = _Parser(pattern).whole()
    except _TooMuchError:
        return None
    return next(
        (text for text in _texts(tree, least) if least <= len(text) <= most and matches(pattern, text)), None
    )


def _texts(tree: "_Node", least: int) -> Iterator[str]:
    # Texts with few repetitions come first, and of these those from its first alternatives.
    writer = _Writer()
    tries = 0
    for repeats in range(least + 2):
        for choice in range(_MAX_CHOICES):
            tries += 1
            if tries > _MAX_TRIES:
                return
            try:
                yield writer.text(tree, repeats, choice)
            except _TooMuchError:
                return


class _Literal:
    def __init__(self, text: str) -> None:
        self.text = text


class _Choice:
    """Alternatives, each a sequence of nodes.

    A plain sequence is a choice of one.
    """

    def __init__(self, alternatives: "list[list[_Node]]") -> None:
        self.alternatives = alternatives


class _Repeat:
    def __init__(self, part: "_Node", least: int, most: int) -> None:
        self.part = part
        self.least = least
        self.most = most


_Node = _Literal | _Choice | _Repeat


class _Writer:
    """Writes texts of patterns, in a bounded number of steps altogether."""

    def __init__(self) -> None:
        self._steps = 0

    def text(self, node: _Node, repeats: int, choice: int) -> str:
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise _TooMuchError
        match node:
            case _Literal():
                return node.text
            case _Choice():
                parts = node.alternatives[min(choice, len(node.alternatives) - 1)]
                made = "".join([self.text(part, repeats, choice) for part in parts])
            case _Repeat():
                times = min(max(node.least, repeats), node.most)
                made = "".join([self.text(node.part, repeats, choice) for _ in range(times)])
        if len(made) > _MAX_TEXT:
            raise _TooMuchError
        return made


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def whole(self) -> _Node:
        node = self._choice(0)
        if self._at < len(self._pattern):
            raise _TooMuchError
        return node

    def _choice(self, depth: int) -> _Node:
        if depth > _MAX_DEPTH:
            raise _TooMuchError
        alternatives: list[list[_Node]] = [[]]
        while self._at < len(self._pattern) and self._pattern[self._at] != ")":
            if self._take("|"):
                alternatives.append([])
            else:
                alternatives[-1].append(self._repeat(self._atom(depth)))
        return _Choice(alternatives)

    def _repeat(self, part: _Node) -> _Node:
        found = self._match(_REPEAT)
        if found is None:
            return part
        sign, least, comma, most = found.groups()
        if sign:
            return _Repeat(part, 1 if sign == "+" else 0, 1 if sign == "?" else _MAX_REPEATS)
        return _Repeat(part, int(least), int(most) if most else _MAX_REPEATS if comma else int(least))

    def _atom(self, depth: int) -> _Node:
        if self._match(_FLAGS) or any(self._take(anchor) for anchor in _ANCHORS):
            return _Literal("")
        if self._match(_GROUP):
            inner = self._choice(depth + 1)
            if not self._take(")"):
                raise _TooMuchError
            return inner
        each = self._pattern[self._at]
        if each == "[":
            return _Literal(self._class())
        if each in "(*+?":  # a kind of group that is not supported, or a repetition of nothing
            raise _TooMuchError
        return _Literal("x" if self._take(".") else self._character())

    def _character(self) -> str:
        if code := self._match(_CODE):
            number = int(code[1] or code[2] or code[3], 16)
            if number > 0x10FFFF or 0xD800 <= number < 0xE000:
                raise _TooMuchError
            return chr(number)
        if found := self._match(_PROPERTY):
            return self._look_up(_PROPERTIES, found[1] or found[2])
        if not self._take("\\"):
            self._at += 1
            return self._pattern[self._at - 1]
        self._at += 1
        each = self._pattern[self._at - 1 : self._at]
        if each in _CLASSES or each in _CONTROLS:
            return {**_CLASSES, **_CONTROLS}[each]
        if not each or each.isalnum():  # such as a reference to a group
            raise _TooMuchError
        return each

    def _look_up(self, table: dict[str, str], name: str) -> str:
        if name not in table:
            raise _TooMuchError
        return table[name]

    def _class(self) -> str:
        start = self._at
        self._at += 1
        excludes = self._take("^")
        named: list[str] = []
        while not named or not self._take("]"):
            if self._at >= len(self._pattern):
                raise _TooMuchError
            if found := self._match(_POSIX):
                named.append(self._look_up(_POSIX_CLASSES, found[1]))
                continue
            named.append(self._character())
            if (
                self._pattern[self._at : self._at + 1] == "-"
                and self._pattern[self._at + 1 : self._at + 2] != "]"
            ):
                self._at += 1
                self._character()
        own = f"^{self._pattern[start : self._at]}$"
        usable = [each for each in named if not excludes and each.isprintable() and each != " "]
        fitting = next((each for each in (*usable, *_USUAL) if matches(own, each)), None)
        if fitting is None:
            raise _TooMuchError
        return fitting

    def _take(self, text: str) -> bool:
        found = self._pattern.startswith(text, self._at)
        self._at += len(text) if found else 0
        return found

    def _match(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        found = expression.match(self._pattern, self._at)
        self._at = found.end() if found else self._at
        return found
