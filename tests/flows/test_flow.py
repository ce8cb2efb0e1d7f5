"""A flow on a real server: its steps are done once, its failures are exceptions, its questions are answered."""

import pytest
from pydantic import BaseModel

from sojourn import (
    CallFailed,
    Case,
    DefinitionError,
    PlanResult,
    RunFailed,
    RunPolicy,
    ToolFailed,
    Toolset,
    flow,
)

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
        """Send a number as text."""
        return case.call("ops.flow.level", metres="12")["name"]

    client = await serve(planner=misspelt, uses=(tools,))
    output = await client.execute("test.agent", "go")
    assert (output.text, output.tool_calls) == ("l12", 2)


async def test_repairs_can_be_turned_off(serve):
    """With `max_repairs=0` the flow gets the refusal at once, with its hint."""

    @flow(max_repairs=0)
    def strict(case: Case) -> str:
        """Send a number as text."""
        try:
            return case.call("ops.flow.level", metres="12")["name"]
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
        return str(case.confirm("Really?"))

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
