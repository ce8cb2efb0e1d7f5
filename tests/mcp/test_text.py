"""Texts of servers are made safe to show."""

from sojourn.mcp.text import cleaned, masked, progress_line


def test_texts_are_made_fit_to_be_shown():
    """Line breaks stay; control, escape and bidirectional characters go, long texts are cut, and secrets are masked."""
    assert cleaned("a\tb\nc\x1b[31m\x00\u202ed\u200b ", 100) == "a\tb\nc [31m  d"
    assert len(cleaned("x" * 5_000, 100)) == 100
    assert masked("the key is abcdef", ["abcdef", "key"]) == "the key is ***"
    assert progress_line(1, None, None) == "1"
    assert progress_line(0.5, 1, "a\nb") == "0.5 of 1: a b"
