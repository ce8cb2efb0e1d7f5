"""What a run opens with, as a command reads it: message, labels and policy."""

import io
import sys
from datetime import timedelta
from types import SimpleNamespace

import pytest

from sojourn.cli.failure import USAGE, CommandError
from sojourn.cli.opening import MAX_READ, read_labels, read_policy, read_text


def piped(monkeypatch, data: bytes) -> None:
    """Put bytes on standard input."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


def test_a_message_is_words_or_standard_input(monkeypatch):
    """A dash stands for standard input, whose last line break is no part of the message."""
    piped(monkeypatch, "two\nlines é\n".encode())
    assert (read_text("hello"), read_text("-")) == ("hello", "two\nlines é")


@pytest.mark.parametrize(
    ("data", "message"),
    [(b" \n", "is empty"), (b"\xff\xfe", "UTF-8"), (b"x" * (MAX_READ + 1), "more than 1,000,000 bytes")],
)
def test_a_bad_standard_input_is_refused(monkeypatch, data, message):
    """Nothing, bytes that are no text, and too many bytes are bad usage."""
    piped(monkeypatch, data)
    with pytest.raises(CommandError, match=message) as caught:
        read_text("-")
    assert caught.value.exit_code == USAGE


def test_labels_are_names_and_values():
    """A value can be empty and can have an equals sign."""
    assert read_labels(["team=ops", "note=", "sum=1=1"]) == {"team": "ops", "note": "", "sum": "1=1"}


@pytest.mark.parametrize("pairs", [["team"], ["=ops"], ["team=a", "team=b"]])
def test_bad_labels_are_refused(pairs):
    """A label without a name or an equals sign, or given twice, is bad usage."""
    with pytest.raises(CommandError, match=r"--label 'team|--label '=ops'") as caught:
        read_labels(pairs)
    assert caught.value.exit_code == USAGE


def test_a_policy_is_read_from_a_file(tmp_path):
    """The limits are those of the file."""
    (tmp_path / "limits.json").write_text('{"max_tool_calls": 5, "time_budget": "PT10M"}')
    policy = read_policy(tmp_path / "limits.json")
    assert policy.given() == {"max_tool_calls": 5, "time_budget": timedelta(minutes=10)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "limits.json is not JSON"),
        ("[]", "limits.json is no JSON object"),
        ('{"max_tools": 1}', "limits.json: max_tools is no limit of a run; the limits are max_tool_calls, "),
        ('{"max_tool_calls": -1}', "limits.json: max_tool_calls: Input should be greater"),
        ('{"time_budget": "soon"}', "limits.json: time_budget: Input should be a valid timedelta"),
        ('{"approval": {"ask": 1}}', r"limits.json: approval\.ask"),
    ],
)
def test_a_bad_policy_is_refused_with_file_and_field(tmp_path, text, message):
    """The error has the file and the field, and what is wrong with it."""
    (tmp_path / "limits.json").write_text(text)
    with pytest.raises(CommandError, match=message) as caught:
        read_policy(tmp_path / "limits.json")
    assert caught.value.exit_code == USAGE


def test_a_missing_policy_file_is_named(tmp_path):
    """A file that cannot be read is bad usage, with the system's reason."""
    with pytest.raises(CommandError, match=r"cannot read .*none\.json: No such file"):
        read_policy(tmp_path / "none.json")
