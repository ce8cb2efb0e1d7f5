r"""Patterns in the part of regular expressions that every server takes.

llama.cpp's grammar, behind llama-server and much that is built on it, refuses a request for `\d`, `\w` or `\s`, and for a
pattern that is not anchored at both ends.
"""

from typing import Final

__all__ = ["portable_pattern"]

MAX_PATTERN: Final = 500
"""Longest pattern that is offered, in characters."""

_CLASSES: Final = {"d": "0-9", "w": "A-Za-z0-9_", "s": r" \t\r\n"}

_UNSUPPORTED: Final = "bBpPkc"
"""Escapes that some servers do not know: word boundaries, Unicode classes, named back references, control characters."""


class _UnportableError(Exception):
    pass


def portable_pattern(pattern: str) -> str | None:
    """Return a pattern that matches the same texts of one line, anchored at both ends; None if there is none.

    Args:
        pattern: A regular expression of JSON Schema, which is searched in a text.
    """
    if len(pattern) > MAX_PATTERN:
        return None
    try:
        return _Reader(pattern).read()
    except _UnportableError:
        return None


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0
        self._has_alternatives = False
        self._begins = pattern.startswith("^")
        self._ends = False

    def read(self) -> str:
        self._at = int(self._begins)
        body = ""
        while self._at < len(self._pattern):
            body += self._next()
        if self._depth:
            raise _UnportableError
        if self._has_alternatives:
            if self._begins or self._ends:  # an anchor belongs to one of the alternatives
                raise _UnportableError
            body = f"(?:{body})"
        return f"^{'' if self._begins else '.*'}{body}{'' if self._ends else '.*'}$"

    def _take(self) -> str:
        if self._at >= len(self._pattern):
            raise _UnportableError
        self._at += 1
        return self._pattern[self._at - 1]

    def _next(self) -> str:
        match self._take():
            case "\\":
                return self._escape(in_class=False)
            case "[":
                return self._class()
            case "(":
                return self._group()
            case ")":
                self._depth -= 1
                return ")"
            case "|":
                self._has_alternatives |= self._depth == 0
                return "|"
            case "^":
                raise _UnportableError
            case "$":
                if self._at < len(self._pattern):
                    raise _UnportableError
                self._ends = True
                return ""
            case character:
                return character

    def _group(self) -> str:
        self._depth += 1
        if not self._pattern.startswith("?", self._at):
            return "("
        if not self._pattern.startswith("?:", self._at):  # look-around, or a named group
            raise _UnportableError
        self._at += 2
        return "(?:"

    def _class(self) -> str:
        text = "["
        if self._pattern.startswith("^", self._at):
            text += self._take()
        while (character := self._take()) != "]":
            if character == "[":  # a class of POSIX, or a nested one
                raise _UnportableError
            text += self._escape(in_class=True) if character == "\\" else character
        return f"{text}]"

    def _escape(self, *, in_class: bool) -> str:
        character = self._take()
        if characters := _CLASSES.get(character):
            return characters if in_class else f"[{characters}]"
        if characters := _CLASSES.get(character.lower()):
            if in_class:
                raise _UnportableError
            return f"[^{characters}]"
        if character in _UNSUPPORTED or character.isdigit():
            raise _UnportableError
        return f"\\{character}"
