"""Patterns in the form that every server takes."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.models.projection.subschemas import portable_pattern

ROWS = [
    (r"^A-\d+$", "^A-[0-9]+$"),
    (r"^\w+\s[\d\s-]$", r"^[A-Za-z0-9_]+[ \t\r\n][0-9 \t\r\n-]$"),
    (r"^\D\W\S$", r"^[^0-9][^A-Za-z0-9_][^ \t\r\n]$"),
    ("abc", "^.*abc.*$"),
    ("^abc", "^abc.*$"),
    ("abc$", "^.*abc$"),
    (r"^abc\$", r"^abc\$.*$"),
    ("a|b", "^.*(?:a|b).*$"),
    ("^(a|b)$", "^(a|b)$"),
    ("^(?:a|b)[|$^]$", "^(?:a|b)[|$^]$"),
    ("", "^.*.*$"),
    ("^a|b$", None),
    ("(?!a)b", None),
    ("(?<x>a)", None),
    (r"\bword\b", None),
    (r"\p{L}", None),
    (r"(a)\1", None),
    (r"[^\D]", None),
    ("a^b", None),
    ("a$b", None),
    ("[a", None),
    ("(a", None),
    ("\\", None),
    ("[[:alpha:]]", None),
    ("a" * 501, None),
]


def test_a_pattern_is_anchored_and_without_classes(subtests: pytest.Subtests) -> None:
    """Classes are spelled out, and anchors added; a pattern that cannot be spelled so is left out."""
    for pattern, portable in ROWS:
        with subtests.test(pattern[:20]):
            assert portable_pattern(pattern) == portable


@given(
    st.from_regex(r"\^?(\\d|\\w|\\S|[a-c]|\[ab\\d\]|\(a\|b\)|\|)+\$?", fullmatch=True),
    st.text("abc_1 \t", max_size=6),
)
def test_a_portable_pattern_matches_the_same_texts(pattern: str, text: str) -> None:
    """A text fits the portable pattern if and only if it fits the schema's."""
    portable = portable_pattern(pattern)
    if portable is not None:
        assert bool(re.search(portable, text)) == bool(re.search(pattern, text, re.ASCII))
