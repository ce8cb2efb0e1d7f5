"""Files of an MCP server's answer: the larger ones become attachments of the run, and the others stay in the result."""

import base64

from activities.results import store_files
from sojourn.attachments import Attachments
from sojourn.contracts.tool_result import Artifact, ToolResult
from sojourn.storage import FolderStorage
from sojourn.testing import ScriptedPlanner

LARGE = b"\x89PNG\r\n\x1a\n" + bytes(60_000)


def artifact(kind: str, content: bytes, **fields: str) -> Artifact:
    data = {"mime_type": "image/png", "base64": base64.b64encode(content).decode(), **fields}
    return Artifact(kind=kind, media_type="image/png" if kind == "image" else "", data=data)


async def test_larger_files_become_attachments(serve, tmp_path):
    """With the name of their URI, for models as before; small ones, texts and broken data stay as they are."""
    client = await serve(planner=ScriptedPlanner([]))
    stored = Attachments(client.temporal, FolderStorage(tmp_path))
    staying = [
        artifact("image_2", b"small"),
        artifact("image_3", LARGE).model_copy(update={"data": {"base64": "?" * 90_000}}),
        Artifact(kind="table", data="x" * 90_000),
    ]
    given = [artifact("image", LARGE), artifact("resource", LARGE, uri="file:///a/b c.png"), *staying]
    result = await store_files(ToolResult(artifacts=given), stored, "run-1/call_1")
    image, resource, *others = result.artifacts
    assert others == staying
    assert (image.kind, image.media_type, image.size, image.data) == ("image", "image/png", len(LARGE), None)
    assert (resource.media_type, resource.attachment.name) == ("", "b c.png")
    chunks = [chunk async for chunk in stored.read(image.attachment, {"run-1"})]
    assert b"".join(chunks) == LARGE


async def test_a_result_keeps_files_that_storage_does_not_take(serve, tmp_path):
    """The tool has run, so its answer is not lost."""
    client = await serve(planner=ScriptedPlanner([]))
    (tmp_path / "file").write_text("a file in place of a folder")
    stored = Attachments(client.temporal, FolderStorage(tmp_path / "file"))
    given = ToolResult(artifacts=[artifact("image", LARGE)])
    assert await store_files(given, stored, "run-1") == given
