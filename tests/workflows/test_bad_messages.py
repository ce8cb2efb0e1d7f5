"""Messages by hand: signals, updates and queries of any content leave a run unharmed."""

import uuid

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import (
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
)
from temporalio.common import RawValue

from sojourn import AwaitClarification, AwaitClosed, InvalidInput, PlanResult, Run, RunNotFound, RunPolicy
from sojourn.testing.scripted import ScriptedPlanner

WAITING = "provide_clarification"


def raw(data: bytes, **metadata: bytes) -> RawValue:
    return RawValue(Payload(metadata=metadata, data=data))


GARBAGE = [
    pytest.param([], id="no argument"),
    pytest.param([{"id": "q", "answer": "a"}, 2], id="two arguments"),
    pytest.param([[]], id="a list"),
    pytest.param(["yes"], id="a text"),
    pytest.param([None], id="null"),
    pytest.param([7], id="a number"),
    pytest.param([{}], id="an empty object"),
    pytest.param([{"id": "other", "answer": "a"}], id="another id"),
    pytest.param([{"id": {"x": []}, "answer": "a"}], id="an id that is an object"),
    pytest.param([{"id": "q", "answer": ""}], id="an empty answer"),
    pytest.param([{"id": "q", "answer": [1]}], id="an answer that is a list"),
    pytest.param([{"id": "q", "answer": "a", "by": 5}], id="a name that is a number"),
    pytest.param([{"id": "q", "answer": "x" * 70_000}], id="a long answer"),
    pytest.param([raw(b"\x00\xff", encoding=b"binary/plain")], id="bytes"),
    pytest.param([raw(b"{", encoding=b"json/plain")], id="broken JSON"),
    pytest.param([raw(b"{}", encoding=b"made/up")], id="an unknown encoding"),
    pytest.param([raw(b"{}")], id="no encoding"),
    pytest.param([{"id": "q"}, raw(b"{}")], id="two arguments, one undecodable"),
    pytest.param([raw(b"{}", encoding=b"json/external-storage-reference")], id="kept elsewhere"),
    pytest.param(
        [raw(b"{}", encoding=b"json/plain", __temporal_external_storage_reference=b"true")],
        id="kept elsewhere, encrypted",
    ),
]


async def waiting_run(serve, status_when):
    """A run that waits for the answer to `q`, then answers with that."""
    script = [
        PlanResult.ask(AwaitClarification(id="q", question="which?")),
        lambda turn: PlanResult.final(turn.messages[-1].text),
    ]
    client = await serve(planner=ScriptedPlanner(script), policy=RunPolicy(interrupts_allowed=True))
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: status.awaits)
    return run


async def test_garbage_signals_are_noted_and_harm_nothing(serve, status_when, traces):
    """Each bad answer by signal becomes a note, the question stays open, and the right answer still counts."""
    run = await waiting_run(serve, status_when)
    for case in GARBAGE:
        await traces(run).handle.signal(WAITING, args=case.values[0])
    status = await status_when(run, lambda status: len(status.notes) == len(GARBAGE))
    assert all("answer refused" in note for note in status.notes)
    assert [question.id for question in status.awaits] == ["q"]
    await run.answer("q", "this one")
    assert (await run.result()).text == "this one"
    await traces(run).check()
    notes = [event.text async for event in run.events() if event.type == "planner_note"]
    assert len(notes) == len(GARBAGE)


async def test_a_garbage_update_is_rejected_without_a_trace(serve, status_when, traces):
    """A bad answer by update fails for its sender, with the reason, and adds no event to the history."""
    run = await waiting_run(serve, status_when)
    before = len(await traces(run).history())
    for case in GARBAGE:
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await traces(run).handle.execute_update(WAITING, args=case.values[0])
        assert refused.value.cause.type in {"InvalidAnswer", "AwaitNotOpen"}, case.id
        assert refused.value.cause.message, case.id
        assert len(await traces(run).history()) == before, case.id
    await run.answer("q", "this one")
    assert (await run.result()).text == "this one"


async def test_answers_before_and_after_the_question_are_not_used_for_it(serve, traces, until):
    """A signal sent before the question, or after its answer, is noted and never taken for an answer later."""
    go, seen = [], []

    async def plan(turn):
        seen.append(turn)
        answers = [message.text for message in turn.messages if message.role == "user"][1:]
        if not answers:
            await until(lambda: go)
            return PlanResult.ask(AwaitClarification(id="q", question="which?"))
        if len(answers) == 1:
            await until(lambda: len(go) == 2)
            return PlanResult.ask(AwaitClarification(id="q", question="which else?"))
        return PlanResult.final(" and ".join(answers))

    client = await serve(planner=plan, policy=RunPolicy(interrupts_allowed=True))
    run = await client.start("test.agent", "go")
    handle = traces(run).handle
    await until(lambda: seen)
    await handle.signal(WAITING, {"id": "q", "answer": "too early"})
    await until(lambda: noted(run, "waits for nothing of this kind"))
    go.append(1)
    await run.answer("q", "first")
    await handle.signal(WAITING, {"id": "q", "answer": "too late"})
    await until(lambda: noted(run, "answered before"))
    go.append(2)
    await run.answer("q#2", "second")
    assert (await run.result()).text == "first and second"
    await traces(run).check()


async def noted(run, text: str) -> bool:
    return any(text in note for note in (await run.status()).notes)


async def test_a_second_answer_comes_too_late(serve, status_when):
    """The first answer counts; a second to the same question, running or ended, is `AwaitClosed`."""
    run = await waiting_run(serve, status_when)
    assert await run.answer(None, "first", by="ana") == "q"
    with pytest.raises(AwaitClosed):
        await run.answer("q", "second")
    assert (await run.result()).text == "first"
    with pytest.raises(AwaitClosed, match="was already answered by ana at"):
        await run.answer("q", "third")
    with pytest.raises(AwaitClosed, match="has ended"):
        await run.answer("never", "third")


async def test_an_empty_or_long_answer_is_invalid_input(serve, status_when):
    """An empty or too long answer raises `InvalidInput`, and the question stays open."""
    run = await waiting_run(serve, status_when)
    for answer in ("", {}, "x" * 70_000):
        with pytest.raises(InvalidInput, match=r"an answer|the answer to q"):
            await run.answer("q", answer)
        assert (await run.status()).status == "waiting"
    await run.cancel()


async def test_an_answer_to_an_unknown_run_or_question_says_so(serve, status_when):
    """An unknown run is `RunNotFound`, an unknown question `AwaitClosed` that names the open one."""
    run = await waiting_run(serve, status_when)
    with pytest.raises(AwaitClosed, match="open: q"):
        await run.answer("other", "x")
    with pytest.raises(RunNotFound):
        await Run(run.client, uuid.uuid4().hex).answer("q", "x")
    await run.cancel()


async def test_unknown_names_are_harmless(serve, status_when, traces):
    """A signal of an unknown name is ignored, an update or query refused."""
    run = await waiting_run(serve, status_when)
    handle = traces(run).handle
    await handle.signal("explode", {"now": True})
    await handle.signal("explode", raw(b"{}", encoding=b"json/external-storage-reference"))
    with pytest.raises(WorkflowUpdateFailedError):
        await handle.execute_update("explode", 1)
    with pytest.raises(WorkflowQueryFailedError):
        await handle.query("explode")
    await run.answer("q", "fine")
    assert (await run.result()).text == "fine"
    await traces(run).check()


async def test_any_arguments_of_the_query_transcript_are_harmless(serve, status_when, traces):
    """The query answers or refuses any arguments; the run goes on, and no workflow task fails."""
    run = await waiting_run(serve, status_when)
    for args in (
        [-5, -5, -5],
        [10**9, 10**9, 10**9],
        [10**30, None, 10**30],
        ["a", "b", "c"],
        [None, None, None],
        [[], {}, 1.5],
        [0, 1, 0, 99, 99],
        [raw(b"{", encoding=b"json/plain")],
        [raw(b"{}", encoding=b"made/up")],
    ):
        try:
            part = await traces(run).handle.query("transcript", args=args, result_type=RawValue)
        except WorkflowQueryFailedError:
            pass
        else:
            assert part.payload.data.startswith(b"[") or part.payload.data == b"", args
    await run.answer("q", "fine")
    assert (await run.result()).text == "fine"
    assert await traces(run).count(EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED) == 0
