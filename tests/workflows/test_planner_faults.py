"""Faults of a planner: a refused plan may be corrected twice in a row, an exception is retried, the run's error names both."""

import asyncio
from collections import Counter, defaultdict
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from sojourn import AwaitClarification, Message, PlanResult, RunFailed, RunPolicy, ToolRequest, Toolset
from sojourn.contracts.message import TextPart, ThinkingPart, ToolCallPart
from sojourn.core.run import retry
from sojourn.testing.scripted import ScriptedPlanner

from . import test_any_answer as hostile


def make_tools() -> Toolset:
    tools = Toolset("test.tools")

    @tools.tool
    async def take(value: dict[str, object] | None = None) -> str:
        """Take anything."""
        return "taken"

    return tools


def take(tool_call_id: str = "", **payload) -> ToolRequest:
    return ToolRequest(name="test.tools.take", payload=payload, tool_call_id=tool_call_id)


def nested(depth: int) -> dict:
    value: dict = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


def final(**changes) -> PlanResult:
    return PlanResult.final("done").model_copy(update=changes)


FAULTY = {
    "two variants": (final(tool_calls=[take()]), "tool_calls and final_response"),
    "empty": (PlanResult(), "this one holds nothing"),
    "duplicate ids": (PlanResult.calls(take("a"), take("a")), "repeats 'a'"),
    "None": (None, "not NoneType"),
    "a dict": ({"tool_calls": []}, "not dict"),
    "a text": ("an answer", "not str"),
    "a question": (PlanResult.ask(AwaitClarification(question="?")), "may not ask"),
    "a negative wait": (PlanResult.wait(timedelta(seconds=-1)), "longer than zero"),
    "a wait for ever": (PlanResult.wait(timedelta.max), "at most 3650 days"),
    "a user's message as answer": (final(final_response=Message.user("x")), "role 'assistant'"),
    "a message without the calls": (
        PlanResult(tool_calls=[take("a")], message=Message.assistant("hm")),
        "the same calls",
    ),
    "an object for a result": (final(result=object()), "unknown type"),
    "a result 250 deep": (final(result=nested(250)), "recursion limit"),
    "a result of 12,000 digits": (final(result=1 << 40_000), "out of range"),
    "half a surrogate pair": (final(final_response=Message.assistant("\ud800")), "surrogate"),
    "a note with half a surrogate pair": (final(notes=["\ud800"]), "surrogate"),
    "a name that is no text": (PlanResult.calls(ToolRequest(name="\ud800")), "surrogate"),
    "a memory with an object": (PlanResult.final("done", memory={"a": object()}), "not a JSON value"),
    "a memory 65 deep": (PlanResult.final("done", memory=nested(65)), "deeper than 64"),
    "a memory that is no object": (final(memory=["visits"]), "a JSON object"),
}


async def test_a_faulty_plan_fails_the_run_after_two_corrections(serve, traces):
    """The reason is the planner's reminder, twice; the third faulty plan in a row ends the run as `PlannerError`."""
    turns = defaultdict(list)

    async def insist(turn):
        way = turn.messages[0].text
        turns[way].append(turn)
        return FAULTY[way][0]

    client = await serve(planner=insist, uses=(make_tools(),))
    runs = {way: await client.start("test.agent", way) for way in FAULTY}
    ended = await asyncio.gather(*(run.result() for run in runs.values()), return_exceptions=True)
    for (way, run), failed in zip(runs.items(), ended, strict=True):
        reason = FAULTY[way][1]
        assert isinstance(failed, RunFailed), way
        assert "was refused 3 times in a row" in str(failed), way
        assert reason in str(failed)
        assert failed.code == "PlannerError", way
        assert [len(turn.reminders) for turn in turns[way]] == [0, 1, 1], way
        assert all(reason in reminder for turn in turns[way] for reminder in turn.reminders), way
        await traces(run).check()


async def test_a_corrected_planner_goes_on(serve, traces):
    """The reason is a reminder and a system message, the refused plan leaves no other trace."""
    turns = []

    async def learn(turn):
        turns.append(turn)
        return None if len(turns) < 3 else PlanResult.final("better")

    client = await serve(planner=learn)
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == "better"
    for turn in turns[1:]:
        (reminder,) = turn.reminders
        assert turn.messages[-1] == Message.system(reminder)
    roles = [message.role for message in await traces(run).check()]
    assert roles == ["user", "system", "system", "assistant"]


async def test_two_corrections_are_allowed_each_time(serve):
    """Only faults in a row count: a good plan between them starts the count again."""
    script = iter([None, None, PlanResult.calls(take()), None, None, PlanResult.final("done")])

    async def plan(turn):
        return next(script)

    client = await serve(planner=plan, uses=(make_tools(),))
    assert (await client.execute("test.agent", "go")).text == "done"


UNFIT = {
    "an object": object(),
    "half a surrogate pair": "\ud800",
    "half a surrogate pair in a name": {"\ud800": 1},
    "a set": {1, 2},
    "NaN": float("nan"),
    "-Infinity": float("-inf"),
    "65 deep": nested(65),
    "220 deep": nested(220),
    "400 deep": nested(400),
    "400 digits": 10**400,
    "12,000 digits": 1 << 40_000,
}


async def test_arguments_that_are_no_json_are_a_bad_call_not_a_failure(serve, traces):
    """A call that cannot be recorded is answered `invalid_arguments`, the next call runs, no task fails (SR-140)."""
    results = {}

    async def plan(turn):
        way = turn.messages[0].text
        if turn.tool_results:
            results[way] = turn.tool_results
            return PlanResult.final("done")
        calls = [take("bad", value=UNFIT.get(way, object())), take("good")]
        return PlanResult(tool_calls=calls, message=Message.calls(calls) if way in UNFIT else None)

    client = await serve(planner=plan, uses=(make_tools(),))
    runs = {way: await client.start("test.agent", way) for way in [*UNFIT, "no own message"]}
    await asyncio.gather(*(run.result() for run in runs.values()))
    for way, run in runs.items():
        bad, good = results[way]
        assert bad.retry_hint.reason == "invalid_arguments", way
        assert good.result == "taken", way
        messages = await traces(run).check()
        assert messages[1].tool_calls[0].payload["omitted"] is True, way


async def test_an_exception_is_retried_then_names_itself(serve, traces, monkeypatch):
    """A planner that raises is retried, then the run fails with the exception's type and text."""
    monkeypatch.setattr(retry, "PLANNER_ATTEMPTS", 2)
    attempts = []

    async def plan(turn):
        attempts.append(turn)
        raise LookupError("no such model: sonnet-9")

    client = await serve(planner=plan)
    run = await client.start("test.agent", "go")
    with pytest.raises(
        RunFailed, match=r"the planner of test\.agent failed: .*no such model: sonnet-9"
    ) as failed:
        await run.result()
    assert failed.value.code == "LookupError"
    assert len(attempts) == 2
    await traces(run).check()


@pytest.mark.parametrize("kind", [KeyError, TypeError, IndexError])
async def test_a_bug_fails_the_run_at_once(serve, kind):
    """A mistake in a planner's code fails the run at the first attempt, told once, with its type, file and line."""
    attempts = []

    async def plan(turn):
        attempts.append(turn)
        raise kind("b")

    client = await serve(planner=plan)
    with pytest.raises(RunFailed) as failed:
        await client.execute("test.agent", "go")
    place = f"{Path(__file__).name}:{plan.__code__.co_firstlineno + 2}"
    text = "'b'" if kind is KeyError else "b"
    assert str(failed.value).endswith(
        f" failed: the planner of test.agent failed: {kind.__name__}: {text} ({place})"
    )
    assert len(attempts) == 1


WRONG = {
    "a text as memory": (lambda: PlanResult.final("done", memory="visits"), "such as {"),
    "an array as memory": (lambda: PlanResult.calls(take(), memory=["visits"]), "such as {"),
    "a memory whose names are no strings": (lambda: PlanResult(memory={1: 2}), "such as {"),
    "a text as calls": (lambda: PlanResult.calls("take"), "PlanResult: tool_calls.0: "),
    "a number as answer": (lambda: PlanResult.final(7), "TextPart: text: "),
    "a text as notes": (lambda: PlanResult.final("done", notes="x"), "PlanResult: notes: "),
    "a field that is not there": (lambda: PlanResult(answer="done"), "PlanResult: answer: "),
    "an array as payload": (lambda: ToolRequest(name="a.b.c", payload=[1]), "ToolRequest: payload: "),
}


async def test_a_wrong_argument_of_a_constructor_fails_the_run_at_once(serve):
    """A planner that makes a plan of wrong arguments fails its run at the first attempt; the error has the argument, and the line."""
    attempts = Counter()

    async def plan(turn):
        attempts[turn.messages[0].text] += 1
        return WRONG[turn.messages[0].text][0]()

    client = await serve(planner=plan)
    runs = {way: await client.start("test.agent", way) for way in WRONG}
    ended = await asyncio.gather(*(run.result() for run in runs.values()), return_exceptions=True)
    for (way, (make, reason)), failed in zip(WRONG.items(), ended, strict=True):
        assert isinstance(failed, RunFailed), way
        assert reason in str(failed), way
        assert f"({Path(__file__).name}:{make.__code__.co_firstlineno})" in str(failed), way
    assert attempts == dict.fromkeys(WRONG, 1)


async def test_data_that_is_no_plan_is_read_again(serve):
    """A planner that reads a plan from data, which a model may write otherwise next time, is tried again."""
    texts = iter(['{"memory": []}', PlanResult.final("done").model_dump_json()])

    async def plan(turn):
        return PlanResult.model_validate_json(next(texts))

    client = await serve(planner=plan)
    assert (await client.execute("test.agent", "go")).text == "done"


async def test_a_planner_that_recovers_goes_on(serve):
    """A planner that raises in its first attempt and plans in the second does not fail the run."""
    attempts = []

    async def plan(turn):
        attempts.append(turn)
        if len(attempts) == 1:
            raise ConnectionError("reset")
        return PlanResult.final("back")

    client = await serve(planner=plan)
    assert (await client.execute("test.agent", "go")).text == "back"


async def test_a_planner_may_forbid_the_retry(serve):
    """An `ApplicationError` that is not retryable fails the run at once, under its own type."""
    attempts = []

    async def plan(turn):
        attempts.append(turn)
        raise ApplicationError("the key is revoked", type="KeyRevoked", non_retryable=True)

    client = await serve(planner=plan)
    with pytest.raises(RunFailed, match="the key is revoked") as failed:
        await client.execute("test.agent", "go")
    assert failed.value.code == "KeyRevoked"
    assert len(attempts) == 1


class ForeignError(BaseException):
    """An exception of foreign code that is no `Exception`."""


class MuteError(Exception):
    """An exception whose text and delay cannot be read."""

    def __str__(self) -> str:
        raise ForeignError

    @property
    def retry_after(self) -> timedelta:
        raise ForeignError


def chained(links: int) -> Exception:
    error = KeyError("the root")
    for _ in range(links):
        error, error.__cause__ = LookupError("y" * 10_000_000), error
    return error


RAISED = {
    "own": (lambda: ForeignError("own end"), "ForeignError", "own end"),
    "keyboard": (lambda: KeyboardInterrupt("stopped"), "KeyboardInterrupt", "stopped"),
    "generator": (lambda: GeneratorExit("closed"), "GeneratorExit", "closed"),
    "group": (lambda: BaseExceptionGroup("both", [ForeignError()]), "BaseExceptionGroup", "both"),
    "canceled": (lambda: asyncio.CancelledError("nobody asked"), "CancelledError", "nobody asked"),
    "mute": (MuteError, "MuteError", "MuteError"),
    "surrogate": (lambda: ValueError("half \ud800"), "ValueError", "half ?"),
    "large": (lambda: ValueError("x" * 10_000_000), "ValueError", "xxx"),
    "chain": (lambda: chained(20), "LookupError", "the root"),
    "its own failure": (lambda: ApplicationError("x" * 10_000_000, type="t" * 5_000), "t" * 100, "xxx"),
}


async def test_any_exception_of_a_planner_is_recorded(serve, traces, monkeypatch):
    """After its attempts the run fails with the exception's type and text, in a history of under 150 kB (SR-87)."""
    monkeypatch.setattr(retry, "PLANNER_ATTEMPTS", 2)
    attempts: Counter[str] = Counter()

    async def plan(turn):
        way = turn.messages[0].text
        attempts[way] += 1
        error = RAISED[way][0]()
        raise error

    client = await serve(planner=plan)
    runs = {way: await client.start("test.agent", way) for way in RAISED}
    ended = await asyncio.gather(*(run.result() for run in runs.values()), return_exceptions=True)
    for (way, run), failed in zip(runs.items(), ended, strict=True):
        _, code, text = RAISED[way]
        assert isinstance(failed, RunFailed), way
        assert (failed.code, text in str(failed)) == (code, True), way
        history = await traces(run).history()
        assert sum(event.ByteSize() for event in history) < 150_000, way
        await traces(run).check()
    assert attempts == dict.fromkeys(RAISED, 2)


async def test_a_planner_over_its_time_limit_fails_the_run(serve, monkeypatch):
    """A planner slower than `plan_timeout` is canceled and retried, and the run's error has the limit."""
    monkeypatch.setattr(retry, "PLANNER_ATTEMPTS", 2)
    cut_off = []

    async def plan(turn):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cut_off.append(turn)
            raise

    client = await serve(planner=plan, policy=RunPolicy(plan_timeout=timedelta(seconds=0.5)))
    with pytest.raises(RunFailed, match=r"no plan within 0:00:00.5") as failed:
        await client.execute("test.agent", "go")
    assert failed.value.code == "TimeoutError"
    assert len(cut_off) == 2


async def test_a_planners_call_id_is_kept_when_it_is_well_formed(serve, traces):
    """An ill-formed id is replaced by a derived id, and kept in the part's `provider_metadata` (SR-66)."""
    kept, replaced = ["toolu_01-x", "a" * 64], ["a" * 65, "with space", "a/b"]
    plan = PlanResult.calls(*map(take, kept + replaced))
    planner = ScriptedPlanner([plan, PlanResult.final("done")])
    client = await serve(planner=planner, uses=(make_tools(),))
    run = await client.start("test.agent", "go")
    await run.result()
    calls = (await traces(run).check())[1].tool_calls
    assert [call.tool_call_id for call in calls[:2]] == kept
    assert [call.provider_metadata for call in calls[:2]] == [None, None]
    assert not {call.tool_call_id for call in calls[2:]} & set(replaced)
    assert [call.provider_metadata for call in calls[2:]] == [{"tool_call_id": given} for given in replaced]


async def test_a_call_id_of_an_earlier_step_is_not_new(serve, traces):
    """An id that a planner uses in two steps is replaced in the second by a derived id (SR-66)."""
    steps = [PlanResult.calls(take("same")), PlanResult.calls(take("same")), PlanResult.final("done")]
    client = await serve(planner=ScriptedPlanner(steps), uses=(make_tools(),))
    run = await client.start("test.agent", "go")
    await run.result()
    first, second = [call for message in await traces(run).check() for call in message.tool_calls]
    assert first.tool_call_id == "same" != second.tool_call_id
    assert second.provider_metadata == {"tool_call_id": "same"}


async def test_a_models_own_message_is_taken_as_it_is(serve, traces):
    """Thinking parts, signatures and metadata of a model's message reach the next turn unchanged."""
    message = Message(
        role="assistant",
        parts=[
            ThinkingPart(type="thinking", text="let me see", signature="c2ln"),
            TextPart(type="text", text="I look it up.", provider_metadata={"cache": {"ttl": 5}}),
            ToolCallPart(type="tool_call", tool_call_id="toolu_1", name="test.tools.take", raw="{}"),
        ],
    )
    request = ToolRequest(name="test.tools.take", raw="{}", tool_call_id="toolu_1")
    seen = []

    async def answer(turn):
        seen.extend(turn.messages)
        return PlanResult.final("done")

    planner = ScriptedPlanner([PlanResult(tool_calls=[request], message=message), answer])
    client = await serve(planner=planner, uses=(make_tools(),))
    run = await client.start("test.agent", "go")
    await run.result()
    assert seen[1] == message
    assert (await traces(run).check())[1] == message


async def test_a_planners_hostile_exception_is_contained(serve, status_when, traces):
    """An exception whose attributes raise is retried like any, and shown as a hint; no workflow task fails."""

    async def plan(turn):
        return PlanResult.final(hostile.raise_it(turn.messages[0].text))

    client = await serve(planner=plan)
    # The test of any exception raises the others, and hints are for tools.
    ways = [way for way in hostile.RAISED | hostile.TRANSIENT if way not in RAISED | hostile.HINTS]
    runs = {way: await client.start("test.agent", way) for way in ways}
    for way, run in runs.items():
        status = await status_when(run, lambda status: any("attempt" in hint for hint in status.hints))
        assert "the planner of test.agent failed" in status.hints[0], way
        await client.temporal.get_workflow_handle(run.id).terminate()
        assert await traces(run).failed_tasks() == []
