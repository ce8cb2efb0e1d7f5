"""Starts by hand: whatever input a plain Temporal client gives to `AgentRun`, the run fails with a reason or completes."""

import lzma
import uuid
from base64 import b64encode
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowFailureError
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from sojourn import Message, PlanResult, RunFailed
from sojourn.errors import RunUnreadable
from sojourn.testing.scripted import ScriptedPlanner
from sojourn.values.wire import encode


def raw(data: bytes, **metadata: bytes) -> RawValue:
    return RawValue(Payload(metadata=metadata, data=data))


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


GOOD = {"agent_id": "test.agent", "messages": [{"role": "user", "parts": [{"type": "text", "text": "go"}]}]}

GARBAGE: dict[str, list[Any]] = {
    "no argument": [],
    "two arguments": [GOOD, GOOD],
    "two, one undecodable": [GOOD, raw(b"x", encoding=b"made/up")],
    "a text": ["x"],
    "a number": [5],
    "null": [None],
    "a list": [[]],
    "an empty object": [{}],
    "an id that is a number": [{"agent_id": 3}],
    "no messages": [{**GOOD, "messages": []}],
    "a role": [{**GOOD, "messages": [{"role": "boss", "parts": GOOD["messages"][0]["parts"]}]}],
    "99 labels": [{**GOOD, "labels": {str(n): "x" for n in range(99)}}],
    "a limit of no rounds": [{**GOOD, "policy": {"max_tool_rounds": 0}}],
    "a depth that is no number": [{**GOOD, "depth": "deep"}],
    "no agent's id": [{**GOOD, "agent_id": "nobody"}],
    "a session id of 3 KB": [{**GOOD, "session_id": "s" * 3_000}],
    "a turn id of 900 KB": [{**GOOD, "turn_id": "t" * 900_000}],
    "a budget of 25,000 years": [{**GOOD, "policy": {"time_budget": "P9000000D"}}],
    "a negative time-out": [{**GOOD, "policy": {"plan_timeout": -1}}],
    "bytes": [raw(b"\x00\xff", encoding=b"binary/plain")],
    "broken JSON": [raw(b"{", encoding=b"json/plain")],
    "half a surrogate pair": [raw(b'"\\ud800"', encoding=b"json/plain")],
    "300 deep": [raw(nested(300), encoding=b"json/plain")],
    "an unknown encoding": [raw(b"x", encoding=b"made/up")],
    "no encoding": [raw(b"x")],
    "kept elsewhere": [raw(b"{}", encoding=b"json/external-storage-reference")],
}


async def test_a_garbage_start_fails_the_run_and_says_why(serve, temporal_address, traces, subtests):
    """A run whose input cannot be read fails with `InvalidInput`, and no workflow task fails."""
    client = await serve(planner=ScriptedPlanner([PlanResult.final("done")]))
    plain = await TemporalClient.connect(temporal_address)
    for kind, args in GARBAGE.items():
        with subtests.test(kind):
            run_id = uuid.uuid4().hex
            handle = await plain.start_workflow(
                "AgentRun", args=args, id=run_id, task_queue=client.task_queue
            )
            with pytest.raises(WorkflowFailureError) as failed:
                await handle.result()
            cause = failed.value.cause
            assert isinstance(cause, ApplicationError)
            assert cause.type == "InvalidInput"
            assert cause.message
            run = client.get_run(run_id)
            with pytest.raises(RunFailed) as refused:
                await run.result()
            assert refused.value.code == "InvalidInput"
            await traces(run).check()
            status = await run.status()
            assert status.status == "failed"
            assert status.failure
            assert [event.type async for event in run.events()][-2:] == ["run_failed", "run_stream_end"]


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({**GOOD, "invented_later": {"x": 1}}, id="a field of a newer version"),
        pytest.param({**GOOD, "parent": None, "policy": None}, id="nulls for what may be absent"),
        pytest.param(
            {**GOOD, "messages": [{"role": "user", "parts": [{"type": "hologram", "x": 1}]}]},
            id="a part of a newer version",
        ),
    ],
)
async def test_a_start_of_a_newer_version_runs(serve, temporal_address, value):
    """Fields and parts that a newer version adds are ignored or carried, never refused."""
    client = await serve(planner=ScriptedPlanner([PlanResult.final("done")]))
    plain = await TemporalClient.connect(temporal_address)
    run_id = uuid.uuid4().hex
    await plain.start_workflow("AgentRun", value, id=run_id, task_queue=client.task_queue)
    assert (await client.get_run(run_id).result()).text == "done"


async def test_a_plain_client_reads_a_run(serve, temporal_address):
    """Payloads are plain JSON: a client that knows nothing of Sojourn starts a run and reads its answer."""
    client = await serve(planner=ScriptedPlanner([PlanResult.final("done")]))
    plain = await TemporalClient.connect(temporal_address)
    answer = await plain.execute_workflow("AgentRun", GOOD, id=uuid.uuid4().hex, task_queue=client.task_queue)
    assert answer["final"]["parts"] == [{"type": "text", "text": "done"}]


def made_up(*segments: Any, **state: Any) -> dict[str, Any]:
    """A state that somebody has made up, with a transcript of these segments."""
    opening = {"agent_id": "test.agent", "messages": []}
    return {"continued": {"state": {"opening": opening, **state}, "transcript": list(segments)}}


def packed(data: bytes, count: int = 1) -> list[Any]:
    return [count, b64encode(lzma.compress(data, preset=1)).decode()]


LINE = encode(Message.user("go"))

BOMBS = {
    "a bomb": lambda: made_up(packed(bytes(200_000_000))),
    "a bomb in parts": lambda: made_up(*[packed(LINE + b" " * 9_000_000)] * 20),
    "not compressed": lambda: made_up([1, b64encode(b"no such thing").decode()]),
}
"""Made by the tests: to compress so much takes a second."""
OTHER_COUNT = {"another number of messages": lambda: made_up(packed(LINE, 5))}
NO_MESSAGE = {"no message": lambda: made_up(packed(b"{}"))}


def each(states: dict[str, Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("make", states.values(), ids=states)


@each(BOMBS | OTHER_COUNT)
async def test_a_made_up_transcript_fails_the_run_at_once(serve, temporal_address, traces, make):
    """A state whose transcript cannot be read within its bound fails the run; nobody decompresses it whole."""
    client = await serve(planner=ScriptedPlanner([PlanResult.final("done")]))
    plain = await TemporalClient.connect(temporal_address)
    run_id = uuid.uuid4().hex
    await plain.start_workflow("AgentRun", args=[make()], id=run_id, task_queue=client.task_queue)
    run = client.get_run(run_id)
    with pytest.raises(RunFailed, match=r"continued\.transcript") as refused:
        await run.result()
    assert refused.value.code == "InvalidInput"
    assert await traces(run).failed_tasks() == []
    assert (await run.status()).status == "failed"
    assert [event.type async for event in run.events()][-2:] == ["run_failed", "run_stream_end"]


@each(BOMBS | NO_MESSAGE)
async def test_a_transcript_that_cannot_be_read_says_so(serve, temporal_address, make):
    """Who reads or forks a run with such a transcript is told that it is unreadable."""
    client = await serve(planner=ScriptedPlanner([PlanResult.final("done")]))
    plain = await TemporalClient.connect(temporal_address)
    run_id = uuid.uuid4().hex
    await plain.start_workflow("AgentRun", args=[make()], id=run_id, task_queue=client.task_queue)
    run = client.get_run(run_id)
    with pytest.raises(RunUnreadable, match="transcript of run"):
        await run.transcript()
    with pytest.raises(RunUnreadable, match="transcript of run"):
        await client.fork(run_id, message="go on")


async def test_a_made_up_state_with_a_good_transcript_runs(serve, temporal_address):
    """A state that fits is one that a fork could have begun with."""
    client = await serve(planner=ScriptedPlanner([PlanResult.final("done")]))
    plain = await TemporalClient.connect(temporal_address)
    run_id = uuid.uuid4().hex
    state = made_up(packed(LINE), new=[{"role": "user", "parts": [{"type": "text", "text": "more"}]}])
    await plain.start_workflow("AgentRun", args=[state], id=run_id, task_queue=client.task_queue)
    assert (await client.get_run(run_id).result()).text == "done"
