"""Where a transcript may be cut, so that a summary stands for what is before."""

import pytest

from sojourn import Message, ToolRequest, ToolResult
from sojourn.models.compactor import _cut


def calls(*ids: str) -> Message:
    return Message.calls([ToolRequest(name="a.b.c", tool_call_id=each) for each in ids])


def results(*ids: str) -> Message:
    return Message.results([ToolResult(name="a.b.c", tool_call_id=each, result=1) for each in ids])


ASKED, SAID = Message.user("go"), Message.assistant("wait")


@pytest.mark.parametrize(
    ("transcript", "cuts"),
    [
        ([ASKED, calls("1"), results("1"), calls("2"), results("2"), SAID], {1, 3, 5}),
        ([ASKED, calls("1", "2"), results("1"), SAID, results("2"), SAID], {1, 5}),
        ([ASKED, calls("1"), SAID, calls("2"), results("2", "1"), SAID], {1, 5}),
        ([ASKED, SAID, results("none"), SAID], {1, 3}),
        ([ASKED, ASKED], set()),
    ],
    ids=["in turn", "a late result", "results together", "a result without a call", "nothing said"],
)
def test_a_call_is_never_parted_from_its_result(transcript: list[Message], cuts: set[int]) -> None:
    """What remains begins with a message of the model, and has no result whose call is cut off: a provider would refuse it."""
    sizes = [10] * len(transcript)
    found = {_cut(transcript, sizes, 0, room) for room in range(0, 10 * len(transcript) + 1, 10)}
    assert found == (cuts or {0})


def test_as_little_is_cut_as_makes_the_rest_fit() -> None:
    """The first place is taken after which the rest fits; else the last place there is."""
    transcript = [ASKED, calls("1"), results("1"), calls("2"), results("2"), SAID]
    assert [_cut(transcript, [10] * 6, 0, room) for room in (50, 49, 30, 29, 10, 0)] == [1, 3, 3, 5, 5, 5]
    assert _cut(transcript, [10] * 6, 3, 29) == 5
