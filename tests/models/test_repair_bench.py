"""The tasks of the repair benchmark: each bad call is refused with what is needed to repair it."""

import asyncio
import json
import sys

import pytest
from pydantic_ai import ModelRequest, ModelResponse
from pydantic_ai.messages import ToolCallPart, ToolReturnPart, UserPromptPart

from bench import repair
from bench.repair_reader import copier, reader
from bench.repair_tasks import KINDS, tasks
from bench.repair_tools import toolsets
from sojourn import ToolRequest
from sojourn.core.payload import boundary, hints
from sojourn.models.names import Names, wire_name
from sojourn.models.result_text import result_text

TASKS = tasks()
TOOLS = {str(tool.id): tool for toolset in toolsets for tool in toolset.tools.values()}


def answered(task, **call):
    """Return the boundary's answer to a call: the payload, or the refusal."""
    tool = TOOLS.get(task.called)
    request = ToolRequest(name=task.called, tool_call_id="c", **call)
    if tool is None:
        return boundary.refusal(request, hints.unknown_tool(task.called, list(TOOLS)))
    return boundary.check_payload(tool.spec, tool.validator, request)


def test_there_are_sixty_tasks_of_eleven_kinds():
    """There are ten tasks for each tool, always the same, and the first six have six different tools."""
    assert len({task.id for task in TASKS}) == 60
    assert {task.kind for task in TASKS} == set(KINDS)
    assert [sum(task.tool == tool for task in TASKS) for tool in TOOLS] == [10] * 6
    assert tasks() == TASKS
    assert tasks(6) == TASKS[:6]
    assert len({task.tool for task in TASKS[:6]}) == 6


def test_the_right_payload_is_accepted(subtests):
    """The boundary accepts the right payload, and the task's text has each of its values."""
    for task in TASKS:
        tool = TOOLS[task.tool]
        request = ToolRequest(name=task.tool, payload=task.right)
        text = task.wanted.lower()
        given = [(str(value).lower(), str(value).replace("_", " ")) for value in values(task.right)]
        with subtests.test(task.id):
            assert boundary.check_payload(tool.spec, tool.validator, request) == task.right
            assert [each for each, words in given if each not in text and words not in text] == []


def values(payload):
    """Return the values of a payload, without the kind of a union, which the text does not have literally."""
    match payload:
        case dict():
            union = payload.get("kind") in {"agency", "weekly"}
            given = [v for k, v in payload.items() if not (union and k == "kind")]
            return [value for each in given for value in values(each)]
        case list():
            return [value for each in payload for value in values(each)]
        case _:
            return [payload]


def test_the_bad_call_is_refused_with_what_repairs_it(subtests):
    """A refusal names each field and what would be valid, or the known tools, or that one JSON object is required."""
    for task in TASKS:
        facts = [fact for change in task.changes for fact in (f"`{change.field}`", *change.fits)]
        facts += ["JSON object"] if task.kind == "no_json" else []
        facts += [wire_name(task.tool)] if task.kind == "unknown_tool" else []
        with subtests.test(task.id):
            refused = answered(task, **({"raw": task.raw} if task.raw else {"payload": task.sent}))
            assert not isinstance(refused, dict)
            text = result_text(refused, Names(TOOLS)).split("\narguments that fit", maxsplit=1)[0]
            assert [fact for fact in facts if fact not in text] == []


@pytest.mark.parametrize("answer", ["no", "arguments that fit: `cabin`", "`name` is required"])
async def test_the_stand_in_repairs_only_the_fields_that_are_named(ask, answer):
    """After an answer that names no wrong field, the stand-in repeats its call; it does not read the example."""
    task = next(task for task in TASKS if task.id == "travel.trips.book:wrong_enum")
    call = ToolCallPart(wire_name(task.called), json.dumps(task.sent), "c")
    messages = [
        ModelRequest([UserPromptPart(task.wanted)]),
        ModelResponse([call]),
        ModelRequest([ToolReturnPart(call.tool_name, answer, "c")]),
    ]
    [again] = (await ask(reader(TASKS), messages)).parts
    assert (again.tool_name, json.loads(again.args)) == (call.tool_name, task.sent)


async def test_hints_repair_each_kind_in_one_turn_and_plain_errors_one_fault_at_a_time(serve):
    """In runs, a call is repaired in one turn with its hint, and fault by fault without it."""
    chosen = [next(task for task in TASKS if task.kind == kind) for kind in KINDS]
    client = await serve(repair.app_of(reader(chosen), chosen))
    attempts = [repair.attempt(client, task, arm) for task in chosen for arm in repair.ARMS]
    done = await asyncio.gather(*attempts)
    by_arm = {arm: {each.kind: each for each in done if each.arm == arm} for arm in repair.ARMS}
    assert {kind: (each.ended, each.turns) for kind, each in by_arm["hints"].items()} == dict.fromkeys(
        KINDS, ("right", 1)
    )
    assert by_arm["plain"]["three_missing"].turns == 3
    assert by_arm["plain"]["several"].turns > 1
    assert all(each.input_tokens and each.output_tokens for each in done)


async def test_a_model_that_copies_its_hints_executes_nothing_wrong(serve):
    """Of each kind of fault, the copied arguments are the right ones, or the call is refused.

    A value of a wrong type is left out here: in two tasks the value itself is wrong too, and the copy has it in the right type.
    """
    chosen = [next(task for task in TASKS if task.kind == kind) for kind in KINDS if kind != "wrong_type"]
    client = await serve(repair.app_of(copier(), chosen))
    done = await asyncio.gather(*(repair.attempt(client, task, "hints") for task in chosen))
    assert {each.ended for each in done} <= {"right", "refused"}
    assert "misspelt" in {each.kind for each in done if each.repaired}


@pytest.mark.usefixtures("processes")
async def test_the_benchmark_reports_as_json():
    """The command prints the summary of both arms and every attempt as JSON."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.repair", "--tasks", "2", "--json", stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    report = json.loads(printed)
    assert report["model"] == "standin"
    assert [report["summary"][arm]["repaired"] for arm in ("hints", "plain")] == [1, 1]
    assert len(report["attempts"]) == 4
