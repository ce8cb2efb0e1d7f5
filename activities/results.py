"""Check, store and repair the results of calls before a history has them."""

from collections.abc import Sequence
from typing import Any, cast

import structlog
from pydantic import ValidationError
from temporalio import activity
from temporalio.converter import StorageDriverStoreContext, StorageDriverWorkflowInfo

from sojourn.attachments import Attachments, with_files_stored
from sojourn.authoring.runnable import Runnable
from sojourn.contracts.message import DocumentPart, Message
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_error import RetryHint, ToolError
from sojourn.contracts.tool_result import Artifact, ToolResult
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.payload import hints
from sojourn.core.payload.boundary import refusal
from sojourn.core.payload.result_check import Oversized, check_result
from sojourn.core.run.ids import artifact_ref
from sojourn.logs.values import describe_error
from sojourn.serving.pace import run_in_thread
from sojourn.storage import StorageDriver, codec_for, store
from sojourn.values.json_value import is_object
from sojourn.values.text import count_noun
from sojourn.values.wire import (
    MAX_ARTIFACT_BYTES,
    MAX_INLINE_BYTES,
    MAX_RESULT_BYTES,
    MAX_STORED_BYTES,
    encode,
)

__all__ = [
    "WHOLE_RESULT",
    "accepts_payload",
    "check_external_result",
    "drop_unfit_example",
    "offload",
    "store_files",
]


def accepts_payload(tool: Runnable, payload: dict[str, Any], call: ToolRequest, meta: ToolCallMeta) -> bool:
    """Check whether a tool's own types accept a payload that fits its schema."""
    try:
        tool.prepare(payload, call, meta)
    except Exception:  # noqa: BLE001 - validators and mappers are the author's code
        return False
    return True


async def drop_unfit_example(tool: Runnable, result: ToolResult) -> ToolResult:
    """Return a result that the boundary did not make.

    The example of its hint is omitted unless it fits the tool.
    """
    example = result.retry_hint and result.retry_hint.example_input
    return await run_in_thread(lambda: _fit_example(tool, result), on=example) if example else result


def _fit_example(tool: Runnable, result: ToolResult) -> ToolResult:
    hint = result.retry_hint
    example = hint.example_input if hint and hint.tool == tool.spec.id else None
    if hint is None or example is None or tool.spec.decode_in_executor:
        return result
    if tool.validator.is_valid(example) and tool.takes(example):
        return result
    blank: dict[str, Any] = {"example_input": None, "invented": [], "template": None}
    return result.model_copy(update={"retry_hint": hint.model_copy(update=blank)})


def check_external_result(tool: Runnable, call: ToolRequest, sent: dict[str, Any]) -> ToolResult:
    """Return the call's result from the answer of an external program."""
    made = check_result(tool.spec, call, _answer(tool, call, sent))
    if isinstance(made, ToolResult):
        return made
    return refusal(call, hints.oversized_result(tool.spec, made.size))


def _answer(tool: Runnable, call: ToolRequest, sent: dict[str, Any]) -> ToolResult:
    if "error" in sent:
        return refusal(call, (_error(sent["error"]), _hint(call, sent.get("retry_hint"))))
    return tool.accept(call, sent.get("result"))


def _error(value: Any) -> ToolError:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        code = fields.get("code")
        return ToolError.new(str(fields.get("message")), code=code if isinstance(code, str) else None)
    return ToolError.new(str(value))


def _hint(call: ToolRequest, value: Any) -> RetryHint | None:
    if not isinstance(value, dict):
        return None
    try:
        return RetryHint.model_validate({**cast("dict[str, Any]", value), "tool": call.name})
    except ValidationError:
        return None


WHOLE_RESULT = "result"
"""The kind of the artifact that holds a whole result that was too large."""

_log = structlog.get_logger("sojourn.tool")

_ROOM = 10_000
"""Bytes reserved for what surrounds the result."""


async def offload(
    over: Oversized,
    storage: StorageDriver | None,
    spec: ToolSpec,
    call: ToolRequest,
    info: activity.Info,
) -> ToolResult:
    """Return the result with its large parts in storage.

    Without storage, the result says how to narrow the call. A stored result becomes `{omitted,
    bytes, artifact}`, and `run.artifact(ref)` returns it whole.

    The pictures and files of an MCP server are no choice of the app's author. Those that are too
    large are left out, since the rest of the result is still of use.
    """
    if storage is None and spec.kind == "mcp" and over.result.artifacts:
        return _drop_large(over.result)
    if storage is None or over.size > MAX_STORED_BYTES:
        limit = MAX_RESULT_BYTES if storage is None else MAX_STORED_BYTES
        return refusal(call, hints.oversized_result(spec, over.size, limit))
    try:
        return await _store(over, storage, call, info)
    except Exception as error:  # noqa: BLE001 - the tool has run: the call is answered, not executed again
        _log.error(
            "result_not_stored",
            tool=spec.id,
            run_id=info.workflow_id,
            bytes=over.size,
            raised=describe_error(error),
        )
        error_value, hint = hints.oversized_result(spec, over.size)
        why = f"{error_value.message}, and external storage did not take it: {ToolError.from_error(error).message}"
        return refusal(call, (error_value.model_copy(update={"message": why}), hint))


async def store_files(result: ToolResult, stored: Attachments, run_id: str) -> ToolResult:
    """Return an MCP tool's result with its larger files as attachments of the run.

    A file that is not stored stays as it is, as data of an artifact.
    """
    artifacts = [await _store_file(artifact, stored, run_id) for artifact in result.artifacts]
    return result.model_copy(update={"artifacts": artifacts}) if artifacts else result


async def _store_file(artifact: Artifact, stored: Attachments, run_id: str) -> Artifact:
    fields: Any = artifact.data
    text: Any = fields.get("base64") if is_object(fields) else None
    if not isinstance(text, str) or len(text) <= MAX_INLINE_BYTES:
        return artifact
    kind = str(fields.get("mime_type") or "")
    name = str(fields.get("uri") or "").rpartition("/")[2]
    part = DocumentPart(type="document", media_type=kind, data=text, title=name or None)
    message = Message(role="user", parts=[part])
    try:
        (file,) = (await with_files_stored(stored, message, run_id=run_id.partition("/")[0])).attachments
    except Exception as error:  # noqa: BLE001 - the tool has run: its result keeps the data
        _log.warning("file_not_stored", run_id=run_id, raised=describe_error(error))
        return artifact
    return artifact.model_copy(update={"data": None, "size": file.size, "attachment": file})


def _split(artifacts: Sequence[Artifact]) -> tuple[list[Artifact], list[Artifact]]:
    """Return the artifacts that a result has room for, smallest first, and the rest."""
    kept: list[Artifact] = []
    large: list[Artifact] = []
    room = MAX_ARTIFACT_BYTES
    for artifact in sorted(artifacts, key=lambda item: item.size):
        size = 0 if artifact.attachment else artifact.size
        (kept if size <= room else large).append(artifact)
        room -= size if size <= room else 0
    return kept, large


def _drop_large(result: ToolResult) -> ToolResult:
    kept, large = _split(result.artifacts)
    why = f"without external storage a result keeps {MAX_ARTIFACT_BYTES:,} bytes of such data"
    remarks = [f"[{each.kind}, {count_noun(each.size, 'byte')}, is left out: {why}]" for each in large]
    return result.model_copy(update={"artifacts": kept, "remarks": [*result.remarks, *remarks]})


async def _store(
    over: Oversized, storage: StorageDriver, call: ToolRequest, info: activity.Info
) -> ToolResult:
    context = StorageDriverStoreContext(
        target=StorageDriverWorkflowInfo(
            namespace=info.namespace, id=info.workflow_id, type=info.workflow_type
        )
    )
    codec = codec_for(activity.client().data_converter, info.namespace, info.workflow_id or "")
    artifacts, large = _split(over.result.artifacts)
    for artifact in large:
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
