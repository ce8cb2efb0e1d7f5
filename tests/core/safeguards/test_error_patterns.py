"""Errors that keep coming back: their classes, three strikes, what a person is told (ME-2 to ME-10, ME-15, ME-17).

The port of `error_pattern_detector_spec.rb` (ME-27); its loops are in `test_loops.py`. Read this before
changing a threshold or a class.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn import RetryReason
from sojourn.core.safeguards import error_classes
from sojourn.core.safeguards.error_classes import (
    ERROR_CLASSES,
    MAX_READ,
    ErrorClass,
    class_named,
    classify,
    match_class,
)
from sojourn.core.safeguards.error_patterns import (
    MAX_ENTRIES,
    CallOutcome,
    ErrorEntry,
    ErrorPatterns,
)

NOW = datetime(2025, 1, 1, 12, 0, tzinfo=UTC)

EXAMPLES = {
    "font_error": [
        "findfont: Font family 'Arial' not found",
        "findfont: Generic family 'sans' has no match, falling back",
        "Cannot find font DejaVu Sans",
        "could not load any font",
        "Missing required font",
        "Glyph 8722 missing from current font",
        "Font Helvetica not available",
        "font Arial.ttf is not installed",
        "ERROR: FONT FAMILY NOT FOUND",
        "Font missing",
        "Font error 3",
        "Fontconfig error: Cannot load default config file",
    ],
    "module_error": [
        "No module named pandas",
        "ModuleNotFoundError: numpy",
        "ImportError: DLL load failed while importing _core",
        "ImportError: cannot import name x",
        "cannot import name 'x' from 'y'",
        "Error: Cannot find module 'left-pad'",
        "cannot load such file -- nokogiri",
        "the package pandas is not installed",
        "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'x'",
        "there is no package called 'ggplot2'",
        "No module named 'matplotlib.font_manager'",
    ],
    "permission_error": [
        "Permission denied: /tmp/file",
        "[Errno 13] Permission denied: '/etc/shadow'",
        "Access denied to resource",
        "Access to the path 'C:\\x' is denied.",
        "Operation not permitted",
        "insufficient privileges for relation users",
        "open EACCES",
        "chown EPERM /srv",
        "PermissionError: /srv",
    ],
    "resource_error": [
        "Out of memory",
        "CUDA out of memory. Tried to allocate 2 GiB",
        "MemoryError",
        "Cannot allocate memory",
        "Unable to allocate 7.45 GiB for an array",
        "not enough memory to sort",
        "container was OOMKilled",
        "Disk full",
        "the disk is full",
        "No space left on device",
        "Disk quota exceeded",
        "Too many open files",
        "write ENOSPC",
    ],
    "plotting_error": [
        "Backend TkAgg not available",
        "backend 'Qt5Agg' is not available",
        "Plotting backend plotly not installed",
        "Cannot load backend 'TkAgg' which requires the 'tk' interactive framework",
        "Cannot create figure",
        "failed to create window",
        "DISPLAY not set",
        "display not found",
        "$DISPLAY environment variable is not set",
        "no display name and no $DISPLAY environment variable",
        'couldn\'t connect to display ":0"',
        "Cairo error occurred",
        "cairo.Error: invalid matrix",
        "agg error",
        "Agg backend error",
        "_tkinter.TclError: bad window",
    ],
    "file_io_error": [
        "[Errno 2] No such file or directory: '/srv/x.csv'",
        "No such file",
        "FileNotFoundError: map",
        "ENOENT: map",
        "map file not found",
        "the folder of maps does not exist",
        "cannot open the map file",
        "could not find directory",
        "Cannot write file",
        "could not write to output file out.csv",
        "File is locked",
        "file locked",
        "The file 'a.xlsx' is locked by another process",
        "database is locked",
        "Read-only file system",
        "open EROFS",
    ],
    "network_error": [
        "rate limit",
        "Rate limit hit for maps",
        "rate-limits apply",
        "RateLimitError: slow",
        "rate limiting",
        "Too many requests",
        "throttled by the service",
        "throttling",
        "Connection refused",
        "Connection reset by peer",
        "('Connection aborted.', RemoteDisconnected())",
        "ConnectionRefusedError",
        "ConnectError",
        "Unable to connect to the API",
        "Server disconnected without sending a response.",
        "Network unreachable",
        "Network is unreachable",
        "No route to host",
        "connect ECONNREFUSED 127.0.0.1:80",
        "getaddrinfo ENOTFOUND example.org",
        "timeout",
        "Request timeout",
        "ReadTimeout",
        "TimeoutError",
        "504 Gateway Time-out",
        "The read operation timed out",
        "4 DEADLINE_EXCEEDED",
        "DNS failure",
        "DNS lookup failed",
        "Name or service not known",
        "Temporary failure in name resolution",
        "dial tcp: lookup x: no such host",
        "Could not resolve host: example.org",
        "HTTP 429",
        "HTTP 502",
        "HTTP/1.1 503",
        "HTTP status 504",
        "HTTP Error 503",
        "Error code: 429",
        "status_code=502",
        "Client error '429 Too Many Requests' for url",
        "502 Bad Gateway",
        "503 Server Error: Service Unavailable for url",
        "SSL connection error",
        "certificate verify failed: self-signed",
    ],
    "generic_error": [
        "the site s-1 does not exist",
        "KeyError: 'sku'",
        "ValueError: could not convert string to float",
        "",
    ],
}

# Messages that hold the words of a class and are not of it.
NOT_OF_ANY_CLASS = [
    "API key is not configured",
    "the message was flagged as an error",
    "context window exceeded",
    "failed to create maintenance window",
    "the font size must be at most 72",
    "The font was changed. The column was not found",
    "the storage backend is not available",
    "the parcel (package 12) was not found",
    "platform not found",
    "the file is unlocked",
    "the profile is locked",
    "unknown argument timeout_ms",
    "time out of range",
    "row 503 is bad",
    "unable to reach consensus",
    "expected 429 rows",
    "a memory is not enough",
]


def recorded(*messages: str, tool: str = "t") -> ErrorPatterns:
    """The state after these errors of one tool, a minute apart."""
    patterns = ErrorPatterns()
    for minute, message in enumerate(messages):
        patterns = patterns.record(message, tool, NOW + timedelta(minutes=minute))
    return patterns


def counts(errors: Sequence[tuple[str, str]]) -> list[int]:
    """The count after each error, given as tool and message; a message `ok` is a success."""
    patterns, seen = ErrorPatterns(), list[int]()
    for tool, message in errors:
        patterns = patterns.succeeded(tool) if message == "ok" else patterns.record(message, tool, NOW)
        seen.append(patterns.count)
    return seen


# Which class an error is of (ME-3, ME-17).


@pytest.mark.parametrize(("category", "message"), [(c, m) for c, all_ in EXAMPLES.items() for m in all_])
def test_common_failures_are_recognised(category: str, message: str) -> None:
    """Every message is of its class, in any case and with any spacing (ME-3)."""
    assert classify(message) == category
    assert classify(f"Error:  {message.upper()}\n") == category
    assert classify(message.replace(" ", " \t ").replace("'", "\N{RIGHT SINGLE QUOTATION MARK}")) == category


@pytest.mark.parametrize("message", NOT_OF_ANY_CLASS)
def test_only_whole_words_count(message: str) -> None:
    """A word inside another, or in another sentence, says nothing."""
    assert classify(message) == "generic_error"


@pytest.mark.parametrize(
    ("category", "pattern"),
    [(row.category, pattern) for row in ERROR_CLASSES for pattern in row.patterns],
)
def test_each_pattern_can_decide(category: str, pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the pattern some example is no longer of its class: none stands idle behind another."""
    fewer = [
        replace(row, patterns=tuple(p for p in row.patterns if (row.category, p) != (category, pattern)))
        for row in ERROR_CLASSES
    ]
    monkeypatch.setattr(error_classes, "ERROR_CLASSES", tuple(fewer))
    assert any(classify(message) != category for message in EXAMPLES[category])


@pytest.mark.parametrize(
    ("message", "category"),
    [
        ("Cannot find font: permission denied", "font_error"),
        ("No module named 'x': connection refused", "module_error"),
        ("Cannot write file: permission denied", "permission_error"),
        ("Cannot write file: no space left on device", "resource_error"),
        ("could not connect to display: connection refused", "plotting_error"),
        ("Cannot write file: timed out", "file_io_error"),
    ],
)
def test_the_first_class_that_fits_decides(message: str, category: str) -> None:
    """Classes are tried in the order of the table."""
    assert classify(message) == category


@pytest.mark.parametrize(
    ("reason", "category"),
    [
        (RetryReason.TIMEOUT, "network_error"),
        (RetryReason.RATE_LIMITED, "network_error"),
        (RetryReason.INVALID_ARGUMENTS, "contract_error"),
        (RetryReason.MISSING_FIELDS, "contract_error"),
        (RetryReason.MALFORMED_RESPONSE, "contract_error"),
        (RetryReason.TOOL_UNAVAILABLE, "font_error"),
        ("a_reason_of_tomorrow", "font_error"),
        ("", "font_error"),
        (None, "font_error"),
    ],
)
def test_a_reason_is_looked_at_before_the_text(reason: str | None, category: str) -> None:
    """A structured reason says more than words; one that decides nothing leaves it to the words."""
    assert classify("Cannot find font", reason) == category


def test_what_decided_is_told() -> None:
    """The words or the reason stand beside the class (ME-15)."""
    assert match_class("oh: Font family 'Arial' NOT found.") == (
        "font_error",
        "font family 'arial' not found",
    )
    assert match_class("anything", "timeout") == ("network_error", "timeout")
    assert match_class("anything") == ("generic_error", "")


def test_a_row_makes_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adding a row is enough: errors are classed, count, and lead to its suggestions (ME-17)."""
    row = ErrorClass("licence_error", "the licence has run out", ("Renew it.",), (r"licen[cs]e expired",))
    monkeypatch.setattr(error_classes, "ERROR_CLASSES", (row, *ERROR_CLASSES))
    patterns = recorded("Licence expired", "your license expired: permission denied", "LICENSE EXPIRED")
    assert patterns.entries[-1].category == "licence_error"
    assert "the licence has run out" in patterns.suggestion()
    assert "- Renew it." in patterns.suggestion()


def test_a_class_of_tomorrow_is_treated_as_generic() -> None:
    """A record that a newer table wrote is read all the same."""
    assert class_named("licence_error").category == "generic_error"


def test_every_class_has_three_or_four_steps_of_its_own() -> None:
    """Suggestions are short, and specific to the class (ME-5, ME-17)."""
    steps = [step for row in ERROR_CLASSES for step in row.suggestion]
    assert len(set(steps)) == len(steps)
    assert all(len(row.suggestion) in (3, 4) for row in ERROR_CLASSES)
    assert max(map(len, steps)) <= 110


def test_only_the_beginning_of_a_message_is_read() -> None:
    """A message of any length costs no more than its first 4,000 characters."""
    assert classify("x" * (MAX_READ - 8) + " timeout") == "network_error"
    assert classify("x" * MAX_READ + " timeout") == "generic_error"


# When retrying stops (ME-4, ME-7).


def test_the_third_font_error_stops() -> None:
    """Three different messages of one class count 1, 2, 3; the third stops, and the advice is about fonts."""
    messages = ["Font family 'Arial' not found", "Font family 'Helvetica' not found", "Cannot find font"]
    seen = [recorded(*messages[: n + 1]) for n in range(3)]
    assert [each.count for each in seen] == [1, 2, 3]
    assert [each.should_stop for each in seen] == [False, False, True]
    assert "DejaVu Sans" in seen[-1].suggestion()


@pytest.mark.parametrize(
    "messages",
    [
        ["Out of memory", "Cannot allocate memory", "Disk full"],
        ["Connection refused", "Network unreachable", "timeout"],
        ["the site s-1 is dark", "the site s-22 is dark", "The site s-3 is dark"],
        ["", "", ""],
    ],
)
def test_three_of_a_kind_stop(messages: list[str]) -> None:
    """One class, or the same generic error of one tool: the third stops, not the second."""
    assert not recorded(*messages[:2]).should_stop
    assert recorded(*messages).should_stop


@pytest.mark.parametrize(
    "messages",
    [
        ["Cannot find font", "Cannot find font", "No module named x", "Cannot find font"],
        ["the site is dark", "no such device", "the key is wrong"],
    ],
)
def test_what_is_not_alike_starts_again(messages: list[str]) -> None:
    """An error unlike the last starts the count at 1."""
    assert recorded(*messages).count == 1
    assert not recorded(*messages).should_stop


def test_a_class_is_counted_over_tools() -> None:
    """A missing font is one trouble, whichever tool meets it; a generic error is its tool's own."""
    assert counts([("a", "Font error"), ("b", "Font error"), ("c", "Font error")]) == [1, 2, 3]
    assert counts([("a", "no"), ("b", "no"), ("a", "no"), ("a", "no")]) == [1, 1, 1, 2]


def test_a_success_of_the_tool_that_failed_last_clears_the_count() -> None:
    """What has recovered has not failed three times in a row; another tool's success proves nothing."""
    font = "Cannot find font"
    assert counts([("a", font), ("a", "ok"), ("a", font), ("a", font)]) == [1, 0, 1, 2]
    assert counts([("a", font), ("b", "ok"), ("a", font), ("a", font)]) == [1, 1, 2, 3]
    assert counts([("a", font), ("b", font), ("a", "ok"), ("b", "ok")]) == [1, 2, 2, 0]


def test_a_success_costs_nothing() -> None:
    """Where there is nothing to clear the state is the same value, not a copy."""
    for patterns in (ErrorPatterns(), recorded("no", tool="b"), recorded("no", tool="a").succeeded("a")):
        assert patterns.succeeded("a") is patterns


def test_a_stop_stays_a_stop() -> None:
    """Calls that were still running end as they do; the advice stays that of the three that decided."""
    stopped = recorded("Font error 1", "Font error 2", "Font error 3")
    later = stopped.record("Font error 4", "t", NOW).succeeded("t").record("no module named x", "u", NOW)
    assert stopped.record("Font error 4", "t", NOW).count == 4
    assert later.should_stop
    assert later.suggestion() == stopped.suggestion()


def test_reset_starts_clean() -> None:
    """After a reset there is no history and no stop (ME-10)."""
    assert recorded("timeout", "timeout", "timeout").reset() == ErrorPatterns()
    assert not ErrorPatterns().should_stop


def test_two_runs_never_share_counts() -> None:
    """A state is a value: what is recorded in one run is in no other (ME-2)."""
    first, second = recorded("Font error 1", "Font error 2"), recorded("Font error 1")
    assert first.record("Font error 3", "t", NOW).should_stop
    assert (first.count, second.count) == (2, 1)
    assert not second.record("Font error 2", "t", NOW).should_stop
    assert ErrorPatterns() == ErrorPatterns((), 0, ())


# When two errors that no class tells apart are the same.


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("row 7 is bad", "row 4,711 is bad"),
        ("order ord-19a is closed", "order ord-7f is closed"),
        ("no user 0f8fad5b-d9cb-469f-a165-70867728950e", "no user 7c9e6679-7425-40de-944b-e07fc1f90ae7"),
        ("object at 0x7f3a is gone", "object at 0x1b is gone"),
        ("commit deadbeef is gone", "commit cafebabe is gone"),
        ("cannot parse /srv/a/b.csv", "cannot parse /srv/c.csv"),
        ("cannot parse C:\\data\\a.csv", "cannot parse D:\\b.csv"),
        ("GET https://a.example/x?q=1 failed", "GET https://b.example/ failed"),
        ("no mailbox ana@example.com", "no mailbox bo@example.org"),
        ("KeyError: 'sku'", "KeyError: 'name of site'"),
        ('no column "a b"', 'no column "c"'),
        ("no column `a`", "no column `b`"),
        ("stale since 2024-01-31T09:30:00Z", "stale since 2025-12-01T10:00:00+02:00"),
        ("it is   gone", "It is\ngone"),
    ],
)
def test_what_varies_is_taken_out(one: str, other: str) -> None:
    """Numbers, ids, hex, paths and quoted values do not make another error."""
    assert recorded(one, other).count == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the site is dark", "the site is closed"),
        ("it isn't open and wasn't there", "it isn't shut and wasn't there"),
        ("row 7 is bad", "row 7 is old"),
    ],
)
def test_what_says_something_else_is_another_error(one: str, other: str) -> None:
    """The words that are left tell errors apart."""
    assert recorded(one, other).count == 1


def test_a_long_value_does_not_move_the_rest() -> None:
    """The text is cut after what varies was taken out, so that a long path ends where a short one does."""
    long, short = "/a" * 400, "/b"
    assert recorded(*(f"cannot parse {path} as a table" for path in (long, short))).count == 2


@pytest.mark.parametrize(
    ("tool", "reason", "fields", "count"),
    [
        ("t", RetryReason.INVALID_ARGUMENTS, ("/b", "/a"), 2),
        ("t", RetryReason.MISSING_FIELDS, ("/a", "/b", "/b"), 2),
        ("t", RetryReason.INVALID_ARGUMENTS, ("/a",), 1),
        ("t", RetryReason.INVALID_ARGUMENTS, (), 1),
        ("u", RetryReason.INVALID_ARGUMENTS, ("/a", "/b"), 1),
    ],
)
def test_contract_errors_are_alike_by_their_fields(
    tool: str, reason: str, fields: tuple[str, ...], count: int
) -> None:
    """A model that mends one field and misses another makes progress; the same set again is none."""
    first = ErrorPatterns().record("x", "t", NOW, reason="invalid_arguments", fields=("/a", "/b"))
    assert first.record("quite another text", tool, NOW, reason=reason, fields=fields).count == count


def test_arguments_that_cannot_be_read_are_alike() -> None:
    """No field is to blame: three in a row of one tool stop."""
    patterns = ErrorPatterns()
    for _ in range(3):
        patterns = patterns.record("cut off", "t", NOW, reason="invalid_arguments")
    assert patterns.should_stop


# A whole step, whose calls ran side by side.


def test_five_parallel_time_outs_are_one_strike() -> None:
    """A step counts a tool once for each class, and remembers it once."""
    outcomes = [CallOutcome("t", "no answer", RetryReason.TIMEOUT)] * 5
    patterns = ErrorPatterns().record_step(outcomes, NOW)
    assert (patterns.count, len(patterns.entries)) == (1, 1)
    assert not patterns.record_step(outcomes, NOW).should_stop
    assert patterns.record_step(outcomes, NOW).record_step(outcomes, NOW).should_stop


@pytest.mark.parametrize(
    ("step", "count", "entries"),
    [
        ([("a", "timeout"), ("b", "timeout")], 2, 2),
        ([("a", "timeout"), ("a", "Font error"), ("a", "timeout")], 1, 2),
        ([("a", "timeout"), ("a", "ok")], 0, 1),
        ([("a", "ok"), ("a", "timeout")], 1, 1),
        ([("a", "timeout"), ("b", "ok")], 1, 1),
        ([("a", "timeout"), ("a", "ok"), ("a", "timeout")], 0, 1),
        ([], 0, 0),
    ],
)
def test_outcomes_count_in_call_order(step: list[tuple[str, str]], count: int, entries: int) -> None:
    """Not the order in which they came in, so that a replay and a reader count alike."""
    outcomes = [CallOutcome(tool, None if said == "ok" else said) for tool, said in step]
    patterns = ErrorPatterns().record_step(outcomes, NOW)
    assert (patterns.count, len(patterns.entries)) == (count, entries)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_tool_that_also_succeeds_never_stops(order: tuple[int, int]) -> None:
    """One of two parallel calls fails in every step: the tool works, whichever comes first."""
    both = (CallOutcome("t", "timeout"), CallOutcome("t"))
    patterns = ErrorPatterns()
    for _ in range(9):
        patterns = patterns.record_step([both[index] for index in order], NOW)
    assert not patterns.should_stop


def test_a_step_without_failures_changes_nothing() -> None:
    """The usual step gives the same value back."""
    patterns = recorded("timeout", tool="b")
    assert patterns.record_step([CallOutcome("a")] * 3, NOW) is patterns


def test_an_empty_message_is_a_failure() -> None:
    """Only no message at all is a success."""
    assert CallOutcome("t", "").failed
    assert not CallOutcome("t").failed


# What is remembered and shown (ME-6, ME-15).


def test_ten_errors_are_kept() -> None:
    """Of fifteen, ten are kept, and the oldest is the sixth (ME-6)."""
    patterns = recorded(*(f"Error {number}" for number in range(1, 16)))
    assert len(patterns.entries) == MAX_ENTRIES == 10
    assert patterns.entries[0].message == "Error 6"
    assert patterns.entries[-1] == ErrorEntry(
        "Error 15", "t", "generic_error", NOW + timedelta(minutes=14), "error #"
    )


def test_a_record_is_the_first_line_that_says_something() -> None:
    """A message is kept as one printable line, its class is that of the whole."""
    (entry,) = recorded("\n  \n\x1b[31mLoading\x07 the chart\u202e\nfindfont: no Arial").entries
    assert entry.message == "[31mLoading the chart"
    assert (entry.category, entry.matched) == ("font_error", "findfont")


def test_one_call_dumps_everything() -> None:
    """Which class matched by which words, how often, and whether it stopped, as JSON (ME-15)."""
    dumped = recorded("timeout", "The read timed out").record("DNS failure", "u", None).dump()
    assert json.loads(json.dumps(dumped)) == dumped
    assert {**dumped, "records": dumped["records"][-2:]} == {
        "category": "network_error",
        "count": 3,
        "should_stop": True,
        "records": [
            {
                "message": "The read timed out",
                "tool": "t",
                "category": "network_error",
                "at": "2025-01-01T12:01:00+00:00",
                "fingerprint": "",
                "matched": "timed out",
            },
            {
                "message": "DNS failure",
                "tool": "u",
                "category": "network_error",
                "at": None,
                "fingerprint": "",
                "matched": "dns failure",
            },
        ],
    }
    assert ErrorPatterns().dump() == {"category": None, "count": 0, "should_stop": False, "records": []}


# What a person is told (ME-5).


def test_the_block() -> None:
    """What kept failing, what to do, and the last three messages."""
    patterns = recorded("HTTP 503", tool="web.pages.fetch")
    patterns = patterns.record("Connection refused\nTraceback ...", "web.pages.search", NOW)
    patterns = patterns.record("timeout", "web.pages.fetch", NOW)
    assert patterns.suggestion().splitlines() == [
        "3 similar errors in a row, of `web.pages.fetch` and `web.pages.search`: a service did not answer.",
        "What you can do:",
        "- Check that the service is up and can be reached from where the tool runs.",
        "- Check its address, and the proxy, DNS and firewall between.",
        "- Wait some minutes before the next try: it may be busy, or count calls.",
        "- If it answers too slowly, ask for less in one call.",
        "Last errors:",
        "- HTTP 503",
        "- Connection refused",
        "- timeout",
    ]


@pytest.mark.parametrize("row", ERROR_CLASSES, ids=lambda row: row.category)
def test_each_class_has_its_own(row: ErrorClass) -> None:
    """Three errors of any class give a block with that class's steps (ME-5)."""
    message, reason = EXAMPLES.get(row.category, ["x"])[0], row.reasons[0] if row.reasons else None
    patterns = ErrorPatterns()
    for _ in range(3):
        patterns = patterns.record(message, "t", NOW, reason=reason)
    block = patterns.suggestion()
    assert block.startswith(f"`t` failed 3 times in a row: {row.problem}.\n")
    assert all(f"- {step}" in block.splitlines() for step in row.suggestion)


def test_there_is_none_before_the_third() -> None:
    """Two similar errors are a reason to try again."""
    assert ErrorPatterns().suggestion() == recorded("timeout", "timeout").suggestion() == ""


def test_hostile_text_stays_small_and_on_its_line() -> None:
    """Names and messages are cut, printable, and make no lines or code of their own; none is told as such."""
    patterns = recorded(*["timeout `\r\n# x" + "y" * 9_000] * 2, tool="a`\n" + "b" * 9_000)
    lines = patterns.record("", "t", NOW, reason="timeout").suggestion().splitlines()
    assert len(lines) == 10
    assert max(map(len, lines)) < 300
    assert lines[-1] == "- (no message)"


# Words of the table, stray punctuation, and any character at all, half surrogates too.
WORDS = ["font", "file", "cannot", "not", "found", "module", "backend", "tk", "http", "503", "dns", "locked"]
HOSTILE = st.one_of(
    st.text(st.characters(), max_size=300),
    st.lists(st.sampled_from([*WORDS, "", ". ", "'", '"', "/", "\n", "İ", "\ud800"]), max_size=200).map(
        " ".join
    ),
    st.sampled_from(["font " * 2_000, "'a" * 5_000, "a" * 9_000, "1." * 9_000, " " * 9_000]),
)
OUTCOMES = st.builds(
    CallOutcome,
    st.sampled_from(["a", "b"]) | HOSTILE,
    st.none() | st.sampled_from(["timeout", "Font error", "no"]) | HOSTILE,
    st.none() | st.sampled_from(["timeout", "invalid_arguments"]) | HOSTILE,
    st.lists(HOSTILE, max_size=3).map(tuple),
)


@settings(deadline=None)
@given(HOSTILE, st.none() | st.sampled_from(["timeout", "tool_unavailable"]))
def test_every_text_has_one_class(message: str, reason: str | None) -> None:
    """Classing never raises, says the same again, and names a class of the table."""
    found = match_class(message, reason)
    assert found == match_class(message, reason)
    assert found.category == classify(message, reason)
    assert found.category in {row.category for row in ERROR_CLASSES}
    assert len(found.matched) <= 100


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(OUTCOMES, max_size=4), max_size=8))
def test_the_state_stays_within_its_bounds(steps: list[list[CallOutcome]]) -> None:
    """Whatever comes, the state holds ten short entries, can be sent, and stops on three strikes or never."""
    patterns = ErrorPatterns()
    for step in steps:
        patterns = patterns.record_step(step, NOW)
        assert len(patterns.entries) <= MAX_ENTRIES
        assert len(patterns.strikes) in (0, 3)
        assert patterns.should_stop == bool(patterns.strikes) == bool(patterns.suggestion())
        assert patterns.should_stop or patterns.count < 3
        assert len(json.dumps(patterns.dump(), ensure_ascii=False).encode()) < 60_000
