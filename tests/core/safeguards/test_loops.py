"""Loops: the same calls with the same results, again and again (ME-1, ME-4, ME-5, ME-19).

The part of `error_pattern_detector_spec.rb` about cycles of calls (ME-27).
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.core.safeguards.loops import MAX_CALLS, PastCall, ToolCalls, suggestion


def calls(names: str, *, failed: int | None = None, before: str = "") -> ToolCalls:
    """The state after calls with the same arguments and results for the same name, one of which failed."""
    state = ToolCalls()
    for name in before:
        state = state.record(name, "args", "result", failed=False)
    for index, name in enumerate(names):
        state = state.record(name, "args", "result", failed=index == failed)
    return state


@pytest.mark.parametrize(
    ("names", "failed", "loop"),
    [
        # One call: five times with a failure, eight without.
        ("aaaa", 0, None),
        ("aaaaa", 0, "a → a"),
        ("aaaaa", 4, "a → a"),
        ("aaaaaaa", None, None),
        ("aaaaaaaa", None, "a → a"),
        # Two: three times with a failure, five without.
        ("ababa", 0, None),
        ("ababab", 1, "a → b → a"),
        ("ababababa", None, None),
        ("ababababab", None, "a → b → a"),
        # Three likewise.
        ("abcabcab", 0, None),
        ("abcabcabc", 8, "a → b → c → a"),
        ("abcabcabcabcab", None, None),
        ("abcabcabcabcabc", None, "a → b → c → a"),
        # Four or more calls are a plan, not a loop.
        ("abcdabcdabcdabcdabcd", 0, None),
        ("abcde", 0, None),
        ("", None, None),
    ],
)
def test_how_often_is_a_loop(names: str, failed: int | None, loop: str | None) -> None:
    """A failure makes a loop of fewer repetitions; the message names the cycle."""
    assert calls(names, failed=failed).loop() == loop
    assert calls(names, failed=failed, before="xyz").loop() == loop


@pytest.mark.parametrize("names", ["a", "aa", "aaa", "aaaa", "abab", "abca"])
def test_four_calls_are_never_a_loop(names: str) -> None:
    """Whatever they are and however they end."""
    assert calls(names, failed=0).loop() is None


def test_a_failure_before_the_loop_does_not_count() -> None:
    """Only a failure among the calls that repeat makes the limit lower."""
    assert calls("xaaaaa", failed=0).loop() is None
    assert calls("aaaaa", failed=0).loop() == "a → a"


def test_a_failure_counts_as_long_as_the_repetition_lasts() -> None:
    """A step of many parallel calls may pass the limit at once: the whole repetition is looked at."""
    assert calls("aaaaaaa", failed=0).loop() == "a → a"
    assert calls("b" + "ab" * 4, failed=1).loop() == "a → b → a"


def steps(*listed: str, failed: bool = False) -> ToolCalls:
    """The state after plans, each with the calls that its letters name."""
    state = ToolCalls()
    for letters in listed:
        state = state.record_step([PastCall(name, "args", "result", failed) for name in letters])
    return state


@pytest.mark.parametrize(
    ("listed", "failed", "loop"),
    [
        (["a" * 64], True, None),
        (["a" * 8, "a" * 8, "a" * 8, "a" * 8], True, None),
        (["aa", "a", "aaa", "a", "aa"], True, "a → a"),
        (["ab", "ba", "aab", "ab", "bab"], True, "b + a → b + a"),
        (["ab"] * 8, False, "a + b → a + b"),
        (["ab", "c"] * 5, False, "a + b → c → a + b"),
        (["ab", "ac"] * 2 + ["ab"], True, None),
        (["abcdef"] * 5, True, "a + b + c + 3 more → a + b + c + 3 more"),
        (["", "a", "", "a", "a", "", "a", "a"], True, "a → a"),
    ],
)
def test_the_unit_is_the_step(listed: list[str], failed: bool, loop: str | None) -> None:
    """Steps are equal with equal calls, in whatever order and number; equal calls of one plan count once (D-25)."""
    assert steps(*listed, failed=failed).loop() == loop


def test_another_call_ends_the_loop() -> None:
    """What was a loop is over once something else is called."""
    assert calls("aaaaaaaab").loop() is None


@pytest.mark.parametrize("changed", ["name", "arguments", "result"])
def test_anything_new_is_work(changed: str) -> None:
    """Polling a job whose answer changes, paging and trying other values are work."""
    state = ToolCalls()
    for index in range(MAX_CALLS):
        new = str(index)
        state = state.record(
            new if changed == "name" else "a",
            new if changed == "arguments" else "args",
            new if changed == "result" else "result",
            failed=True,
        )
        assert state.loop() is None


def test_a_tool_with_two_arguments_by_turns_is_a_loop() -> None:
    """The cycle is one of calls; its names may be the same."""
    state = ToolCalls()
    for index in range(6):
        state = state.record("a", str(index % 2), "same", failed=True)
    assert state.loop() == "a → a → a"


def test_twenty_calls_are_kept() -> None:
    """The oldest goes first."""
    state = ToolCalls()
    for index in range(MAX_CALLS + 5):
        state = state.record("a", str(index), "r", failed=False)
    assert [call.arguments_hash for call in state.calls] == [str(index) for index in range(5, 25)]
    assert MAX_CALLS == 20


def test_two_runs_never_share_calls() -> None:
    """A state is a value."""
    first = calls("aaaa", failed=0)
    assert first.record("a", "args", "result", failed=False).loop() == "a → a"
    assert first.loop() is None


def test_a_person_is_told_which_calls_went_round() -> None:
    """A short block names the cycle and what would break it; names are cut and printable (ME-5)."""
    lines = suggestion(calls("ababab", failed=0).loop()).splitlines()
    assert lines[:2] == [
        "The same calls kept coming back with the same results: a → b → a.",
        "What you can do:",
    ]
    assert len(lines) == 5
    state = ToolCalls()
    for _ in range(8):
        state = state.record("a\n`" + "b" * 9_000, "args", "result", failed=False)
    assert max(map(len, suggestion(state.loop()).splitlines())) < 300


CALLS = st.lists(
    st.builds(
        PastCall,
        st.sampled_from("ab"),
        st.just("args"),
        st.sampled_from(["r", "r", "r", "s"]),
        st.sampled_from([False, False, True]),
    ),
    max_size=30,
)


@settings(deadline=None)
@given(CALLS)
def test_a_loop_is_a_cycle_repeated_at_the_end(listed: list[PastCall]) -> None:
    """Said the slow way: some cycle, often enough, makes up the end of what is remembered."""
    state = ToolCalls()
    for call in listed:
        state = state.record(call.name, call.arguments_hash, call.result_hash, call.failed)
    kept = listed[-20:]
    assert list(state.calls) == kept
    assert state.loop_of_calls() == state.loop()
    looping = any(
        kept[-length * times :] == kept[-length:] * times
        and (times >= clean or (times >= failing and any(call.failed for call in kept[-length * times :])))
        for length, failing, clean in ((1, 5, 8), (2, 3, 5), (3, 3, 5))
        for times in range(failing, 21)
        if length * times <= len(kept)
    )
    assert (state.loop() is not None) == looping
