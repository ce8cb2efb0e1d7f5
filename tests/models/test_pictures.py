"""Pictures of tools: which ones a model sees of a transcript."""

import base64
from typing import Any

import pytest
from pydantic_ai.messages import BinaryImage

from sojourn.contracts.message import CompactionPart, Message
from sojourn.contracts.tool_result import Artifact, RunLink, ToolResult
from sojourn.models.compaction import ResultRead, compact_messages
from sojourn.models.files import load_pictures, picture_refs, refs_of, shown_refs, with_pictures
from sojourn.serving.artifact_reader import reading_artifacts

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


def pictured(*refs: str, **fields: Any) -> ToolResult:
    made = [Artifact(kind="image", media_type="image/png", ref=ref) for ref in refs]
    return ToolResult(name="t.t.t", tool_call_id="c", artifacts=made, **fields)


def data_of(content: bytes, mime_type: str = "image/png") -> dict[str, str]:
    return {"mime_type": mime_type, "base64": base64.b64encode(content).decode()}


def test_the_newest_pictures_are_sent_and_old_ones_go_in_blocks(subtests: pytest.Subtests) -> None:
    """At most 20 pictures are sent; ten are dropped at once, so that the beginning of the request changes rarely."""
    rows = [(0, 0), (20, 0), (21, 10), (30, 10), (31, 20), (40, 20)]
    for count, first in rows:
        with subtests.test(count=count, first=first):
            messages = [Message.results([pictured(str(number))]) for number in range(count)]
            assert shown_refs(picture_refs(messages)) == [str(number) for number in range(first, count)]


def test_a_cleared_result_and_a_child_run_have_no_pictures_to_see():
    """A result that compaction cleared sends none, and a picture of a child run is the child's."""
    result = pictured("a")
    assert refs_of(result) == ["a"]
    assert refs_of(ResultRead.model_construct(**dict(result), text="cleared")) == []
    link = RunLink(run_id="r", agent_id="a.b", parent_run_id="p", parent_tool_call_id="c")
    below = result.artifacts[0].model_copy(update={"run_link": link})
    assert refs_of(result.model_copy(update={"artifacts": [below]})) == []


def test_compaction_drops_the_pictures_of_old_results():
    """A result that is cleared to save room is cleared for its picture too, however short its text is."""
    messages = [
        Message.results([pictured("old", result="x")]),
        Message.results([pictured("new", result="x")]),
    ]
    read = compact_messages(messages, CompactionPart(type="compaction", cleared=1, at=2), lambda _: "x")
    assert picture_refs(read) == ["new"]


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (data_of(PNG), "image/png"),
        (data_of(b"\xff\xd8\xff" + b"\0" * 9), "image/jpeg"),
        (data_of(b"GIF89a" + b"\0" * 9), "image/gif"),
        (data_of(b"RIFF\0\0\0\0WEBP"), "image/webp"),
        (data_of(b"no picture"), None),
        (data_of(PNG + b"\0" * 3_800_000), None),
        ({"mime_type": "image/png", "base64": "%%%"}, None),
        ({"mime_type": "image/png"}, None),
        (None, None),
    ],
    ids=range(9),
)
async def test_only_what_providers_take_is_sent(data, media_type):
    """The media type is that of the bytes, whatever the tool says; anything else is not sent, and its result says so."""

    async def read(ref: str) -> Any:
        return data

    with reading_artifacts(read):
        loaded = await load_pictures(["a"], {})
    image = loaded["a"]
    assert (image.media_type if image else None) == media_type
    content = with_pictures("seen", pictured("a"), loaded)
    assert content == (["seen", image] if image else "seen\n[not shown to you: 1 picture]")


async def test_a_picture_is_read_once():
    """What is known is not read again, and without a reader nothing is."""
    image = BinaryImage(PNG, media_type="image/png")
    assert await load_pictures(["a", "b"], {"a": image}) == {"a": image, "b": None}
