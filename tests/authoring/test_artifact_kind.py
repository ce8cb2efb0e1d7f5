"""Typed artifacts: declared, attached to a result, read from it (SR-104, SR-108)."""

import pytest
from pydantic import BaseModel, ValidationError

from sojourn import ToolError, ToolRequest, ToolResult, Toolset, WithArtifacts
from sojourn.authoring import ArtifactKind
from sojourn.errors import DefinitionError


class Series(BaseModel):
    points: list[tuple[str, float]]


SERIES = ArtifactKind("time_series", Series)
LOG = ArtifactKind("log", list[str])
tools = Toolset("test.readings")


@tools.tool(artifacts=[SERIES, LOG])
async def read(device_id: str) -> WithArtifacts[str]:
    return WithArtifacts("warm", time_series=Series(points=[]))


@tools.tool(artifacts={"time_series": Series})
async def by_name(device_id: str) -> WithArtifacts[str]:
    return WithArtifacts("warm")


@pytest.mark.parametrize("tool", [read, by_name], ids=str)
@pytest.mark.parametrize("kind", [SERIES, "time_series"], ids=["typed", "named"])
def test_an_attached_artifact_is_returned(tool, kind):
    """`artifact` returns what `attach` has attached; a second artifact of a kind replaces the first."""
    result = tool.result(ToolRequest(name=tool.id), "warm")
    first = tool.attach(result, kind, Series(points=[("00:00", 1.0)]))
    second = tool.attach(first, kind, Series(points=[("00:00", 2.0)]))
    assert tool.artifact(first, kind) == Series(points=[("00:00", 1.0)])
    assert tool.artifact(second, kind) == Series(points=[("00:00", 2.0)])
    assert [artifact.kind for artifact in second.artifacts] == ["time_series"]
    assert result.artifacts == []
    assert tool.artifact(result, kind) is None


def test_other_kinds_and_the_rest_of_a_result_stay():
    """Artifacts can be attached to a result that was not made by the tool's `result`; the rest of the result stays."""
    made = read.attach(ToolResult(result="warm", tool_call_id="c"), SERIES, Series(points=[]))
    both = read.attach(made, LOG, ["read"])
    assert [artifact.kind for artifact in both.artifacts] == ["time_series", "log"]
    assert (both.name, both.result, both.tool_call_id) == (read.id, "warm", "c")


def test_undeclared_artifacts_are_refused():
    """An undeclared kind, a kind of another type, data of another type, a failure and another tool's result are refused."""
    good = ToolResult(name=read.id, result="warm")
    with pytest.raises(KeyError, match="declares no artifact 'map'; its artifacts are time_series, log"):
        read.attach(good, "map", {})
    with pytest.raises(KeyError, match=r"declares artifact 'log' as .*, not as"):
        read.artifact(good, ArtifactKind("log", Series))
    with pytest.raises(ValidationError):
        read.attach(good, SERIES, {"points": "none"})
    with pytest.raises(ValueError, match="too cold"):
        read.attach(ToolResult(error=ToolError.new("too cold")), SERIES, Series(points=[]))
    with pytest.raises(ValueError, match="not a successful result"):
        read.attach(ToolResult(name="test.readings.other"), SERIES, Series(points=[]))


@pytest.mark.parametrize(
    ("artifacts", "message"),
    [([SERIES, SERIES], "'time_series' is declared twice"), (["time_series"], "ArtifactKind")],
    ids=["twice", "a name alone"],
)
def test_kinds_are_declared_once_and_with_their_type(artifacts, message):
    """A kind that is declared twice, or without its type, is refused at import; the error names the tool."""
    with pytest.raises(DefinitionError, match=rf"test\.other\.read: .*{message}"):
        Toolset("test.other").declare("read", args=Series, result=str, artifacts=artifacts)
