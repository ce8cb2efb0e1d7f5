"""Offload: results that are too large for external storage, or have none."""

from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.converter import DataConverter
from temporalio.testing import ActivityEnvironment

from activities.results import offload
from sojourn import ToolRequest, ToolResult, Toolset
from sojourn.contracts import Artifact
from sojourn.core.payload.result_check import Oversized
from sojourn.storage import FolderStorage
from sojourn.values.wire import MAX_ARTIFACT_BYTES, MAX_RESULT_BYTES, MAX_STORED_BYTES

CALL = ToolRequest(name="test.tools.read", tool_call_id="c1")
INFO: Any = SimpleNamespace(namespace="default", workflow_id="r", workflow_type="AgentRun")


@pytest.mark.parametrize(
    ("has_storage", "size", "limit"),
    [(False, MAX_RESULT_BYTES + 1, MAX_RESULT_BYTES), (True, MAX_STORED_BYTES + 1, MAX_STORED_BYTES)],
    ids=["no storage", "larger than storage takes"],
)
async def test_a_result_that_cannot_be_stored_is_refused_with_the_limit(
    tmp_path, has_storage, size, limit
) -> None:
    """A result that is too large is not stored, and its hint names the limit that it exceeds."""
    tools = Toolset("test.tools")
    spec = tools.tool(name="read")(lambda: "").spec
    over = Oversized(ToolResult(name=CALL.name, tool_call_id="c1", result="x"), size)
    storage = FolderStorage(tmp_path) if has_storage else None
    result = await offload(over, storage, spec, CALL, INFO)
    assert result.retry_hint
    assert result.retry_hint.reason == "malformed_response"
    assert f"{limit:,}" in result.retry_hint.message
    assert not list(tmp_path.iterdir())


async def test_without_storage_a_large_picture_of_an_mcp_server_is_left_out_with_a_remark():
    """The author of the app cannot make a server's pictures smaller, so that the rest of the result reaches the planner."""
    sizes = {"image": MAX_ARTIFACT_BYTES - 10, "image_2": MAX_ARTIFACT_BYTES + 1, "text": 9}
    artifacts = [Artifact(kind=kind, data="x", size=size) for kind, size in sizes.items()]
    over = Oversized(ToolResult(result=1, remarks=["said"], artifacts=artifacts), MAX_RESULT_BYTES + 1)
    spec = Toolset("test.tools").tool(name="read")(lambda: "").spec.model_copy(update={"kind": "mcp"})
    result = await offload(over, None, spec, CALL, INFO)
    assert [each.kind for each in result.artifacts] == ["text", "image"]
    assert result.remarks[0] == "said"
    assert "[image_2, 800,001 bytes, is left out" in result.remarks[1]


async def test_as_many_artifacts_as_fit_stay_in_the_history(tmp_path):
    """Small artifacts come first: one large one is stored, and all small ones are read with the run."""
    sizes = {"large": MAX_ARTIFACT_BYTES - 10, "one": 100, "two": 200}
    artifacts = [Artifact(kind=kind, data="x" * (size - 2), size=size) for kind, size in sizes.items()]
    over = Oversized(ToolResult(result=1, artifacts=artifacts), MAX_RESULT_BYTES + 1)
    client: Any = SimpleNamespace(data_converter=DataConverter.default)
    spec = Toolset("test.tools").tool(name="read")(lambda: "").spec
    result = await ActivityEnvironment(client=client).run(
        offload, over, FolderStorage(tmp_path), spec, CALL, INFO
    )
    assert {each.kind: (each.data is not None, each.claim is not None) for each in result.artifacts} == {
        "large": (False, True),
        "one": (True, False),
        "two": (True, False),
    }
