"""Texts made from patterns: they match, are always the same, and take bounded work for any pattern."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.core.schema.formats import matches
from sojourn.core.schema.pattern import text_for


def test_a_text_is_the_shortest_of_the_first_alternatives() -> None:
    """The text has the fewest repetitions and the first alternatives of the pattern."""
    rows = [
        (r"^[A-Z]{2}-\d{4}$", "AA-0000"),
        (r"^SO-\d+$", "SO-0"),
        (r"^(?:north|south)-[1-9]$", "north-1"),
        (r"^(abc|def)+$", "abc"),
        (r"^\+?[1-9]\d{6,14}$", "1000000"),
        (r"^[^a-z]{3}$", "AAA"),
        (r"^[\x00-\x7f]$", "a"),
        (r"^\p{Lu}\p{L}+$", "Aa"),
        (r"^[[:alpha:]]+[[:digit:]]$", "a0"),
        (r"(?i)^abc$", "abc"),
        (r"^(?i:x)y$", "xy"),
        (r"^\w+@\w+\.[a-z]{2,}$", "a@a.aa"),
        (r"^#[0-9a-fA-F]{6}$", "#000000"),
        (r"^\u0041\x42\x{43}$", "ABC"),
        (r"^[]a]$", "]"),
        (r"^[\]\-]$", "]"),
        (r"^[a-]$", "a"),
        (r"^(?P<y>\d{4})-(?<m>0[1-9])$", "0000-01"),
        (r"^https?://[^\s/$.?#].[^\s]*$", "http://ax"),
        (r"^\d{3}(-\d{4})?$", "000"),
        (r"^a{,3}$", "a{,3}"),
        (r"^\bfoo\b", "foo"),
        (r"^a+?b*?$", "a"),
        (r"^(?:|x)$", ""),
        (r"\Aa\.\n\z", "a.\n"),
        ("", ""),
    ]
    assert [(pattern, found) for pattern, text in rows if (found := text_for(pattern)) != text] == []


def test_a_text_has_a_length_within_the_limits(subtests: pytest.Subtests) -> None:
    """Repetitions and alternatives make a text longer; where these do not suffice, there is none."""
    rows = [
        (r"^[a-z]+$", 3, 5, "aaa"),
        (r"^(ab)*$", 3, 9, "abab"),
        (r"^\d{3}(-\d{4})?$", 5, 12, "000-0000"),
        (r"^(?:a|bcd)$", 2, 9, "bcd"),
        (r"^-?\d*\.?\d{0,2}$", 1, 9, "-0.0"),
        ("b", 2, 9, None),
        (r"^[a-z]{9}$", 0, 5, None),
        (r"^a+$", 2_000, 3_000, None),
    ]
    for pattern, least, most, text in rows:
        with subtests.test(pattern=pattern, least=least, most=most, text=text):
            assert text_for(pattern, least, most) == text


def test_an_unsupported_pattern_has_no_text() -> None:
    """A pattern that RE2 or this module does not support, or whose text would be too long, has none."""
    rows = [
        r"^(?=x)y$",
        r"^(?!0)\d+$",
        r"(a)\1",
        r"^[^\x00-\x{10FFFF}]$",
        r"^((a{1000}){1000}){10}$",
        r"^(?:(?:(?:(?:a{9}){9}){9}){9}){2}$",
        r"\p{Greek}",
        r"\Qa.b\E",
        r"[[:cntrl:]]",
        "(" * 25 + "a" + ")" * 25,
        "a" * 501,
        "(" * 400,
        "[" * 400,
        "[a-",
        "\\",
        "*",
        "a)",
        r"\x{D800}",
    ]
    assert [(pattern, found) for pattern in rows if (found := text_for(pattern)) is not None] == []


@settings(max_examples=300, deadline=None)
@given(
    st.text(st.sampled_from(r"ab01^$.*+?|()[]{},-\dwsWpLux"), max_size=40),
    st.integers(0, 6),
    st.integers(0, 9),
)
def test_the_text_of_any_pattern_matches_it(pattern: str, least: int, most: int) -> None:
    """For any pattern nothing raises, and a text matches, has a length within the limits, and is the same each time."""
    text = text_for(pattern, least, most)
    if text is not None:
        assert least <= len(text) <= most
        assert matches(pattern, text)
        assert text_for.__wrapped__(pattern, least, most) == text
