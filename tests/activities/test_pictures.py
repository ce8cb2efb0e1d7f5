"""Pictures: a worker keeps those of the calls that it executed, and reads none of another run."""

from activities.transcripts import Pictures
from sojourn import ToolResult
from sojourn.contracts import Artifact


def pictured(size: int) -> ToolResult:
    picture = Artifact(kind="image", media_type="image/png", size=size, data={"n": size})
    return ToolResult(artifacts=[picture, Artifact(kind="curve", size=1, data=[1])])


async def test_a_picture_of_a_call_is_kept_within_bounds():
    """The oldest go first; one that is larger than all may be is not kept; other artifacts are not pictures."""
    pictures = Pictures(max_bytes=100)
    for call_id, size in (("c1", 60), ("c2", 30), ("c3", 40), ("c4", 101)):
        pictures.keep("r", call_id, pictured(size))
    assert list(pictures._kept) == ["r#c2/image", "r#c3/image"]
    assert await pictures.read("r#c2/image", {"r"}, lambda: None) == {"n": 30}


async def test_a_picture_of_another_run_is_not_read():
    """A client may send messages with any references; only those of the run itself, and of its fork's origin, are followed."""
    pictures = Pictures()
    pictures.keep("secret", "c1", pictured(10))
    assert await pictures.read("secret#c1/image", {"mine", ""}, lambda: None) is None
    assert await pictures.read("secret#c1/image", {"mine", "secret"}, lambda: None) == {"n": 10}
