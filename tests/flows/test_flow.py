"""A flow on a real server: its steps are done once, its failures are exceptions, its questions are answered."""

import asyncio
import itertools
from datetime import timedelta

import pytest
from pydantic import BaseModel

from sojourn import (
    CallFailed,
    Case,
    PlanResult,
    RunFailed,
    RunPolicy,
    ToolFailed,
    Toolset,
    Turn,
    flow,
)
from sojourn.errors import DefinitionError
from sojourn.flows import ToolReference
from sojourn.testing import skip_time

tools = Toolset("ops.flow")
rolled: list[str] = []


class Level(BaseModel):
    """A level."""

    name: str
    metres: int


@tools.tool(read_only=True)
async def level(metres: int) -> Level:
    """Tell a level."""
    if metres < 0:
        raise ToolFailed("the well is dry", code="dry")
    return Level(name=f"l{metres}", metres=metres)


@tools.tool
async def roll(die: str) -> int:
    """Roll a die."""
    rolled.append(die)
    return len(rolled)


ASKING = RunPolicy(interrupts_allowed=True)


async def test_equal_calls_are_two_calls(serve):
    """A second call with equal arguments is made too, once, although the function runs for each plan."""

    @flow
    async def twice(case: Case) -> str:
        """Roll twice."""
        return f"{case.call(roll, die='red') - case.call(roll, die='red')}"

    rolled.clear()
    client = await serve(planner=twice, uses=(tools,))
    assert (await client.execute("test.agent", "go")).text == "-1"
    assert rolled == ["red", "red"]


async def test_an_uncaught_failure_fails_the_run_with_its_causes(serve):
    """A failed call that the flow does not catch ends the run; the caller gets the tool and its error."""

    @flow
    def dry(case: Case) -> str:
        """Ask for a level that is not there."""
        return case.call(level, metres=-1).name

    client = await serve(planner=dry, uses=(tools,))
    with pytest.raises(RunFailed, match=r"ops\.flow\.level failed: the well is dry") as caught:
        await client.execute("test.agent", "go")
    assert caught.value.error
    assert [link.code for link in caught.value.error.chain()][-1] == "dry"


async def test_a_bare_except_does_not_hold_the_flow(serve):
    """What leaves the flow is no `Exception`, and counts even where a flow catches everything."""

    @flow
    def stubborn(case: Case) -> str:
        """Catch everything."""
        try:
            found = case.call(level, metres=4).name
        except Exception:
            found = "lost"
        try:
            return f"{found} {case.call('ops.flow.level', metres=5)['name']}"
        except:  # noqa: E722 - what a flow may do
            return "kept"

    client = await serve(planner=stubborn, uses=(tools,))
    assert (await client.execute("test.agent", "go")).text == "l4 l5"


async def test_a_refused_call_is_repaired_before_the_flow_sees_it(serve):
    """A payload in another form is repaired by its hint; the flow gets the result of the repaired call."""

    @flow
    def misspelt(case: Case) -> str:
        """Misspell a field."""
        return case.call("ops.flow.level", meters=12)["name"]

    client = await serve(planner=misspelt, uses=(tools,))
    output = await client.execute("test.agent", "go")
    assert (output.text, output.tool_calls) == ("l12", 2)


async def test_repairs_can_be_turned_off(serve):
    """With `max_repairs=0` the flow gets the refusal at once, with its hint."""

    @flow(max_repairs=0)
    def strict(case: Case) -> str:
        """Misspell a field."""
        try:
            return case.call("ops.flow.level", meters=12)["name"]
        except CallFailed as failed:
            hint = failed.result.retry_hint
            return str(hint and hint.reason)

    client = await serve(planner=strict, uses=(tools,))
    output = await client.execute("test.agent", "go")
    assert (output.text, output.tool_calls) == ("invalid_arguments", 1)


async def test_questions_are_asked_once_each(serve):
    """Equal questions are two questions; a declined one is None; notes are recorded once."""

    @flow
    def curious(case: Case) -> str:
        """Ask three times."""
        case.note("began")
        first, second = case.ask("How much?"), case.ask("How much?")
        case.note("asked twice")
        third = case.ask("Why?")
        return f"{first} {second} {third}"

    client = await serve(planner=curious, uses=(tools,), policy=ASKING)
    run = await client.start("test.agent", "go")
    answers = iter(["3", "4"])
    async for event in run.events():
        if event.type == "await_clarification":
            if event.question.question == "Why?":
                await run.decline(event.question.id, "no reason")
            else:
                await run.answer(event.question.id, next(answers))
    output = await run.result()
    assert output.text == "3 4 None"
    assert output.notes == ["began", "asked twice"]


async def test_a_question_in_a_run_that_may_not_ask_fails_it(serve):
    """The error names the question and the setting."""

    @flow
    def curious(case: Case) -> str:
        """Ask."""
        return str(case.ask_yes_no("Really?"))

    client = await serve(planner=curious)
    with pytest.raises(RunFailed, match=r"'Really\?'.*interrupts_allowed=True"):
        await client.execute("test.agent", "go")


async def test_a_limit_ends_a_flow_with_what_it_said(serve):
    """In the last turn the answer is what was said, and why the run had to stop."""

    @flow
    def long(case: Case) -> PlanResult:
        """Read level after level."""
        for metres in range(9):
            case.say(case.call(level, metres=metres).name)
        return PlanResult.final("never")

    client = await serve(planner=long, uses=(tools,), policy=RunPolicy(max_tool_calls=2))
    output = await client.execute("test.agent", "go")
    assert output.reason == "max_tool_calls"
    assert output.text.startswith("l0\nl1\nI had to stop here: ")


async def test_a_call_that_is_begun_is_made(serve):
    """A call whose result is never read is made before the answer."""

    @flow
    def careless(case: Case) -> None:
        """Begin a call and forget it."""
        case.begin(roll, die="blue")
        case.say("done")

    rolled.clear()
    client = await serve(planner=careless, uses=(tools,))
    assert (await client.execute("test.agent", "go")).text == "done"
    assert rolled == ["blue"]


async def test_another_return_value_fails_the_run(serve):
    """A flow that returns neither text nor a plan fails at once, with the type that it returned."""

    @flow
    def wrong(case: Case) -> str:
        """Return a number."""
        return len(case.text)  # type: ignore[return-value]

    client = await serve(planner=wrong)
    with pytest.raises(RunFailed, match="wrong returned int"):
        await client.execute("test.agent", "go")


def test_a_flow_is_made_of_a_function():
    """Anything else is refused where it is declared."""
    with pytest.raises(DefinitionError, match="is no function"):
        flow("desk")  # type: ignore[call-overload]


@tools.tool
async def label(name: str, colour: str) -> str:
    """Paint a label."""
    return f"{name} in {colour}"


async def test_tasks_of_a_group_may_call(serve):
    """A flow in which tasks call leaves as it does without them, and fails with the failed call."""

    @flow
    async def grouped(case: Case) -> str:
        """Call in tasks; each call is made once."""

        async def look(metres: int) -> str:
            return case.call(level, metres=metres).name

        async with asyncio.TaskGroup() as group:
            looks = [group.create_task(look(metres)) for metres in (1, 2)]
        if case.text == "fail":
            async with asyncio.TaskGroup() as group:
                group.create_task(look(3))
                case.call("ops.flow.none")
        return " ".join(each.result() for each in looks)

    client = await serve(planner=grouped, uses=(tools,))
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == "l1 l2"
    assert len([event async for event in run.events() if event.type == "tool_end"]) == 2
    with pytest.raises(RunFailed, match=r"ops\.flow\.none failed"):
        await client.execute("test.agent", "fail")


async def test_a_flow_that_does_not_repeat_its_calls_is_told_once(serve):
    """A note names the tool whose calls differ each time; a flow that repeats them has none."""
    count = itertools.count()

    @flow(max_repairs=0)
    def random(case: Case) -> str:
        """Call with an argument and a name that differ each time."""
        for _ in range(3):
            case.call(level, metres=next(count), step=f"level {next(count)}")
        return "never"

    client = await serve(planner=random, uses=(tools,), policy=RunPolicy(max_tool_calls=6))
    run = await client.start("test.agent", "go")
    await run.result()
    notes = [event.text async for event in run.events() if event.type == "planner_note"]
    (told,) = [note for note in notes if "random number" in note]
    assert told.startswith("the flow made other calls than before, and not those of ops.flow.level again")


async def test_a_sleep_is_slept_once(serve):
    """A flow sleeps durably and goes on after it; an equal sleep is a second one."""

    @flow
    def patient(case: Case) -> str:
        """Look, sleep, look again, sleep, and answer."""
        first = case.call(level, metres=1)
        case.sleep(timedelta(seconds=1))
        again = case.call(level, metres=1)
        case.sleep(timedelta(seconds=1))
        return f"{first.name} {again.name}"

    client = await serve(planner=patient, uses=(tools,))
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == "l1 l1"
    slept = [m.text for m in await run.transcript() if m.role == "system"]
    assert slept == ["Waited 1 s.", "Waited 1 s."]


async def test_sleeps_of_nearly_the_same_duration_are_two(serve):
    """Each digit of a duration counts, however long it is."""
    long, longer, short, shorter = (
        timedelta(days=14),
        timedelta(days=14, seconds=3),
        timedelta(milliseconds=1_234.567),
        timedelta(milliseconds=1_234.568),
    )

    @flow
    def patient(case: Case) -> str:
        """Sleep four times."""
        for duration in (short, shorter, long, longer):
            case.sleep(duration)
        return "slept"

    client = await serve(planner=patient)
    run = await client.start("test.agent", "go")
    await skip_time(run, timedelta(days=30))
    assert (await run.result()).text == "slept"
    slept = [m.text for m in await run.transcript() if m.role == "system"]
    assert slept == ["Waited 1.234567 s.", "Waited 1.234568 s.", "Waited 1209600 s.", "Waited 1209603 s."]


async def test_a_sleep_is_a_timedelta(serve):
    """A number is refused, and the run fails with what a sleep takes."""

    @flow
    def hasty(case: Case) -> str:
        """Sleep for a number."""
        case.sleep(3)  # type: ignore[arg-type]
        return "never"

    client = await serve(planner=hasty)
    with pytest.raises(RunFailed, match=r"case\.sleep\(3\): a sleep is a timedelta"):
        await client.execute("test.agent", "go")


async def test_what_was_said_comes_before_a_final_plan(serve):
    """A `PlanResult` adds to the lines and notes before it, and replaces none."""

    @flow
    def wordy(case: Case) -> PlanResult:
        """Say something, then answer with a plan."""
        case.say("first")
        case.note("seen")
        return PlanResult.final("second", result=2)

    client = await serve(planner=wordy)
    output = await client.execute("test.agent", "go")
    assert (output.text, output.notes, output.result) == ("first\nsecond", ["seen"], 2)


async def test_a_plan_that_does_not_end_the_run_is_refused(serve):
    """A flow that returns calls would return them again for ever, so it fails at once and names the way."""

    @flow
    def raw(case: Case) -> PlanResult:
        """Return a call."""
        return PlanResult.calls(level.call(metres=1))

    client = await serve(planner=raw, uses=(tools,))
    with pytest.raises(
        RunFailed, match=r"raw returned a plan that does not end the run; it calls with case\.call"
    ):
        await client.execute("test.agent", "go")


def colour_in(text: str, wanted: list[str]) -> dict[str, str] | None:
    """Read a colour from a sentence; None for a no."""
    return None if text == "never mind" else {name: text.rsplit(maxsplit=1)[-1] for name in wanted}


@pytest.mark.parametrize(
    ("answer", "outcome"), [("make it blue", "lid in blue"), ("never mind", "failed"), (None, "failed")]
)
async def test_an_answer_in_words_fills_what_a_call_lacks(serve, answer: str | None, outcome: str):
    """`read_answer` reads the missing field from words; after a no, and after a declined question, the call has failed."""

    @flow(read_answer=colour_in)
    def paint(case: Case) -> str:
        """Paint without a colour."""
        try:
            return case.call("ops.flow.label", name="lid")
        except CallFailed:
            return "failed"

    client = await serve(planner=paint, uses=(tools,), policy=ASKING)
    run = await client.start("test.agent", "go")
    asked = 0
    async for event in run.events():
        if event.type == "await_clarification":
            asked += 1
            await (run.answer(event.question.id, answer) if answer else run.decline(event.question.id))
    assert (await run.result()).text == outcome
    assert asked == 1


async def test_a_declined_question_fills_nothing_in(serve, status_when):
    """Also without `read_answer` a declined question about one field of text is no empty answer."""

    @flow
    def paint(case: Case) -> str:
        """Paint without a colour."""
        try:
            return case.call("ops.flow.label", name="lid")
        except CallFailed as failed:
            return f"{failed.result.retry_hint and failed.result.retry_hint.missing_fields}"

    client = await serve(planner=paint, uses=(tools,), policy=ASKING)
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: status.awaits)
    await run.decline(None, "no idea")
    output = await run.result()
    assert (output.text, output.tool_calls) == ("['colour']", 1)


async def test_defaults_follow_from_the_turn(serve):
    """A function of the turn gives the value that a call lacks, from the result of an earlier call."""

    def colours(turn: Turn) -> dict[str, dict[str, str]]:
        known = turn.last(level)
        return {label.id: {"colour": known.name}} if known else {}

    @flow(defaults=colours)
    def paint(case: Case) -> str:
        """Look at a level, then paint without a colour."""
        case.call(level, metres=7)
        return case.call("ops.flow.label", name="lid")

    client = await serve(planner=paint, uses=(tools,))
    assert (await client.execute("test.agent", "go")).text == "lid in l7"


async def test_a_result_that_was_set_aside_is_still_that_of_its_step(serve):
    """A flow follows from its steps: it goes on after its question as it would have, and calls nothing again."""

    @flow
    def roller(case: Case) -> str:
        """Roll, and ask whether that is enough."""
        number = case.call(roll, die="red")
        return f"{number} {case.ask('Enough?')}"

    rolled.clear()
    client = await serve(planner=roller, uses=(tools,), policy=ASKING)
    run = await client.start("test.agent", "go")
    (question,) = await run.until_waiting()
    (result,) = (await run.transcript())[2].tool_results
    assert await run.set_aside(result.tool_call_id)
    assert await run.set_aside(0)
    await run.answer(question.id, "yes")
    assert (await run.result()).text == f"{len(rolled)} yes"
    assert rolled == ["red"]


async def test_another_question_starts_the_flow_anew(serve):
    """A question in place of an answer replaces it, also the same one again: its calls are new calls."""

    @flow(restart_on=lambda text: text.startswith("roll"))
    def roller(case: Case) -> str:
        """Roll, and ask whether that is enough."""
        number = case.call(roll, die=case.text)
        return f"{number} {case.ask('Enough?')}"

    rolled.clear()
    client = await serve(planner=roller, uses=(tools,), policy=ASKING)
    run = await client.start("test.agent", "roll red")
    answers = iter(["roll red", "yes"])
    async for event in run.events():
        if event.type == "await_clarification":
            await run.answer(event.question.id, next(answers))
    assert (await run.result()).text == "2 yes"
    assert rolled == ["roll red", "roll red"]


async def test_a_tool_by_its_id_has_a_typed_result(serve):
    """A reference calls a tool that is not imported; a run offers a tool only if its agent uses it."""
    read, nowhere = ToolReference("ops.flow.level", Level), ToolReference("ops.nowhere.level", Level)

    @flow
    def typed(case: Case) -> str:
        """Call by reference, with a field left out."""
        found = case.call(read, metres=3, unit=None)
        return f"{found.name} {case.offers(read)} {case.offers(nowhere)} {case.turn.last(read) == found}"

    client = await serve(planner=typed, uses=(tools,))
    assert (await client.execute("test.agent", "go")).text == "l3 True False True"


async def test_a_result_of_another_type_is_named(serve):
    """A result that does not fit the reference's type fails the run, with the tool and the field."""
    read = ToolReference("ops.flow.roll", Level)

    @flow
    def mistyped(case: Case) -> str:
        """Take a number for a level."""
        return case.call(read, die="red").name

    client = await serve(planner=mistyped, uses=(tools,))
    with pytest.raises(RunFailed, match=r"the result of ops\.flow\.roll does not have the reference's type"):
        await client.execute("test.agent", "go")


async def test_what_is_said_is_a_text(serve):
    """A result that is no text fails the run where it is said, and not where the answer is put together."""

    @flow
    def tell(case: Case) -> None:
        """Say a result as JSON."""
        case.say(case.call("ops.flow.level", metres=7))

    client = await serve(planner=tell, uses=(tools,))
    with pytest.raises(RunFailed) as failed:
        await client.execute("test.agent", "go")
    assert "case.say takes a text, not dict" in str(failed.value)
    assert "test_flow.py" in str(failed.value)
