"""Repeated errors: their classes, the three strikes, and the suggestion for a person (ME-2 to ME-10, ME-15, ME-17).

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
    RULES,
    ErrorClass,
    class_named,
    classify,
    match_class,
)
from sojourn.core.safeguards.error_patterns import MAX_ENTRIES, CallOutcome, ErrorEntry, ErrorPatterns

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

# Messages with words of a class that do not belong to it.
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


def recorded(*messages: str, tool: str = "t", rules: int = RULES) -> ErrorPatterns:
    """The state after these errors of one tool, a minute apart."""
    patterns = ErrorPatterns(rules=rules)
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


# The class of an error (ME-3, ME-17).


def test_common_failures_are_recognised() -> None:
    """Every example has its class, in any case and with any spacing (ME-3)."""
    written = {
        "as it is": lambda message: message,
        "in capitals": lambda message: f"Error:  {message.upper()}\n",
        "spaced": lambda message: message.replace(" ", " \t ").replace(
            "'", "\N{RIGHT SINGLE QUOTATION MARK}"
        ),
    }
    found = [
        (category, how, message, classify(write(message)))
        for category, messages in EXAMPLES.items()
        for message in messages
        for how, write in written.items()
    ]
    assert [each for each in found if each[0] != each[-1]] == []


def test_only_whole_words_count() -> None:
    """A class's word inside another word, or in another sentence, does not decide the class."""
    found = {message: classify(message) for message in NOT_OF_ANY_CLASS}
    assert found == dict.fromkeys(NOT_OF_ANY_CLASS, "generic_error")


def test_each_pattern_can_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the pattern some example has another class, so no pattern is redundant."""
    redundant: list[tuple[str, str]] = []
    for number, row in enumerate(ERROR_CLASSES):
        for pattern in row.patterns:
            fewer = replace(row, patterns=tuple(each for each in row.patterns if each != pattern))
            others = (*ERROR_CLASSES[:number], fewer, *ERROR_CLASSES[number + 1 :])
            monkeypatch.setattr(error_classes, "ERROR_CLASSES", others)
            if all(classify(message) == row.category for message in EXAMPLES[row.category]):
                redundant.append((row.category, pattern))
    assert redundant == []


def test_the_first_class_that_fits_decides(subtests: pytest.Subtests) -> None:
    """Classes are tried in the order of the table."""
    rows = [
        ("Cannot find font: permission denied", "font_error"),
        ("No module named 'x': connection refused", "module_error"),
        ("Cannot write file: permission denied", "permission_error"),
        ("Cannot write file: no space left on device", "resource_error"),
        ("could not connect to display: connection refused", "plotting_error"),
        ("Cannot write file: timed out", "file_io_error"),
    ]
    for message, category in rows:
        with subtests.test(message=message, category=category):
            assert classify(message) == category


def test_a_reason_comes_before_the_text(subtests: pytest.Subtests) -> None:
    """The class follows from the hint's reason; for a reason without a class it follows from the text."""
    rows = [
        (RetryReason.TIMEOUT, "network_error"),
        (RetryReason.RATE_LIMITED, "network_error"),
        (RetryReason.INVALID_ARGUMENTS, "contract_error"),
        (RetryReason.MISSING_FIELDS, "contract_error"),
        (RetryReason.MALFORMED_RESPONSE, "contract_error"),
        (RetryReason.TOOL_UNAVAILABLE, "font_error"),
        ("a_reason_of_tomorrow", "font_error"),
        ("", "font_error"),
        (None, "font_error"),
    ]
    for reason, category in rows:
        with subtests.test(reason=reason, category=category):
            assert classify("Cannot find font", reason) == category


def test_the_match_has_the_words_that_decided() -> None:
    """`match_class` returns the class, and the words or the reason that decided it (ME-15)."""
    assert match_class("oh: Font family 'Arial' NOT found.") == (
        "font_error",
        "font family 'arial' not found",
    )
    assert match_class("anything", "timeout") == ("network_error", "timeout")
    assert match_class("anything") == ("generic_error", "")


def test_a_row_makes_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new row of the table is enough to classify errors, count them and show its suggestions (ME-17)."""
    row = ErrorClass("licence_error", "the licence has run out", ("Renew it.",), (r"licen[cs]e expired",))
    monkeypatch.setattr(error_classes, "ERROR_CLASSES", (row, *ERROR_CLASSES))
    patterns = recorded("Licence expired", "your license expired: permission denied", "LICENSE EXPIRED")
    assert patterns.entries[-1].category == "licence_error"
    assert "the licence has run out" in patterns.suggestion()
    assert "- Renew it." in patterns.suggestion()


def test_an_unknown_class_is_treated_as_generic() -> None:
    """A record with a class of a later version is read as `generic_error`."""
    assert class_named("licence_error").category == "generic_error"


def test_every_class_has_three_or_four_suggestions_of_its_own() -> None:
    """Suggestions have at most 110 characters, and no two classes share one (ME-5, ME-17)."""
    steps = [step for row in ERROR_CLASSES for step in row.suggestion]
    assert len(set(steps)) == len(steps)
    assert all(len(row.suggestion) in (3, 4) for row in ERROR_CLASSES)
    assert max(map(len, steps)) <= 110


def test_only_the_beginning_of_a_message_is_read() -> None:
    """Only the first 4,000 characters of a message are classified."""
    assert classify("x" * (MAX_READ - 8) + " timeout") == "network_error"
    assert classify("x" * MAX_READ + " timeout") == "generic_error"


# When retrying stops (ME-4, ME-7).


def test_the_third_font_error_stops_the_retrying() -> None:
    """Three different font errors count 1, 2, 3; the third stops the retrying, with suggestions about fonts."""
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
        ["the site s-1 is dark"] * 3,
        ["", "", ""],
    ],
)
def test_three_similar_errors_stop_the_retrying(messages: list[str]) -> None:
    """The third error of one class, or the third equal generic error of a tool, stops the retrying."""
    assert not recorded(*messages[:2]).should_stop
    assert recorded(*messages).should_stop


@pytest.mark.parametrize(
    "messages",
    [
        ["Cannot find font", "Cannot find font", "No module named x", "Cannot find font"],
        ["the site is dark", "no such device", "the key is wrong"],
        ["the site s-1 is dark", "the site s-22 is dark", "The site s-3 is dark"],
    ],
)
def test_a_different_error_starts_the_count_again(messages: list[str]) -> None:
    """An error that is not similar to the last one counts as 1."""
    assert recorded(*messages).count == 1
    assert not recorded(*messages).should_stop


def test_a_class_counts_across_tools() -> None:
    """Font errors count across tools, generic errors for each tool."""
    assert counts([("a", "Font error"), ("b", "Font error"), ("c", "Font error")]) == [1, 2, 3]
    assert counts([("a", "no"), ("b", "no"), ("a", "no"), ("a", "no")]) == [1, 1, 1, 2]


def test_a_success_of_the_tool_that_failed_last_clears_the_count() -> None:
    """A success of the tool that failed last sets the count to 0; another tool's success does not."""
    font = "Cannot find font"
    assert counts([("a", font), ("a", "ok"), ("a", font), ("a", font)]) == [1, 0, 1, 2]
    assert counts([("a", font), ("b", "ok"), ("a", font), ("a", font)]) == [1, 1, 2, 3]
    assert counts([("a", font), ("b", font), ("a", "ok"), ("b", "ok")]) == [1, 2, 2, 0]


def test_a_success_without_errors_returns_the_same_object() -> None:
    """If a success clears no count, the state is the same object."""
    for patterns in (
        ErrorPatterns(),
        recorded("no", tool="b", rules=2),
        recorded("no", tool="a").succeeded("a"),
    ):
        assert patterns.succeeded("a") is patterns


def test_a_stop_stays_a_stop() -> None:
    """After the stop, later outcomes change neither the stop nor its suggestion."""
    stopped = recorded("Font error 1", "Font error 2", "Font error 3")
    later = stopped.record("Font error 4", "t", NOW).succeeded("t").record("no module named x", "u", NOW)
    assert stopped.record("Font error 4", "t", NOW).count == 4
    assert later.should_stop
    assert later.suggestion() == stopped.suggestion()


def test_reset_starts_clean() -> None:
    """After a reset the state is that of a new run (ME-10)."""
    assert recorded("timeout", "timeout", "timeout").reset() == ErrorPatterns()
    assert not ErrorPatterns().should_stop


def test_two_runs_never_share_counts() -> None:
    """The state is an immutable value, so recording an error in one run does not change another (ME-2)."""
    first, second = recorded("Font error 1", "Font error 2"), recorded("Font error 1")
    assert first.record("Font error 3", "t", NOW).should_stop
    assert (first.count, second.count) == (2, 1)
    assert not second.record("Font error 2", "t", NOW).should_stop
    assert ErrorPatterns() == ErrorPatterns((), 0, ())


# When two errors of one class are equal.


def test_variable_parts_do_not_distinguish_errors() -> None:
    """In version 2 of the rules, generic errors that differ in numbers, ids, hex, paths or quoted values were similar; they are not any more."""
    rows = [
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
    ]
    found = [
        (one, other, *(recorded(one, other, rules=rules).count for rules in (2, 3))) for one, other in rows
    ]
    alike = ("it is   gone", "It is\ngone")
    assert [each for each in found if each[2:] != (2, 1)] == []
    assert [recorded(*alike, rules=rules).count for rules in (2, 3)] == [2, 1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the site is dark", "the site is closed"),
        ("it isn't open and wasn't there", "it isn't shut and wasn't there"),
        ("row 7 is bad", "row 7 is old"),
    ],
)
def test_other_words_make_another_error(one: str, other: str) -> None:
    """Generic errors that differ in their other words are not similar."""
    assert recorded(one, other).count == 1


def test_a_long_value_does_not_distinguish_errors() -> None:
    """The text is shortened after its variable parts were replaced, so a long path equals a short one."""
    long, short = "/a" * 400, "/b"
    assert recorded(*(f"cannot parse {path} as a table" for path in (long, short)), rules=2).count == 2


def test_contract_errors_are_alike_by_their_fields(subtests: pytest.Subtests) -> None:
    """Contract errors are similar if they have the same tool and the same set of fields, whatever the text."""
    rows = [
        ("t", RetryReason.INVALID_ARGUMENTS, ("/b", "/a"), 2),
        ("t", RetryReason.MISSING_FIELDS, ("/a", "/b", "/b"), 2),
        ("t", RetryReason.INVALID_ARGUMENTS, ("/a",), 1),
        ("t", RetryReason.INVALID_ARGUMENTS, (), 1),
        ("u", RetryReason.INVALID_ARGUMENTS, ("/a", "/b"), 1),
    ]
    for tool, reason, fields, count in rows:
        with subtests.test(tool=tool, reason=reason, fields=fields, count=count):
            first = ErrorPatterns().record("x", "t", NOW, reason="invalid_arguments", fields=("/a", "/b"))
            assert first.record("quite another text", tool, NOW, reason=reason, fields=fields).count == count


def test_contract_errors_without_fields_are_alike() -> None:
    """Three contract errors of one tool without fields, as for unreadable arguments, stop the retrying."""
    patterns = ErrorPatterns()
    for _ in range(3):
        patterns = patterns.record("cut off", "t", NOW, reason="invalid_arguments")
    assert patterns.should_stop


# A step with parallel calls.


def test_five_parallel_time_outs_are_one_strike() -> None:
    """A step counts and stores the errors of a tool once for each class."""
    outcomes = [CallOutcome("t", "no answer", RetryReason.TIMEOUT)] * 5
    patterns = ErrorPatterns().record_step(outcomes, NOW)
    assert (patterns.count, len(patterns.entries)) == (1, 1)
    assert not patterns.record_step(outcomes, NOW).should_stop
    assert patterns.record_step(outcomes, NOW).record_step(outcomes, NOW).should_stop


def test_outcomes_count_in_call_order(subtests: pytest.Subtests) -> None:
    """Outcomes count in the order given, which is that of the calls: a success after an error clears the count."""
    rows = [
        ([("a", "Font error"), ("b", "Font error")], 2, 2),
        ([("a", "timeout"), ("b", "timeout")], 1, 2),
        ([("a", "timeout"), ("a", "Font error"), ("a", "timeout")], 1, 2),
        ([("a", "timeout"), ("a", "ok")], 0, 1),
        ([("a", "ok"), ("a", "timeout")], 1, 1),
        ([("a", "Font error"), ("b", "ok")], 1, 1),
        ([("a", "timeout"), ("b", "ok")], 0, 1),
        ([("a", "timeout"), ("a", "ok"), ("a", "timeout")], 0, 1),
        ([], 0, 0),
    ]
    for step, count, entries in rows:
        with subtests.test(step=step, count=count, entries=entries):
            outcomes = [CallOutcome(tool, None if said == "ok" else said) for tool, said in step]
            patterns = ErrorPatterns().record_step(outcomes, NOW)
            assert (patterns.count, len(patterns.entries)) == (count, entries)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_tool_that_succeeds_in_every_step_never_stops_the_retrying(order: tuple[int, int]) -> None:
    """If one of two parallel calls of a tool fails in every step, the retrying goes on, in either order."""
    both = (CallOutcome("t", "timeout"), CallOutcome("t"))
    patterns = ErrorPatterns()
    for _ in range(9):
        patterns = patterns.record_step([both[index] for index in order], NOW)
    assert not patterns.should_stop


def test_a_step_without_failures_changes_nothing() -> None:
    """A step without failures returns the same object if it clears no count."""
    patterns = recorded("Font error", tool="b").succeeded("a")
    assert patterns.record_step([CallOutcome("a")] * 3, NOW) is patterns


def test_an_empty_message_is_a_failure() -> None:
    """An outcome with an empty error message has failed; one without a message has not."""
    assert CallOutcome("t", "").has_failed
    assert not CallOutcome("t").has_failed


# The stored errors and the dump (ME-6, ME-15).


def test_ten_errors_are_kept() -> None:
    """Of fifteen errors the last ten are kept (ME-6)."""
    patterns = recorded(*(f"Error {number}" for number in range(1, 16)))
    assert len(patterns.entries) == MAX_ENTRIES == 10
    assert patterns.entries[0].message == "Error 6"
    assert patterns.entries[-1] == ErrorEntry(
        "Error 15", "t", "generic_error", NOW + timedelta(minutes=14), "Error 15"
    )


def test_an_entry_has_the_first_line_that_is_not_blank() -> None:
    """An entry has the first printable line of the message, and the class of the whole message."""
    (entry,) = recorded("\n  \n\x1b[31mLoading\x07 the chart\u202e\nfindfont: no Arial").entries
    assert entry.message == "[31mLoading the chart"
    assert (entry.category, entry.matched) == ("font_error", "findfont")


def test_dump_has_the_whole_state() -> None:
    """`dump` has the class, the count, the stop and each entry with its matched words, as JSON (ME-15)."""
    dumped = recorded("timeout", "The read timed out").record("DNS failure", "u", None).dump()
    assert json.loads(json.dumps(dumped)) == dumped
    assert {**dumped, "records": dumped["records"][-2:]} == {
        "category": "network_error",
        "count": 1,
        "should_stop": False,
        "records": [
            {
                "message": "The read timed out",
                "tool": "t",
                "category": "network_error",
                "at": "2025-01-01T12:01:00+00:00",
                "fingerprint": "",
                "matched": "timed out",
                "arguments": "",
                "retry_at": None,
            },
            {
                "message": "DNS failure",
                "tool": "u",
                "category": "network_error",
                "at": None,
                "fingerprint": "",
                "matched": "dns failure",
                "arguments": "",
                "retry_at": None,
            },
        ],
    }
    assert ErrorPatterns().dump() == {"category": None, "count": 0, "should_stop": False, "records": []}


# The suggestion for a person (ME-5).


def test_a_suggestion_has_tools_steps_and_messages() -> None:
    """A suggestion names the tools and the problem, lists the next steps, and has the last three messages."""
    patterns = recorded("Cannot find font", tool="web.pages.draw")
    patterns = patterns.record("font missing\nTraceback ...", "web.pages.print", NOW)
    patterns = patterns.record("findfont: no Arial", "web.pages.draw", NOW)
    assert patterns.suggestion().splitlines() == [
        "3 similar errors in a row, of `web.pages.draw` and `web.pages.print`: a font is missing.",
        "What you can do:",
        "- Use a font that is there, such as DejaVu Sans, or the generic family sans-serif.",
        "- Leave the font out of the request and take the tool's default.",
        "- Install the missing font where the tool runs, and clear its font cache.",
        "Last errors:",
        "- Cannot find font",
        "- font missing",
        "- findfont: no Arial",
    ]


def test_a_suggestion_after_six_errors_has_the_last_three_messages() -> None:
    """Where six different errors of a class stopped the retrying, their number is told, and the last three."""
    block = recorded(*(f"no such file: /srv/{name}" for name in "abcdef")).suggestion().splitlines()
    assert block[0] == "`t` failed 6 times in a row: a file could not be read or written."
    assert block[-4:] == ["Last errors:", *(f"- no such file: /srv/{name}" for name in "def")]


def test_each_class_has_its_own_suggestion(subtests: pytest.Subtests) -> None:
    """Three errors of a class give a suggestion with that class's problem and steps (ME-5)."""
    for row in ERROR_CLASSES:
        with subtests.test(str(row.category)):
            message, reason = EXAMPLES.get(row.category, ["x"])[0], row.reasons[0] if row.reasons else None
            patterns = ErrorPatterns()
            for _ in range(3):
                patterns = patterns.record(message, "t", NOW, reason=reason)
            block = patterns.suggestion()
            assert block.startswith(f"`t` failed 3 times in a row: {row.problem}.\n")
            assert all(f"- {step}" in block.splitlines() for step in row.suggestion)


def test_two_similar_errors_have_no_suggestion() -> None:
    """Before the third similar error the suggestion is empty."""
    assert ErrorPatterns().suggestion() == recorded("timeout", "timeout").suggestion() == ""


def test_hostile_text_in_a_suggestion_is_bounded() -> None:
    """Names and messages are shortened to one line each; an empty message is shown as `(no message)`."""
    patterns = recorded(*["font missing `\r\n# x" + "y" * 9_000] * 2, tool="a`\n" + "b" * 9_000)
    lines = patterns.record("\nfont error", "t", NOW).suggestion().splitlines()
    assert len(lines) == 9
    assert max(map(len, lines)) < 300
    assert lines[-1] == "- font error"
    assert recorded("", "", "").suggestion().splitlines()[-1] == "- (no message)"


# Words of the table, punctuation, and any characters, with lone surrogates.
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
    """Classifying any text raises nothing, is deterministic, and gives a class of the table."""
    found = match_class(message, reason)
    assert found == match_class(message, reason)
    assert found.category == classify(message, reason)
    assert found.category in {row.category for row in ERROR_CLASSES}
    assert len(found.matched) <= 100


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(OUTCOMES, max_size=4), max_size=8))
def test_the_state_stays_within_its_bounds(steps: list[list[CallOutcome]]) -> None:
    """After any outcomes the state has at most ten entries and 60,000 bytes, and stops with three to six strikes."""
    patterns = ErrorPatterns()
    for step in steps:
        patterns = patterns.record_step(step, NOW)
        assert len(patterns.entries) <= MAX_ENTRIES
        assert len(patterns.strikes) in (0, 3, 4, 5, 6)
        assert patterns.should_stop == bool(patterns.strikes) == bool(patterns.suggestion())
        assert patterns.should_stop or patterns.count < 3
        assert len(json.dumps(patterns.dump(), ensure_ascii=False).encode()) < 60_000
