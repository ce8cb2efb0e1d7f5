"""What a user types: messages, labels, policies, periods, and names of agents and conversations."""

import io
import sys
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from sojourn.cli.arguments import (
    MAX_READ,
    decode,
    parse_agent,
    parse_conversation,
    parse_since,
    read_labels,
    read_policy,
    read_text,
)
from sojourn.cli.failure import USAGE, CommandError

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


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


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xef\xbb\xbfhello\r\nthere\r\n", "hello\nthere\n"),
        ("é".encode(), "é"),
        (b"a\rb", "a\rb"),
    ],
)
def test_text_of_windows_has_no_mark_and_no_carriage_returns(data, text):
    """A byte order mark is not part of the text, and a line ends with a line feed."""
    assert decode(data, "notes.txt") == text


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("hi".encode("utf-16"), r"\(it begins as UTF-16\).*iconv -f UTF-16 -t UTF-8"),
        ("hi".encode("utf-16-le"), r"\(it has zero bytes, as UTF-16 has\).*iconv -f UTF-16LE -t UTF-8"),
        ("one\ncafé".encode("latin-1"), r"\(byte 0xe9 in line 2\).*iconv -f WINDOWS-1252 -t UTF-8"),
    ],
)
def test_another_encoding_is_refused_with_what_to_do(data, message):
    """Text in UTF-16 or Latin-1 is bad usage; the error names the place and a command that converts it."""
    with pytest.raises(CommandError, match=rf"^notes\.txt is not text in UTF-8 {message}") as caught:
        decode(data, "notes.txt")
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
    policy = read_policy(str(tmp_path / "limits.json"))
    assert policy.set_fields() == {"max_tool_calls": 5, "time_budget": timedelta(minutes=10)}


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
        read_policy(str(tmp_path / "limits.json"))
    assert caught.value.exit_code == USAGE


def test_a_missing_policy_file_is_named(tmp_path):
    """A file that cannot be read is bad usage, with the system's reason."""
    with pytest.raises(CommandError, match=r"cannot read .*none\.json: No such file"):
        read_policy(str(tmp_path / "none.json"))


def test_a_number_and_a_unit_are_before_now(subtests: pytest.Subtests) -> None:
    """Seconds to weeks count back from now."""
    rows = [
        ("45s", timedelta(seconds=45)),
        ("30m", timedelta(minutes=30)),
        (" 2 H ", timedelta(hours=2)),
        ("7d", timedelta(days=7)),
        ("2w", timedelta(weeks=2)),
    ]
    for text, ago in rows:
        with subtests.test(text=text, ago=ago):
            assert parse_since(text, now=NOW) == NOW - ago


def test_a_date_or_time_is_itself():
    """A time has its own zone, or else this machine's."""
    assert parse_since("2026-03-01T09:30:00+02:00") == datetime(2026, 3, 1, 7, 30, tzinfo=UTC)
    assert parse_since("2026-03-01") == datetime(2026, 3, 1).astimezone()


def test_another_text_is_bad_usage(subtests: pytest.Subtests) -> None:
    """The error quotes the text without control characters, and shows valid ones."""
    rows = ["", "2", "h", "-2h", "2 months", "1.5h", "999999999w", "0001-01-01", "٣h", "\x1b[2J"]
    for text in rows:
        with subtests.test(str(text)):
            with pytest.raises(CommandError, match="use such as 30m") as caught:
                parse_since(text, now=NOW)
            assert caught.value.exit_code == USAGE
            assert "\x1b" not in str(caught.value)


def test_a_name_that_does_not_tell_which_conversation_is_refused(subtests: pytest.Subtests) -> None:
    """Neither a part that is missing nor a digest in place of a name finds or begins a conversation."""
    rows = ["x.y", "x.y@", "@s", "x.y:@s", "x.y:t+0@s", f"x.y@s+{'0' * 32}"]
    for name in rows:
        with subtests.test(name=name):
            with pytest.raises(CommandError, match="name") as caught:
                parse_conversation(name, None)
            assert caught.value.exit_code == USAGE


@pytest.mark.parametrize("name", ["", ":", "x.y:", ":acme"])
def test_a_name_of_an_agent_has_an_agent_and_with_a_colon_a_tenant(name):
    """What has only a part of it starts nothing."""
    with pytest.raises(CommandError, match="names no agent") as caught:
        parse_agent(name, None)
    assert caught.value.exit_code == USAGE
