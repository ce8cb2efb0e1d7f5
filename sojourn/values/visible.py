"""Text with its hidden characters escaped, and text for a terminal.

A person who decides by a text must see all of it: a path with a zero-width space in it is another path.
Hidden are control, format, direction and private characters, spaces other than the usual one, characters that
Unicode calls default-ignorable, marks without a letter before them, and characters that look like another
character (UAX 44, UTS 39).

It imports little, since every command prints with it.
"""

import json
import re
import shlex
import unicodedata
from datetime import timedelta
from functools import lru_cache
from typing import Any

__all__ = [
    "CUT",
    "WIDTH",
    "code",
    "describe_mixed_scripts",
    "fence",
    "format_duration",
    "format_money",
    "inert",
    "one_line",
    "plain",
    "readable",
    "shell_word",
    "visible",
]

_BLANK = frozenset(
    chr(code)
    for first, last in (
        (0x034F, 0x034F),
        (0x115F, 0x1160),
        (0x17B4, 0x17B5),
        (0x180B, 0x180F),
        (0x2800, 0x2800),
        (0x3164, 0x3164),
        (0xFE00, 0xFE0F),
        (0xFFA0, 0xFFA0),
        (0xFFFC, 0xFFFC),
        (0x13441, 0x13442),
        (0x16FE4, 0x16FE4),
        (0x1D159, 0x1D159),
        (0xE0100, 0xE01EF),
    )
    for code in range(first, last + 1)
)
"""Default-ignorable or blank characters whose category is letter, mark or symbol."""

_SIGNS = frozenset("\u01c3\u02d0\u05c3\u2044\u2215\u2216\u2236\u29f5\u29f8\u29f9\ua789")
r"""Characters that look like `/`, `\\`, `:` and `!`, which structure paths, addresses and commands."""

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_MAX_MARKS = 4
"""Maximum number of marks on one letter. More would hide the text around them."""

_OVERLAY = 1
"""The combining class of marks that cross a letter."""

_LOOKALIKES = {
    "Cyrillic": frozenset("асеорхуіѕјһԁԛԝүӏАВЕКМНОРСТХУІЅЈԌҮӀ"),  # noqa: RUF001 - that is the point
    "Greek": frozenset("οαινυρκγϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"),
    "Armenian": frozenset("օսհոյզցքգԼՏՕՍ"),
    "Cherokee": frozenset("ᎠᎡᎢᎥᎩᎪᎫᎬᎳᎷᎻᏀᏃᏎᏒᏔᏚᏞᏟᏢᏤᏦᏧ"),
    "Lisu": frozenset(map(chr, range(0xA4D0, 0xA4F8))),
}
"""Letters that look like Latin ones, so that a whole word can be made of them."""

_EAST_ASIAN = "East Asian"
_DIGITS = "other digits"
_BY_NAME = {
    "CJK": _EAST_ASIAN,
    "HIRAGANA": _EAST_ASIAN,
    "KATAKANA": _EAST_ASIAN,
    "KATAKANA-HIRAGANA": _EAST_ASIAN,
    "HANGUL": _EAST_ASIAN,
    "BOPOMOFO": _EAST_ASIAN,
    "HALFWIDTH": _EAST_ASIAN,
    "MODIFIER": "",
    "MICRO": "",
    "FEMININE": "",
    "MASCULINE": "",
}
"""Scripts whose characters have other first words in their Unicode names; the empty one fits with every script."""

_MARKUP = re.compile(
    r"[`*<>\[\]|~#$]"  # anywhere
    r"|&(?=[#\w]+;|[#\w]*\Z)"  # a character by its name, whose end may follow the text
    r"|!(?=\[)"
    r"|(?<![^\W_])_|_(?![^\W_])"  # emphasis, but not the one in `a_b`
    r"|\\(?=[!-/:-@\[-`{-~]|\Z)"  # an escape, perhaps of what follows the text
    r"|^ {0,3}(?:[-+=](?=[-+= ]|$)|\d{1,9}(?=[.)](?: |$)))"  # a list, a heading or a rule at the beginning of a line
    r"|^ (?= {3})"  # a code block
)
"""Characters that Markdown or HTML reads as markup."""

_WORD = re.compile(r"(?:[^\W_]|[\u0300-\u036f])+")
_MAX_WORDS = 3
_MAX_WORD = 40


def visible(text: str, *, keep: str = "") -> str:
    """Return the text with hidden characters written out.

    A hidden character becomes a backslash, `u` and four digits, or `U` and eight.
    """
    if text.isprintable() and max(text, default="") < "\u017f":
        return text  # no character up to here looks like another
    shown: list[str] = []
    cluster = ""  # the last visible character, with its marks
    for each in text:
        if each in keep:
            shown.append(each)
            cluster = ""
        elif _is_hidden(each) or not _fits(cluster, each):
            shown.append(_escape(each))
            cluster = ""
        else:
            shown.append(each)
            cluster = cluster + each if _is_mark(each) else each
    return "".join(shown)


def inert(text: str) -> str:
    """Return the text on one line, with hidden characters and markup written out.

    Line breaks, and the signs of Markdown and HTML, are written out. The text looks the same on a
    screen that reads markup and on one that does not. Written out twice, it is the same.
    """
    return _MARKUP.sub(_write_out, visible(text))


def _write_out(sign: re.Match[str]) -> str:
    markup = sign[0].lstrip(" ")
    return sign[0].removesuffix(markup) + "".join(map(_escape, markup)) if markup else _escape(sign[0])


def describe_mixed_scripts(text: str) -> str:
    """Return a clause about words that mix scripts, or that only look like Latin.

    A word only looks like Latin if it consists of another script's lookalikes. The clause is empty if
    there are no such words.
    """
    if text.isascii():
        return ""
    words = _WORD.findall(text)
    found: dict[str, list[str]] = {}
    for word in words:
        scripts = sorted({_script(each) for each in word}.difference(("", _DIGITS)))
        if _DIGITS in map(_script, word) and re.search("[0-9]", word):
            found.setdefault("digits of two scripts in one word", []).append(word)
        if len(scripts) > 1 and scripts != [_EAST_ASIAN, "Latin"]:
            found.setdefault(f"{' and '.join(scripts)} in one word", []).append(word)
    for script, lookalikes in _LOOKALIKES.items():
        of_it = [word for word in words if all(_script(each) in (script, "") for each in word)]
        of_it = [word for word in of_it if any(_script(each) for each in word)]
        if of_it and all(each in lookalikes or not _script(each) for word in of_it for each in word):
            found.setdefault(f"{script} that looks like Latin", []).extend(of_it)
    return "; ".join(f"{what}: {_list_words(which)}" for what, which in found.items())


def _list_words(words: list[str]) -> str:
    different = list(dict.fromkeys(map(_spelt, words)))
    more = f" and {len(different) - _MAX_WORDS} more" if len(different) > _MAX_WORDS else ""
    return ", ".join(different[:_MAX_WORDS]) + more


def _spelt(word: str) -> str:
    return "".join(each if each.isascii() else _escape(each) for each in word[:_MAX_WORD])


def _escape(character: str) -> str:
    code = ord(character)
    return _SHORT.get(character) or (f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")


@lru_cache(maxsize=4096)
def _is_hidden(character: str) -> bool:
    if not character.isprintable() or character in _BLANK or character in _SIGNS:
        return True
    if not unicodedata.decomposition(character):
        return False
    if unicodedata.normalize("NFC", character) != character:
        return True  # such as the Kelvin sign, which is a K
    same = unicodedata.normalize("NFKC", character)
    kind = unicodedata.decomposition(character).split()[0]
    return len(same) == 1 and same.isascii() and kind in ("<wide>", "<narrow>", "<font>", "<compat>")


def _fits(cluster: str, character: str) -> bool:
    if character < "\u0300":
        return True
    if cluster and not unicodedata.is_normalized("NFC", cluster + character):
        return False  # the two look like one other character
    if not _is_mark(character):
        return True
    if unicodedata.category(character) == "Me" or unicodedata.combining(character) == _OVERLAY:
        return False
    return bool(cluster) and cluster[0].isalpha() and len(cluster) <= _MAX_MARKS


def _is_mark(character: str) -> bool:
    return character >= "\u0300" and unicodedata.category(character)[0] == "M"


@lru_cache(maxsize=4096)
def _script(character: str) -> str:
    # Empty for a character that fits with every script.
    if character.isascii():
        return "Latin" if character.isalpha() else ""
    category = unicodedata.category(character)
    if category == "Nd":
        return _DIGITS
    if category[0] != "L":
        return ""
    if "\u0250" <= character <= "\u02af" or "\u1d00" <= character <= "\u1dbf":
        return "phonetic"  # Latin by name, but made to look like Latin letters
    first = unicodedata.name(character, "").split(" ")[0]
    return _BY_NAME.get(first, first.capitalize())


def fence(text: str) -> str:
    """Return the text as a code block that it cannot break out of."""
    shown = visible(text, keep="\n")
    ticks = _longer_than_any_in(shown, at_least=3)
    return f"{ticks}\n{shown}\n{ticks}"


def code(text: str) -> str:
    """Return the text on one line, as a code span that it cannot break out of."""
    shown = " ".join(visible(text, keep="\n").split())
    ticks = _longer_than_any_in(shown, at_least=1)
    # Markdown removes one space on both sides. Without it, a text that begins with a backtick would lengthen
    # the ticks.
    pad = " " if shown[:1] == "`" or shown[-1:] == "`" else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}" if shown else ""


def _longer_than_any_in(text: str, *, at_least: int) -> str:
    ticks = "`" * at_least
    while ticks in text:
        ticks += "`"
    return ticks


WIDTH = 160
"""Most characters of a payload or result on a line."""


def plain(value: Any, width: int | None = WIDTH) -> str:
    """Return a text, or a value as JSON, on one line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if width is None:
        return visible(text)
    line = visible(text[: width + 1])
    return line if len(line) <= width else f"{line[: width - 1]}…"  # `clip` would import pydantic for it


def shell_word(text: str) -> str:
    """Quote a text as one word for a shell."""
    if visible(text) == text:
        return shlex.quote(text)
    literal = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{visible(literal)}'"


def format_duration(duration: timedelta | None) -> str:
    """Return a duration in its two largest units, or an empty text for None."""
    if duration is None:
        return ""
    seconds = max(duration.total_seconds(), 0.0)
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    parts: list[str] = []
    left = int(seconds)
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def format_money(cost: float | None) -> str:
    """Return an amount of US dollars, or an empty text for None.

    A small amount has as many places as it needs.
    """
    if cost is None:
        return ""
    if cost == 0:
        return "$0"
    return f"${cost:,.2f}" if cost >= 1 else f"${cost:.4f}" if cost >= 0.0001 else "< $0.0001"


CUT = "…"

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control and direction characters, and invisible ones; not the joiners and selectors that letters and emojis are made of."""

_MANY_MARKS = re.compile("([\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4})"
                         "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+")  # fmt: skip
"""More than four marks on one letter, which would grow out of its line."""


def readable(text: object) -> str:
    """Return prose with its invisible characters written out."""
    plain = _UNSEEN.sub(lambda found: _escape(found[0]), str(text).replace("\r\n", "\n"))
    return _MANY_MARKS.sub(lambda found: found[1] + CUT, plain)


def one_line(text: object, most: int = 200) -> str:
    """Return a text on one line, cut to so many characters."""
    line = visible(" ".join(str(text)[: 4 * most].split()), keep="\n\t")
    return line if len(line) <= most else line[: most - 1] + CUT
