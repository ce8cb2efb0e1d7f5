"""Loops: repetitions of the same calls with the same results (ME-1, ME-4, ME-5, ME-19).

The part of `error_pattern_detector_spec.rb` about cycles of calls (ME-27).
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.core.safeguards.judge import MAX_CALLS, PastCall, ToolCalls, suggestion


def calls(names: str, *, failed: int | None = None, before: str = "") -> ToolCalls:
    """The state after one step for each letter; equal letters are equal calls, and the call at `failed` failed."""
    state = ToolCalls()
    for name in before:
        state = state.record(name, "args", "result", failed=False)
    for index, name in enumerate(names):
        state = state.record(name, "args", "result", failed=index == failed)
    return state


def test_the_repetitions_that_make_a_loop(subtests: pytest.Subtests) -> None:
    """A cycle of one to three calls is a loop after its number of repetitions, which is lower with a failure."""
    rows = [
        # A cycle of one call: five times with a failure, eight without.
        ("aaaa", 0, None),
        ("aaaaa", 0, "a → a"),
        ("aaaaa", 4, "a → a"),
        ("aaaaaaa", None, None),
        ("aaaaaaaa", None, "a → a"),
        # A cycle of two calls: three times with a failure, five without.
        ("ababa", 0, None),
        ("ababab", 1, "a → b → a"),
        ("ababababa", None, None),
        ("ababababab", None, "a → b → a"),
        # A cycle of three calls: likewise.
        ("abcabcab", 0, None),
        ("abcabcabc", 8, "a → b → c → a"),
        ("abcabcabcabcab", None, None),
        ("abcabcabcabcabc", None, "a → b → c → a"),
        # A cycle of four or more calls is no loop.
        ("abcdabcdabcdabcdabcd", 0, None),
        ("abcde", 0, None),
        ("", None, None),
    ]
    for names, failed, loop in rows:
        with subtests.test(str((names, failed, loop))):
            assert calls(names, failed=failed).loop() == loop
            assert calls(names, failed=failed, before="xyz").loop() == loop


def test_four_calls_are_never_a_loop(subtests: pytest.Subtests) -> None:
    """Four calls are no loop, whatever they are and however they end."""
    rows = ["a", "aa", "aaa", "aaaa", "abab", "abca"]
    for names in rows:
        with subtests.test(names=names):
            assert calls(names, failed=0).loop() is None


def test_a_failure_before_the_loop_does_not_count() -> None:
    """Only a failure among the repeated calls lowers the number of repetitions."""
    assert calls("xaaaaa", failed=0).loop() is None
    assert calls("aaaaa", failed=0).loop() == "a → a"


def test_a_failure_anywhere_in_the_repetition_counts() -> None:
    """A failure in the earliest repetition still lowers the number of repetitions."""
    assert calls("aaaaaaa", failed=0).loop() == "a → a"
    assert calls("b" + "ab" * 4, failed=1).loop() == "a → b → a"


def steps(*listed: str, failed: bool = False) -> ToolCalls:
    """The state after steps, each with one call for each of its letters."""
    state = ToolCalls()
    for letters in listed:
        state = state.record_step([PastCall(name, "args", "result", failed) for name in letters])
    return state


def test_the_unit_is_the_step(subtests: pytest.Subtests) -> None:
    """Steps are equal if they have the same calls, in any order and number; equal calls of a step count once."""
    rows = [
        (["a" * 64], True, None),
        (["a" * 8, "a" * 8, "a" * 8, "a" * 8], True, None),
        (["aa", "a", "aaa", "a", "aa"], True, "a → a"),
        (["ab", "ba", "aab", "ab", "bab"], True, "b + a → b + a"),
        (["ab"] * 8, False, "a + b → a + b"),
        (["ab", "c"] * 5, False, "a + b → c → a + b"),
        (["ab", "ac"] * 2 + ["ab"], True, None),
        (["abcdef"] * 5, True, "a + b + c + 3 more → a + b + c + 3 more"),
        (["", "a", "", "a", "a", "", "a", "a"], True, "a → a"),
    ]
    for listed, failed, loop in rows:
        with subtests.test(listed=listed, failed=failed, loop=loop):
            assert steps(*listed, failed=failed).loop() == loop


def test_another_call_ends_the_loop() -> None:
    """A different call after a loop ends it."""
    assert calls("aaaaaaaab").loop() is None


@pytest.mark.parametrize("changed", ["name", "arguments", "result"])
def test_a_change_in_every_call_is_no_loop(changed: str) -> None:
    """Calls whose name, arguments or result change each time, as in polling and paging, are no loop."""
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


def test_a_tool_with_two_alternating_arguments_is_a_loop() -> None:
    """A cycle consists of calls, so two of its calls may have the same name."""
    state = ToolCalls()
    for index in range(6):
        state = state.record("a", str(index % 2), "same", failed=True)
    assert state.loop() == "a → a → a"


def test_twenty_calls_are_kept() -> None:
    """Of more than twenty calls the last twenty are kept."""
    state = ToolCalls()
    for index in range(MAX_CALLS + 5):
        state = state.record("a", str(index), "r", failed=False)
    assert [call.arguments_hash for call in state.calls] == [str(index) for index in range(5, 25)]
    assert MAX_CALLS == 20


def test_two_runs_never_share_calls() -> None:
    """The state is an immutable value, so recording a call in one run does not change another."""
    first = calls("aaaa", failed=0)
    assert first.record("a", "args", "result", failed=False).loop() == "a → a"
    assert first.loop() is None


def test_the_suggestion_names_the_cycle() -> None:
    """The suggestion has the cycle and next steps in lines of less than 300 characters (ME-5)."""
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
    """For any calls, the result equals a direct search for a cycle that is repeated often enough at the end."""
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
