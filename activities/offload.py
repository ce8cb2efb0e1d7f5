"""Offload: what is too large for a run's history goes to external storage, or is refused."""

import structlog
from temporalio import activity
from temporalio.converter import StorageDriverStoreContext, StorageDriverWorkflowInfo

from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import Artifact, ToolResult
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.payload import hints
from sojourn.core.payload.boundary import refusal
from sojourn.core.payload.result_check import Oversized
from sojourn.core.run.ids import artifact_ref
from sojourn.core.values.text import counted
from sojourn.core.values.wire import MAX_ARTIFACT_BYTES, MAX_RESULT_BYTES, MAX_STORED_BYTES, encode
from sojourn.logs.exceptions import described
from sojourn.storage import StorageDriver, codec_for, store

__all__ = ["WHOLE_RESULT", "offloaded"]

WHOLE_RESULT = "result"
"""The kind of the artifact that holds a whole result that was too large."""

_log = structlog.get_logger("sojourn.tool")

_ROOM = 10_000
"""Bytes reserved for what surrounds the result."""


async def offloaded(
    over: Oversized,
    storage: StorageDriver | None,
    spec: ToolSpec,
    call: ToolRequest,
    info: activity.Info,
) -> ToolResult:
    """The result with its large parts in storage; without storage the result that says how to narrow the call.

    A stored result becomes `{omitted, bytes, artifact}`; `run.artifact(ref)` returns it whole. The pictures and files of an MCP
    server are no choice of the app's author: those that have no room are left out, and the rest of the result is of use.
    """
    if storage is None and spec.kind == "mcp" and over.result.artifacts:
        return _without_large(over.result)
    if storage is None or over.size > MAX_STORED_BYTES:
        limit = MAX_RESULT_BYTES if storage is None else MAX_STORED_BYTES
        return refusal(call, hints.oversized_result(spec, over.size, limit))
    try:
        return await _stored(over, storage, call, info)
    except Exception as error:  # noqa: BLE001 - the tool has run: the call is answered, not executed again
        _log.error(
            "result_not_stored",
            tool=spec.id,
            run_id=info.workflow_id,
            bytes=over.size,
            raised=described(error),
        )
        error_value, hint = hints.oversized_result(spec, over.size)
        why = f"{error_value.message}, and external storage did not take it: {ToolError.from_error(error).message}"
        return refusal(call, (error_value.model_copy(update={"message": why}), hint))


def _without_large(result: ToolResult) -> ToolResult:
    """The result without the artifacts that are too large for a history. A remark names each of them."""
    kept: list[Artifact] = []
    remarks: list[str] = []
    room = MAX_ARTIFACT_BYTES
    for artifact in sorted(result.artifacts, key=lambda item: item.size):
        if artifact.size <= room:
            room -= artifact.size
            kept.append(artifact)
        else:
            why = f"without external storage a result keeps {MAX_ARTIFACT_BYTES:,} bytes of such data"
            remarks.append(f"[{artifact.kind}, {counted(artifact.size, 'byte')}, is left out: {why}]")
    return result.model_copy(update={"artifacts": kept, "remarks": [*result.remarks, *remarks]})


async def _stored(
    over: Oversized, storage: StorageDriver, call: ToolRequest, info: activity.Info
) -> ToolResult:
    context = StorageDriverStoreContext(
        target=StorageDriverWorkflowInfo(
            namespace=info.namespace, id=info.workflow_id, type=info.workflow_type
        )
    )
    codec = codec_for(activity.client().data_converter, info.namespace, info.workflow_id or "")
    artifacts: list[Artifact] = []
    room = MAX_ARTIFACT_BYTES
    for artifact in sorted(over.result.artifacts, key=lambda item: item.size):
        if artifact.size <= room:
            room -= artifact.size
            artifacts.append(artifact)
        else:
            claim = await store(storage, encode(artifact.data), context, codec)
            artifacts.append(artifact.model_copy(update={"data": None, "claim": claim}))
    result = over.result.result
    data = encode(result)
    if len(data) > MAX_RESULT_BYTES - _ROOM:
        claim = await store(storage, data, context, codec)
        artifacts.append(Artifact(kind=WHOLE_RESULT, size=len(data), claim=claim))
        ref = artifact_ref(info.workflow_id or "", call.tool_call_id, WHOLE_RESULT)
        result = {"omitted": True, "bytes": len(data), "artifact": ref}
    return over.result.model_copy(update={"result": result, "artifacts": artifacts})
