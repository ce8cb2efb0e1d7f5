"""Texts of servers are made safe to show."""

import pytest

from sojourn.mcp.limits import clean_text, longest_form, mask_secrets, mask_start, progress_line


def test_texts_are_made_fit_to_be_shown():
    """Line breaks stay; control, escape and bidirectional characters go, long texts are cut, and secrets are masked."""
    assert clean_text("a\tb\nc\x1b[31m\x00\u202ed\u200b ", 100) == "a\tb\nc [31m  d"
    assert len(clean_text("x" * 5_000, 100)) == 100
    assert mask_secrets("the key is abcdef", ["abcdef", "key"]) == "the key is ***"
    assert progress_line(1, None, None) == "1"
    assert progress_line(0.5, 1, "a\nb") == "0.5 of 1: a b"


def test_a_longer_secret_is_masked_before_a_shorter_one_that_it_contains():
    """Nothing of the longer secret stays, whatever the order in which the two are given."""
    for secrets in (["secret", "secret-token"], ["secret-token", "secret"]):
        assert mask_secrets("bad secret-token, bad secret", secrets) == "bad ***, bad ***"


@pytest.mark.parametrize("shown", ['pass"word\\n2', 'pass\\"word\\\\n2', "pass%22word%5Cn2"])
def test_a_secret_is_masked_as_it_is_escaped(shown):
    """JSON and addresses write a secret in another form, which is masked too."""
    assert mask_secrets(f"bad {shown}!", ['pass"word\\n2']) == "bad ***!"


def test_each_line_of_a_secret_is_masked():
    """A key of several lines is repeated line by line in a log."""
    assert mask_secrets("got line-number-2", ["line-number-1\nline-number-2"]) == "got ***"


def test_a_text_that_was_cut_shows_no_half_of_a_secret():
    """Wherever a text is cut, no four characters of a secret are left."""
    secrets = ["secret", "SECRET-TOKEN"]
    text = f"{'x' * 40} SECRET-TOKEN secret {'y' * 40}"
    for length in range(len(text)):
        shown = mask_start(text[:length], secrets)
        assert not [at for each in secrets for at in range(len(each) - 3) if each[at : at + 4] in shown]
    assert mask_start(text, secrets) == f"{'x' * 40} *** *** {'y' * 28}"
    assert mask_start("plain", []) == "plain"
    assert longest_form(["short"]) == 0
