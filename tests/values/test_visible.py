"""Visible text: hidden characters are escaped, mixed scripts are reported, and nothing is deleted."""

import re
import sys
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from sojourn.values.visible import describe_mixed_scripts, visible

DEFAULT_IGNORABLE = [
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFEFF, 0xFFA0),
    *range(0x180B, 0x1810),
    *range(0x200B, 0x2010),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2070),
    *range(0xFE00, 0xFE10),
    *range(0xFFF0, 0xFFF9),
    *range(0x1BCA0, 0x1BCA4),
    *range(0x1D173, 0x1D17B),
    *range(0xE0000, 0xE1000),
]
"""The code points of `Default_Ignorable_Code_Point` in Unicode's DerivedCoreProperties.txt."""


def test_hidden_characters_are_escaped() -> None:
    """Control, direction, blank and joining characters and lookalikes are escaped; ordinary text of any language is not."""
    rows = [
        ("/srv/data", "/srv/data"),
        ("/srv/da\u200bta", r"/srv/da\u200bta"),
        ("a\u202eb", r"a\u202eb"),
        ("\u3164x\ufe0f", r"\u3164x\ufe0f"),
        ("a\U000e0041", r"a\U000e0041"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\x1b[31m\x9b2J\x00", r"\u001b[31m\u009b2J\u0000"),
        ("\ud800", r"\ud800"),
        ("a\u00a0b\u3000c\u2800", r"a\u00a0b\u3000c\u2800"),
        ("\u212a \uff41 \U0001d41a \u2024", r"\u212a \uff41 \U0001d41a \u2024"),
        ("srv\u2215data\u2044x", r"srv\u2215data\u2044x"),
        ("cafe\u0301", r"cafe\u0301"),
        ("\u1112\u1161\u11ab", "\u1112" + r"\u1161" + "\u11ab"),
        ("=\u0338 \u0301 a\u0336 a\u20dd", r"=\u0338 \u0301 a\u0336 a\u20dd"),
        ("q" + "\u0301" * 6, "q" + "\u0301" * 4 + r"\u0301" * 2),
        ("café Grüße ☃ हिन्दी ไทย עִבְרִית Việt 日本語 한국어 m² µm …", None),
    ]
    assert [
        (text, shown, found)
        for text, shown in rows
        if (found := visible(text)) != (text if shown is None else shown)
    ] == []


def test_every_hidden_character_of_unicode_is_escaped() -> None:
    """Characters of hidden categories, and those with the property `Default_Ignorable_Code_Point`, are escaped."""
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        hidden = not character.isprintable() or (
            unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Me")
        )
        if hidden:
            assert visible(character).isascii(), hex(code)
    for code in DEFAULT_IGNORABLE:
        assert visible(f"a{chr(code)}b") == visible(chr(code)).join("ab")
        assert visible(chr(code)).isascii(), hex(code)


@given(st.text(max_size=20))
def test_nothing_is_deleted(text: str) -> None:
    """The original of a text without backslashes can be restored from its escapes."""
    text = text.replace("\\", "/")
    shown = visible(text)
    assert shown.isprintable()
    assert visible(shown) == shown
    assert unicodedata.is_normalized("NFC", shown)
    read = re.sub(
        r"\\u([0-9a-f]{4})|\\U([0-9a-f]{8})|\\([nrt])",
        lambda m: chr(int(m[1] or m[2], 16)) if not m[3] else {"n": "\n", "r": "\r", "t": "\t"}[m[3]],
        shown,
    )
    assert read == text


def test_line_breaks_may_be_kept() -> None:
    """Line breaks that `keep` names are not escaped."""
    assert visible("a\nb\u200b", keep="\n") == "a\nb\\u200b"


def test_words_of_mixed_scripts_are_reported() -> None:
    """The warning has the words with their odd letters escaped; languages that mix scripts have no warning."""
    rows = [
        ("/srv/data", ""),
        ("/srv/d\u0430ta", r"Cyrillic and Latin in one word: d\u0430ta"),
        ("/srv/\u0441\u043e/x", r"Cyrillic that looks like Latin: \u0441\u043e"),
        ("\u0430\u0440\u0440\u04cf\u0435", r"Cyrillic that looks like Latin: \u0430\u0440\u0440\u04cf\u0435"),
        ("\u0578\u0585", r"Armenian that looks like Latin: \u0578\u0585"),
        ("\ua4d0\ua4e9", r"Lisu that looks like Latin: \ua4d0\ua4e9"),
        ("\u03bfk", r"Greek and Latin in one word: \u03bfk"),
        ("\u0251bc", r"Latin and phonetic in one word: \u0251bc"),
        ("1\u09ea0", r"digits of two scripts in one word: 1\u09ea0"),
        (
            " ".join(f"d{n}\u0430" for n in "abcde"),
            r"Cyrillic and Latin in one word: da\u0430, db\u0430, dc\u0430 and 2 more",
        ),
        ("диск с данными на srv-1", ""),  # noqa: RUF001
        ("Ελλάδα και Latin", ""),
        ("日本語ABC カタカナ 한국어", ""),
        ("größe über Việt", ""),
        ("m² 25µm ª", ""),
        ("नमस्ते ४०", ""),
    ]
    assert [
        (text, found) for text, warning in rows if (found := describe_mixed_scripts(text)) != warning
    ] == []
