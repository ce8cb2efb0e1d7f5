"""A turn has the results of all steps, and says what it has."""

import inspect
import pydoc
import types

import sojourn
from sojourn import (
    Message,
    PlanInput,
    PlanResult,
    PlanResumeInput,
    RunContext,
    ToolError,
    ToolResult,
    Toolset,
    Turn,
)

letters = Toolset("ops.letters")


@letters.tool
def upper(text: str) -> list[str]:
    """Return the letters in upper case."""
    return list(text.upper())


def turn_with(*steps: list[ToolResult]) -> Turn:
    """A turn after these steps."""
    messages = [Message.user("spell"), *(Message.results(step) for step in steps)]
    return PlanResumeInput(
        run=RunContext(run_id="r", agent_id="ops.speller"),
        messages=messages,
        tools=[],
        tool_results=steps[-1] if steps else [],
    )


FIRST = ToolResult(name=upper.id, tool_call_id="c1", result=["A"])
OTHER = ToolResult(name="ops.letters.lower", tool_call_id="c2", result="b")
FAILED = ToolResult(name=upper.id, tool_call_id="c3", error=ToolError.new("no such letter"))


def test_results_are_those_of_all_steps_in_order() -> None:
    """`results` has what earlier steps returned too, `tool_results` only what the last one did."""
    turn = turn_with([FIRST, OTHER], [FAILED])
    assert turn.results == [FIRST, OTHER, FAILED]
    assert turn.tool_results == [FAILED]
    assert turn_with().results == []


def test_the_last_result_of_a_tool_is_typed() -> None:
    """A tool gives the value of its last result, an id the whole result."""
    later = FIRST.model_copy(update={"tool_call_id": "c4", "result": ["Z"]})
    turn = turn_with([FIRST], [OTHER, later], [OTHER])
    assert turn.last(upper) == ["Z"]
    assert turn.last("ops.letters.upper") == later
    assert turn.last(upper.id) == later


def test_without_a_result_there_is_no_last_one() -> None:
    """A tool that was not called has no last result; after a failure only the id gives one, with the error."""
    assert turn_with([OTHER]).last(upper) is None
    assert turn_with([OTHER]).last("ops.letters.upper") is None
    failed = turn_with([FIRST], [FAILED])
    assert failed.last(upper) is None
    assert failed.last(upper.id) == FAILED


def test_help_of_a_turn_tells_what_it_has() -> None:
    """`help(sojourn.Turn)` names every field, `results` and `last`."""
    told = pydoc.render_doc(sojourn.Turn, renderer=pydoc.plaintext)
    description = told.split("Method resolution order")[0]
    for name in [*PlanInput.model_fields, "results", "last"]:
        assert f"`{name}" in description


def test_every_turn_is_a_turn() -> None:
    """`isinstance(turn, Turn)` holds for the first turn and for later ones."""
    first = PlanInput(run=RunContext(run_id="r", agent_id="ops.speller"), messages=[], tools=[])
    assert isinstance(first, Turn)
    assert isinstance(turn_with(), Turn)
    assert not isinstance(PlanResult.final("done"), Turn)


def test_every_public_name_is_told_by_help() -> None:
    """Each public name has a sentence of its own; of a union, each of its classes has one."""
    sentences: dict[str, str] = {}
    for name in sojourn.__all__:
        found = getattr(sojourn, name)
        for member in found.__args__ if isinstance(found, types.UnionType) else [found]:
            owner = member if inspect.isclass(member) or inspect.isroutine(member) else type(member)
            sentences[f"{name}: {owner.__name__}"] = (
                vars(owner).get("__doc__") if inspect.isclass(owner) else owner.__doc__
            ) or ""
    assert {name: text for name, text in sentences.items() if len(text.split()) < 3 or "." not in text} == {}
