"""Safeguards: repeated failures and loops of a run, judged once a step (ME-1 to ME-10, ME-15, ME-25)."""

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import TypeAdapter

from sojourn import FieldIssue, RetryHint, ToolError, ToolRequest, ToolResult
from sojourn.contracts import Artifact
from sojourn.core.safeguards.error_patterns import ErrorPatterns
from sojourn.core.safeguards.judge import SafeguardState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CALL = ToolRequest(name="a.b.c", payload={"x": 1})
REFUSED = "Connection refused by db.example.org"


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
    assert SafeguardState().finalize() is SafeguardState().status() is None
    assert SafeguardState().settle([], [], NOW) == SafeguardState()


def test_three_similar_errors_stop_the_retrying() -> None:
    """The third similar error gives a notice with suggestions for a person and the instruction to answer (ME-4, ME-5, ME-9)."""
    away, late = bad("db.example.org is unreachable: no route to host"), bad("db.example.org:5432 timed out")
    assert after([bad()], [away]).finalize() is None
    stopped = repeated([bad(), away, late]).finalize()
    assert stopped is not None
    assert stopped.reason == "retries_stopped"
    assert "`a.b.c` failed 3 times in a row" in stopped.message
    assert stopped.message.splitlines()[-1] == "- db.example.org:5432 timed out"
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
    assert guards.finalize() is guards.status() is None
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


def test_the_same_call_with_the_same_result_is_a_loop(subtests: pytest.Subtests) -> None:
    """The same call with the same result is a loop after eight times, or five with a failure, such as a denial."""
    rows = [
        ([good()] * 7, False),
        ([good()] * 8, True),
        ([good(n) for n in range(20)], False),
        ([bad("denied: no", code="denied")] * 4, False),
        ([bad("denied: no", code="denied")] * 5, True),
    ]
    for kind, (results, loops) in zip(
        ["seven times", "eight times", "another answer each time", "denied four times", "denied five times"],
        rows,
        strict=True,
    ):
        with subtests.test(kind):
            guards = repeated(results)
            assert (guards.finalize() is not None) is loops
            assert (guards.status() is not None) is loops


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


def test_the_same_call_is_a_strike_whatever_it_says() -> None:
    """Three errors of one class for the same arguments stop the retrying; they are no loop, which needs equal results."""
    words = ["the pump is stuck", "no oil", "the valve leaks"]
    stopped = repeated([bad(each) for each in words])
    assert stopped.finalize() is not None
    assert stopped.status().loop is None
    assert repeated([bad(words[0], code="denied")] * 5).status().loop is not None


HEALTHY = {
    "three files": [[bad(f"No such file or directory: '{folder}/a.py'")] for folder in ("src", "lib", "app")],
    "three folders": [[bad(f"EACCES: permission denied, open '/{each}'")] for each in ("etc", "srv", "root")],
    "three hosts": [[bad(f"https://{each}.example.org/x: timed out")] for each in "abc"],
    "a host that is not shown, asked three things": [[bad("Request timeout")]] * 3,
    "three days": [[bad(f"2026-12-0{day} is taken")] for day in (1, 2, 3)],
    "three ids that are not found": [[bad("Not found")]] * 3,
    "five programs with one fault": [[bad("SyntaxError: invalid syntax")]] * 5,
    "three tools": [[bad("timed out", name=f"a.b.{each}")] for each in "abc"],
    "searches between pages that are gone": [[bad("HTTP 404"), good(name="a.b.search")]] * 9,
    "sleeps between": [[bad()], [good(name="a.b.sleep")]] * 9,
    "other fields": [
        [
            bad(
                "no",
                reason="invalid_arguments",
                issues=[FieldIssue(field=f"/{each}", constraint="invalid_range")],
            )
        ]
        for each in "abc"
    ],
    "another fault of the field": [
        [bad("no", reason="invalid_arguments", issues=[FieldIssue(field="/a", constraint=each)])]
        for each in ("missing_field", "invalid_format", "invalid_enum_value")
    ],
}


def test_another_file_day_host_or_tool_is_progress(subtests: pytest.Subtests) -> None:
    """Errors about another target, and errors with a success of any tool between, do not stop the retrying."""
    for kind, steps in HEALTHY.items():
        with subtests.test(kind):
            assert after(*steps).finalize() is None


def test_many_tools_that_fail_in_one_step_are_one_of_a_class() -> None:
    """A plan of calls to many tools that all fail in the same way is one error of the class in a row; the sixth such step stops."""
    step = [bad("no", name=f"a.b.t{n}", reason="invalid_arguments", issues=[]) for n in range(20)]
    other = [
        [bad("no", name=f"a.b.t{n}-{k}", reason="invalid_arguments", issues=[]) for n in range(20)]
        for k in range(6)
    ]
    assert after(step).finalize() is None
    assert after(*other[:5]).finalize() is None
    assert after(*other).finalize() is not None


STUCK = {
    "the same file": [[bad("No such file or directory: 'src/a.py'")]] * 3,
    "the same host": [[bad()], [bad("db.example.org timed out")], [bad("http://db.example.org/: HTTP 503")]],
    "six files": [[bad(f"No such file or directory: '{folder}/a.py'")] for folder in "abcdef"],
    "six things of a host that is not shown": [[bad("Request timeout")]] * 6,
    "six ids that are not found": [[bad("404 Client Error: Not Found")]] * 6,
    "the same fonts, with another tool between": [[bad("Cannot find font")], [good(name="a.b.d")]] * 3,
}


def test_the_same_target_or_six_of_a_class_stop_the_retrying(subtests: pytest.Subtests) -> None:
    """The third error about one target stops the retrying, and not the second; so does the sixth of one class without a success."""
    for kind, steps in STUCK.items():
        with subtests.test(kind):
            assert after(*steps).finalize() is not None
            errors = [index for index, step in enumerate(steps) if step[0].error]
            assert after(*steps[: errors[-1]]).finalize() is None


def test_a_wait_between_two_tries_is_polling() -> None:
    """A try after the planner waited, or after the time that the hint gave, does not count; one that comes at once does."""
    guards = SafeguardState()
    for _ in range(4):  # the fifth would be a loop
        guards = guards.settle([CALL], [bad()], NOW).after_wait()
    assert (guards.finalize(), guards.status().similar) == (None, 1)
    assert guards.settle([CALL], [bad()], NOW).settle([CALL], [bad()], NOW).status().similar == 2
    busy = bad("slow down", reason="rate_limited", retry_after=timedelta(seconds=30))
    patient, hasty = SafeguardState(), SafeguardState()
    for n in range(4):
        patient = patient.settle([CALL], [busy], NOW + timedelta(seconds=30 * n))
        hasty = hasty.settle([CALL], [busy], NOW + timedelta(seconds=29 * n))
    assert (patient.finalize() is None, hasty.finalize() is None) == (True, False)


def test_looks_after_a_wait_are_no_loop() -> None:
    """The same step with the same result, after the planner waited or when `retry_after` had passed, repeats nothing; at once it does."""
    running, busy = (
        good({"state": "running"}),
        bad("slow", reason="rate_limited", retry_after=timedelta(seconds=1)),
    )
    guards, patient = SafeguardState(), SafeguardState()
    for n in range(30):
        guards = guards.settle([CALL], [running], NOW).after_wait()
        patient = patient.settle([CALL], [busy], NOW + timedelta(seconds=n))
        assert (guards.finalize(), patient.finalize()) == (None, None)
    for _ in range(8):
        guards = guards.settle([CALL], [running], NOW)
    assert guards.status().loop == "a.b.c → a.b.c"
    assert repeated([busy, *[running] * 8]).status().loop is not None


SLEEPS = [
    "a.b.sleep",
    "a.b.browser_wait_for",
    "a.b.browserWait",
    "a.b.WAIT",
    "a.b.pause",
    "a.b.sleep_d0461d89",
]
ACTS = ["a.b.waitlist_add", "a.b.pause_campaign", "wait.sleep.add", "a.b.awaits", "a.b.delay_shipment"]


@pytest.mark.parametrize("name", SLEEPS + ACTS)
@pytest.mark.parametrize("together", [True, False])
def test_looks_after_a_tool_that_waits_are_no_loop(name: str, together: bool) -> None:
    """The same look after a tool has waited repeats nothing, be it in one step or two; a tool's own part of its id says that it waits."""
    look, rest = (call(name="a.b.look"), good("running", "a.b.look")), (call(name=name), good("ok", name))
    guards = SafeguardState()
    for _ in range(10):
        for pairs in [[look, rest]] if together else [[look], [rest]]:
            guards = guards.settle([each for each, _ in pairs], [result for _, result in pairs], NOW)
    assert (guards.finalize() is None) == (name in SLEEPS)
    assert guards.by(3).stops
    assert guards.differs_by(3) == (name in SLEEPS)


def test_a_try_after_a_tool_that_waits_is_polling() -> None:
    """A missing font after a sleep does not count, since the sleep is no success that shows a font; a sleep that failed is none."""
    font, sleep = bad("Cannot find font"), "a.b.sleep"
    steps = [[font], [good(name=sleep)]] * 6
    assert after(*steps).finalize() is None
    assert after(*steps).by(3).stops
    assert (after([good(name=sleep)]).slept, after([bad(name=sleep)]).slept) == (True, False)
    guards = after([good(name=sleep)])
    for _ in range(8):
        assert guards.finalize() is None
        guards = guards.settle([CALL], [good()], NOW)
    assert guards.finalize() is not None


def test_another_picture_is_another_answer() -> None:
    """An action that is repeated while a screenshot changes is progress, though the texts are the same; with one picture it is a loop."""
    click, look = call(name="a.b.click"), call(name="a.b.screenshot")

    def looks(sizes: list[int]) -> SafeguardState:
        guards = SafeguardState()
        for size in sizes:
            picture = Artifact(kind="picture", media_type="image/png", size=size)
            shown = ToolResult(name="a.b.screenshot", result="", artifacts=[picture])
            guards = guards.settle([click], [good("ok", "a.b.click")], NOW).settle([look], [shown], NOW)
        return guards

    changing, same = looks([*range(10)]), looks([7] * 10)
    assert (changing.finalize(), changing.by(3).stops) == (None, True)
    assert same.finalize() is not None


def test_blanks_and_the_order_of_names_do_not_distinguish_calls() -> None:
    """The same arguments in another spelling are the same call, for loops and for strikes; other values are another."""
    spelt = ['{"q": "a", "n": [1, 2]}', '{"n":[1,2],"q":"a"}', '\n{"q":"\\u0061",\t"n":[1 ,2]}']
    same = [ToolRequest(name="a.b.c", raw=spelt[n % 3]) for n in range(7)]
    same += [ToolRequest(name="a.b.c", payload={"q": "a", "n": [1, 2]})]
    guards, failing = SafeguardState(), SafeguardState()
    for n, each in enumerate(same):
        assert guards.finalize() is None
        guards = guards.settle([each], [good()], NOW)
        failing = failing.settle([each], [bad(f"stuck at {n}")], NOW)
        assert (failing.finalize() is None) is (n < 2)
    assert guards.finalize() is not None
    other = ToolRequest(name="a.b.c", raw='{"n":[2,1],"q":"a"}')
    assert guards.settle([other], [good()], NOW).finalize() is None


def test_the_policy_holds_the_number() -> None:
    """The number of similar errors is the policy's, and None is no limit."""

    def stops_after(limit: int | None, errors: int = 30) -> int | None:
        guards = SafeguardState()
        for n in range(1, errors):
            guards = guards.settle([call(n)], [bad()], NOW, similar_errors=limit)
            if guards.stops:
                return n
        return None

    assert [stops_after(limit) for limit in (1, 2, 3, 12, None)] == [1, 2, 3, 12, None]


def test_a_run_judged_by_an_earlier_version_of_the_rules_stays_with_it() -> None:
    """In version 1, equal calls of one plan were a loop, and a missing file a generic error; until version 3 a class alone made errors similar."""
    plan = step(SafeguardState(), *[good()] * 8)
    assert [plan.differs_by(rules) for rules in (1, 2, 3)] == [True, False, False]
    assert (plan.stops, plan.by(1).stops) == (False, True)
    assert "a.b.c → a.b.c" in plan.by(1).finalize().message
    assert plan.by(1).status().stopped
    lost = after(*([bad(f"{word}: no such file", name=f"a.b.{word}")] for word in ("map", "log", "key")))
    assert [lost.by(rules).stops for rules in (1, 2, 3)] == [False, True, False]
    assert [lost.by(2).differs_by(rules) for rules in (1, 2, 3)] == [True, False, False]
    assert not lost.by(1).differs_by(1)
    assert lost.by(1).new_turn().rules == 1
    assert lost.by(2).settle([], [], NOW).rules == 2

    def used(guards: SafeguardState, verdict: bool, *, from_first: bool) -> int:
        return guards.where_stopped(is_stopped=verdict, from_first=from_first).rules

    assert [used(lost, verdict, from_first=False) for verdict in (True, False)] == [2, 4]
    assert [used(lost, verdict, from_first=True) for verdict in (True, False)] == [2, 1]
    assert [used(plan, verdict, from_first=True) for verdict in (True, False)] == [1, 4]
    assert used(lost.by(1), True, from_first=True) == 1
    for alike in (SafeguardState(), repeated([bad()] * 3), repeated([good()] * 8)):
        assert not any(alike.differs_by(rules) for rules in (1, 2))


def test_the_state_of_an_earlier_execution_is_read() -> None:
    """A continuation has no number at the errors of the version that was the newest when it was written, and they stay those of that version."""
    written = {"patterns": {"count": 2, "entries": []}, "first_patterns": {"rules": 1, "count": 1}}
    read = TypeAdapter(SafeguardState).validate_python(written)
    assert (read.patterns.rules, read.patterns.count, read.first_patterns.rules) == (2, 2, 1)
    assert read.third_patterns == ErrorPatterns(rules=3)
    later = {"patterns": {"rules": 2}, "first_patterns": {"rules": 1}, "third_patterns": {"count": 2}}
    read = TypeAdapter(SafeguardState).validate_python(later)
    assert (read.third_patterns.rules, read.third_patterns.count) == (3, 2)
    assert read.fourth_patterns == ErrorPatterns()
    again = TypeAdapter(SafeguardState)
    kept = after([bad()], [bad()]).settle([call(name="a.b.sleep")], [good(name="a.b.sleep")], NOW)
    assert again.validate_json(again.dump_json(kept)) == kept


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
    stopped, shown = guards.finalize(), guards.status()
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
    shown = after([bad("No module named x")], [bad()], [bad("db.example.org timed out")]).status()
    assert shown is not None
    assert (shown.category, shown.similar, shown.stopped, shown.loop) == ("network_error", 2, False, None)
    assert shown.errors[1] == {
        "message": REFUSED,
        "tool": "a.b.c",
        "category": "network_error",
        "matched": "connection refused",
    }
    assert after([bad()], [bad()], [bad()]).status().stopped
