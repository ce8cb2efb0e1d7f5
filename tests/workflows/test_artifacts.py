"""Artifacts: beside the result, never shown to a model, recorded once (SR-101 to SR-113)."""

import pytest
from pydantic import BaseModel
from temporalio.converter import StorageDriverStoreContext

from sojourn import (
    Agent,
    AgentTool,
    App,
    Client,
    InvalidInput,
    PlanResult,
    PlanResumeInput,
    ToolCallMeta,
    ToolRequest,
    ToolResult,
    Toolset,
    WithArtifacts,
)
from sojourn.errors import ArtifactNotFound
from sojourn.storage import FolderStorage
from sojourn.testing import ScriptedPlanner


class Point(BaseModel):
    at: str
    value: float


class TimeSeries(BaseModel):
    data_points: list[Point]
    metadata: dict[str, str] = {}


class Summary(BaseModel):
    summary: str
    count: int


MARK = "only-in-the-artifact"
SERIES = TimeSeries(data_points=[Point(at=f"{n}", value=n) for n in range(50)], metadata={"mark": MARK})

tools = Toolset("ops.telemetry")


@tools.tool(artifacts={"time_series": TimeSeries})
async def get_time_series(device_id: str) -> WithArtifacts[Summary]:
    """The example of SR-105."""
    return WithArtifacts(Summary(summary=f"50 points of {device_id}", count=50), time_series=SERIES)


@tools.tool(artifacts={"time_series": TimeSeries})
def bad(kind: str) -> WithArtifacts[int]:
    """Return an artifact of a kind that is not declared, or with data of another type."""
    return WithArtifacts(1, **{kind: {"data_points": "none"}})


@tools.tool(artifacts={"note": str})
def big(size: int, note: int = 0) -> WithArtifacts[str]:
    """Return a result and an artifact of so many characters."""
    return WithArtifacts("r" * size, note="n" * note if note else None)


def app(planner, **more) -> App:
    return App(agents=[Agent("test.agent", planner=planner, uses=[tools])], **more)


async def finished(client, planner=None):
    run = await client.start("test.agent", "go")
    return run, await run.result()


async def test_data_stays_out_of_what_planners_read(serve, traces):
    """A planner gets the result and a reference; the data is in the completion, in the event and behind the reference."""
    planner = ScriptedPlanner(
        [PlanResult.calls(get_time_series.call(device_id="d-1")), PlanResult.final("ok")]
    )
    client = await serve(app(planner))
    run, out = await finished(client)
    (result,) = planner.turns[1].tool_results
    assert get_time_series.result_of(result) == Summary(summary="50 points of d-1", count=50)
    (artifact,) = result.artifacts
    assert (artifact.kind, artifact.data, artifact.source_tool) == ("time_series", None, get_time_series.id)
    assert artifact.ref == f"{run.id}#{result.tool_call_id}/time_series"
    assert artifact.size > 1_000
    assert MARK not in str(planner.turns[1])
    assert MARK not in str(await traces(run).check())
    assert str(await traces(run).history()).count(MARK) == 1
    (end,) = [event async for event in run.events() if event.type == "tool_end"]
    assert get_time_series.artifact(end.result, "time_series") == SERIES
    assert (await run.artifact(artifact.ref)).data == SERIES.model_dump()
    assert [one.ref for one in out.artifacts] == [artifact.ref]
    with pytest.raises(ValueError, match="only its reference"):
        get_time_series.artifact(result, "time_series")
    with pytest.raises(KeyError, match="declares no artifact 'chart'"):
        get_time_series.artifact(end.result, "chart")


async def test_an_artifact_climbs_from_a_child_with_its_link(serve):
    """The parent's result and the run's output refer to a child's artifact, with a link to the child run (SR-111)."""

    async def plan(turn):
        if turn.run.agent_id == "test.child":
            return (
                PlanResult.final("seen")
                if isinstance(turn, PlanResumeInput)
                else PlanResult.calls(get_time_series.call(device_id="d-2"))
            )
        if isinstance(turn, PlanResumeInput):
            (result,) = turn.tool_results
            (artifact,) = result.artifacts
            assert artifact.run_link.run_id == result.run_link.run_id
            return PlanResult.final(artifact.ref)
        return PlanResult.calls(ToolRequest(name="test.ask.ask", payload={"device": "d-2"}))

    class Ask(BaseModel):
        device: str

    child = Agent("test.child", planner=plan, uses=[tools])
    ask = child.export("test.ask", tools=[AgentTool("ask", args=Ask)])
    client = await serve(App(agents=[Agent("test.agent", planner=plan, uses=[ask]), child]))
    run, out = await finished(client)
    assert out.text.startswith(f"{run.id}/")
    assert (await client.artifact(out.text)).data == SERIES.model_dump()
    assert out.artifacts[0].run_link.agent_id == "test.child"
    ends = [event async for event in run.events(follow=False, children=True) if event.type == "tool_end"]
    # The event of the child's own call has the data (SR-110).
    data = {event.run_id: event.artifacts[0].data for event in ends}
    assert data == {run.id: None, out.artifacts[0].run_link.run_id: SERIES.model_dump()}


async def test_artifacts_are_validated(serve):
    """An artifact of an undeclared kind, or with data of another type, is `malformed_response`."""
    calls = [bad.call(kind="chart"), bad.call(kind="time_series")]
    planner = ScriptedPlanner([PlanResult.calls(*calls), PlanResult.final("ok")])
    await finished(await serve(app(planner)))
    unknown, wrong = planner.turns[1].tool_results
    assert unknown.retry_hint.reason == wrong.retry_hint.reason == "malformed_response"
    assert 'artifact "chart" is not declared; declared: time_series' in unknown.error.message
    assert "data_points" in wrong.error.message


async def test_a_large_result_or_artifact_is_refused_without_storage(no_storage, serve, traces):
    """A large result beside a large artifact fits; a result or artifact of 1.1 MB is `malformed_response`, with its size."""
    calls = [
        big.call(size=900_000, note=700_000),
        big.call(size=1_100_000),
        big.call(size=1, note=900_000 + 200_000),
    ]
    planner = ScriptedPlanner([PlanResult.calls(*calls), PlanResult.final("ok")])
    client = await serve(app(planner))
    run, out = await finished(client)
    fits, *others = planner.turns[1].tool_results
    assert fits.ok
    assert (await run.artifact(fits.artifacts[0].ref)).size == 700_002
    for result in others:
        assert result.retry_hint.reason == "malformed_response"
        assert "bytes" in result.retry_hint.message
    assert [one.kind for one in out.artifacts] == ["note"]
    await traces(run).check()


async def test_a_large_result_or_artifact_is_stored(no_storage, serve, traces, tmp_path, temporal_address):
    """The result becomes `{omitted, bytes, artifact}`; only a client with the storage can read the artifact."""
    storage = FolderStorage(tmp_path)
    calls = [big.call(size=3_000_000), big.call(size=5, note=2_000_000)]
    planner = ScriptedPlanner([PlanResult.calls(*calls), PlanResult.final("ok")])
    client = await serve(app(planner, storage=storage))
    run, _ = await finished(client)
    omitted, beside = planner.turns[1].tool_results
    ref = omitted.result["artifact"]
    assert omitted.result == {"omitted": True, "bytes": 3_000_002, "artifact": ref}
    assert beside.result == "rrrrr"
    reader = await Client.connect(temporal_address, storage=FolderStorage(tmp_path))
    assert (await reader.artifact(ref)).data == "r" * 3_000_000
    assert (await reader.artifact(beside.artifacts[0].ref)).data == "n" * 2_000_000
    with pytest.raises(InvalidInput, match="storage="):
        await client.artifact(ref)
    elsewhere = await Client.connect(temporal_address, storage=FolderStorage(tmp_path / "other"))
    with pytest.raises(ArtifactNotFound, match="cannot be read"):
        await elsewhere.artifact(ref)
    await traces(run).check()


async def test_of_artifacts_that_are_too_large_together_the_large_are_stored(serve, traces, tmp_path):
    """Artifacts stay in the history, the smallest first, as long as there is room."""
    pair = Toolset("ops.pairs")

    @pair.tool(read_only=True, artifacts={"small": str, "large": str})
    async def both() -> WithArtifacts[str]:
        """Two that fit alone."""
        return WithArtifacts("r", large="l" * 500_000, small="s" * 400_000)

    planner = ScriptedPlanner([PlanResult.calls(both.call()), PlanResult.final("ok")])
    agent = Agent("test.agent", planner=planner, uses=[pair])
    client = await serve(App(agents=[agent], storage=FolderStorage(tmp_path)))
    run, _ = await finished(client)
    (end,) = [event async for event in run.events() if event.type == "tool_end"]
    kept = {artifact.kind: artifact for artifact in end.artifacts}
    assert kept["small"].data == "s" * 400_000
    assert (kept["large"].data, kept["large"].size) == (None, 500_002)
    assert kept["large"].claim
    await traces(run).check()


async def test_references_that_lead_nowhere(serve):
    """A malformed reference is `InvalidInput`, a reference to an unknown call `ArtifactNotFound`."""
    planner = ScriptedPlanner([PlanResult.final("ok")])
    client = await serve(app(planner))
    run, _ = await finished(client)
    with pytest.raises(InvalidInput, match="<run id>#"):
        await client.artifact("nonsense")
    with pytest.raises(ArtifactNotFound):
        await client.artifact(f"{run.id}#call/kind")


def test_an_executor_gives_typed_artifacts():
    """`tool.result(call, value, kind=...)` and `tool.artifact(result, kind)` are each other's inverse (SR-108)."""
    declared = Toolset("a.b").declare("c", args=Point, result=Summary, artifacts={"time_series": TimeSeries})
    call = declared.call(Point(at="x", value=1))
    result = declared.result(call, Summary(summary="s", count=1), time_series=SERIES)
    assert declared.artifact(result, "time_series") == SERIES
    bare = declared.result(call, Summary(summary="s", count=1))
    assert declared.artifact(bare, "time_series") is None
    with pytest.raises(ValueError, match="not a successful result"):
        declared.artifact(ToolResult(name="other"), "time_series")
    assert ToolCallMeta(run_id="r").attempt == 1


async def test_stored_files_are_checked(tmp_path):
    """A claim of another storage, a path in a claim and a changed file are refused."""
    from sojourn.storage import load, store

    storage = FolderStorage(tmp_path)
    claim = await store(storage, b'"data"', StorageDriverStoreContext())
    assert await store(storage, b'"data"', StorageDriverStoreContext()) == claim
    assert await load(storage, claim) == b'"data"'
    with pytest.raises(ValueError, match="driver"):
        await load(FolderStorage(tmp_path, name="other"), claim)
    with pytest.raises(ValueError, match="not one of this storage"):
        await load(storage, {**claim, "sha256": "../../etc/passwd"})
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    file.write_bytes(b"changed")
    with pytest.raises(ValueError, match="was changed"):
        await load(storage, claim)
