"""Safeguards: repeated failures and loops of a run, judged once a step (ME-1 to ME-10, ME-15, ME-25)."""

from datetime import UTC, datetime

import pytest

from sojourn import FieldIssue, RetryHint, ToolError, ToolRequest, ToolResult
from sojourn.core.safeguards.judge import SafeguardState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CALL = ToolRequest(name="a.b.c", payload={"x": 1})
REFUSED = "Connection refused"


def call(n: int = 0, name: str = "a.b.c") -> ToolRequest:
    """A call whose arguments depend on `n`."""
    return ToolRequest(name=name, payload={"n": n})


def good(result: object = 1, name: str = "a.b.c") -> ToolResult:
    return ToolResult(name=name, result=result)


def bad(message: str = REFUSED, *, name: str = "a.b.c", code: str | None = None, **hint) -> ToolResult:
    error = ToolError.new(message, code=code)
    return ToolResult(name=name, error=error, retry_hint=RetryHint(tool=name, **hint) if hint else None)


def after(*steps: list[ToolResult], guards: SafeguardState | None = None) -> SafeguardState:
    """The state after steps whose calls were all different, so that only errors can stop the run."""
    guards, n = guards or SafeguardState(), 0
    for results in steps:
        calls = []
        for result in results:
            n += 1
            calls.append(call(n, result.name))
        guards = guards.settle(calls, results, NOW)
    return guards


def repeated(results: list[ToolResult], each: ToolRequest = CALL) -> SafeguardState:
    guards = SafeguardState()
    for result in results:
        guards = guards.settle([each], [result], NOW)
    return guards


def test_a_new_run_is_not_stopped() -> None:
    """The state of a new run has no verdict and no records."""
    assert SafeguardState().finalize() is SafeguardState().shown() is None
    assert SafeguardState().settle([], [], NOW) == SafeguardState()


def test_three_similar_errors_stop_the_retrying() -> None:
    """The third similar error gives a notice with suggestions for a person and the instruction to answer (ME-4, ME-5, ME-9)."""
    assert after([bad()], [bad("Network is unreachable")]).finalize() is None
    stopped = after([bad()], [bad("Network is unreachable")], [bad("timed out")]).finalize()
    assert stopped is not None
    assert stopped.reason == "retries_stopped"
    assert "`a.b.c` failed 3 times in a row" in stopped.message
    assert stopped.message.splitlines()[-1] == "- timed out"
    assert stopped.instruction.startswith("Do not try again.")
    assert stopped.notice == f"{stopped.message}\n{stopped.instruction}"


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([[bad()], [bad("No module named x")], [bad()]], id="another class between"),
        pytest.param([[bad()], [good()], [bad()], [bad()]], id="a success between"),
        pytest.param([[bad(), bad(), bad()], [bad()]], id="many in a step count once"),
        pytest.param([[bad("odd")], [bad("odd", name="d.e.f")], [bad("odd")]], id="words of two tools"),
    ],
)
def test_other_failures_do_not_stop_the_retrying(steps: list[list[ToolResult]]) -> None:
    """Failures of different classes or tools, with a success between, or in one step do not stop the retrying."""
    assert after(*steps).finalize() is None


@pytest.mark.parametrize("code", ["canceled", "denied", "not_executed", "time_budget"])
def test_a_call_that_did_not_run_is_not_judged(code: str) -> None:
    """Denied, cancelled and refused calls count neither as errors nor as successes that clear a count."""
    unrun = bad(code=code)
    guards = after([unrun], [unrun], [unrun], [unrun])
    assert guards.finalize() is guards.shown() is None
    between = after([bad()], [unrun], [bad()], [bad(), unrun])
    assert between.finalize() is not None


def test_contract_errors_are_similar_by_their_fields() -> None:
    """Contract errors with the same fields stop the retrying, whatever their messages; with other fields they do not."""
    site, kind = (
        {"reason": "invalid_arguments", "issues": [FieldIssue(field=field, constraint="invalid_format")]}
        for field in ("/site", "/kind")
    )
    assert after([bad("one", **site)], [bad("two", **site)], [bad("three", **site)]).finalize() is not None
    assert after([bad("one", **site)], [bad("one", **kind)], [bad("one", **site)]).finalize() is None


@pytest.mark.parametrize(
    ("results", "loops"),
    [
        ([good()] * 7, False),
        ([good()] * 8, True),
        ([good(n) for n in range(20)], False),
        ([bad("denied: no", code="denied")] * 4, False),
        ([bad("denied: no", code="denied")] * 5, True),
    ],
    ids=["seven times", "eight times", "another answer each time", "denied four times", "denied five times"],
)
def test_the_same_call_with_the_same_result_is_a_loop(results: list[ToolResult], loops: bool) -> None:
    """The same call with the same result is a loop after eight times, or five with a failure, such as a denial."""
    guards = repeated(results)
    assert (guards.finalize() is not None) is loops
    assert (guards.shown() is not None) is loops


def step(guards: SafeguardState, *results: ToolResult) -> SafeguardState:
    """The state after one plan of equal calls with these results."""
    return guards.settle([CALL] * len(results), results, NOW)


@pytest.mark.parametrize(
    "results", [[good()] * 8, [good()] * 64, [bad()] * 5], ids=["eight", "many", "five failures"]
)
def test_equal_calls_of_one_plan_are_no_loop(results: list[ToolResult]) -> None:
    """Equal calls of one plan count once."""
    guards = step(SafeguardState(), *results)
    assert guards.finalize() is None
    assert not guards.stops
    for _ in range(6):
        guards = step(guards, *[good()] * 8)
    assert step(step(guards, good()), good(), good()).finalize() is not None


def test_a_step_with_a_new_result_is_no_repetition() -> None:
    """Steps are compared as a whole: equal calls beside a call whose result changes are no loop."""
    guards = SafeguardState()
    for n in range(20):
        guards = guards.settle([CALL, call(1)], [good(), good(n)], NOW)
        assert guards.finalize() is None


def test_another_error_of_the_same_call_is_no_repetition() -> None:
    """A call that fails with a different error each time is no loop."""
    words = ["the pump is stuck", "no oil", "the valve leaks", "it is dark", "somebody sings", "a bird"]
    assert repeated([bad(each) for each in words]).finalize() is None
    assert repeated([bad(words[0], code="denied")] * 5).finalize() is not None


def test_a_run_judged_by_version_1_of_the_rules_stays_with_it() -> None:
    """In version 1, equal calls of one plan were a loop, and a missing file was a generic error."""
    plan = step(SafeguardState(), *[good()] * 8)
    assert plan.is_judged_otherwise
    assert (plan.stops, plan.by_first_rules().stops) == (False, True)
    assert "a.b.c → a.b.c" in plan.by_first_rules().finalize().message
    assert plan.by_first_rules().shown().stopped
    lost = after(*([bad(f"{word}: no such file", name=f"a.b.{word}")] for word in ("map", "log", "key")))
    assert lost.is_judged_otherwise
    assert (lost.stops, lost.by_first_rules().stops) == (True, False)
    assert lost.by_first_rules().finalize() is None
    assert not lost.by_first_rules().is_judged_otherwise
    assert lost.by_first_rules().new_turn().rules == 1
    for alike in (SafeguardState(), after([bad()], [bad()], [bad()]), repeated([good()] * 8)):
        assert not alike.is_judged_otherwise


def test_raw_arguments_distinguish_calls() -> None:
    """Calls with different raw arguments are different, though their payloads are empty."""
    guards = SafeguardState()
    for n in range(20):
        guards = guards.settle([ToolRequest(name="a.b.c", raw=str(n))], [good()], NOW)
    assert guards.finalize() is None
    assert repeated([good()] * 8, ToolRequest(name="a.b.c", raw="{}")).finalize() is not None


def test_only_executed_calls_are_judged() -> None:
    """Calls without a result, which a limit refused, are ignored."""
    guards = SafeguardState().settle([call(n) for n in range(9)], [good()], NOW)
    assert len(guards.calls.steps) == 1


def test_a_loop_names_the_calls_that_repeat() -> None:
    """The notice and the status show the cycle of calls."""
    guards = SafeguardState()
    for _ in range(5):
        for name in ("a.b.c", "d.e.f"):
            guards = guards.settle([ToolRequest(name=name)], [good(name=name)], NOW)
    stopped, shown = guards.finalize(), guards.shown()
    assert stopped is not None
    assert shown is not None
    assert stopped.reason == "retries_stopped"
    assert "a.b.c → d.e.f → a.b.c" in stopped.message
    assert (shown.loop, shown.stopped, shown.errors) == ("a.b.c → d.e.f → a.b.c", True, [])


def test_a_new_turn_forgets_loops_and_keeps_errors() -> None:
    """A new turn clears the record of calls (ME-25), but not the count of similar errors."""
    assert repeated([good()] * 8).new_turn().finalize() is None
    halfway = after([bad()], [bad()]).new_turn()
    assert after([bad()], guards=halfway).finalize() is not None
    assert after([bad()] * 3, [bad()], [bad()]).new_turn().finalize() is not None


def test_the_records_are_shown() -> None:
    """The status has the errors with tool, class and matched words, the count, and whether retrying stopped (ME-15)."""
    shown = after([bad("No module named x")], [bad()], [bad("timed out")]).shown()
    assert shown is not None
    assert (shown.category, shown.similar, shown.stopped, shown.loop) == ("network_error", 2, False, None)
    assert shown.errors[1] == {
        "message": REFUSED,
        "tool": "a.b.c",
        "category": "network_error",
        "matched": "connection refused",
    }
    assert after([bad()], [bad()], [bad()]).shown().stopped
