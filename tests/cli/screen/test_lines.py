"""Messages as lines of text."""

from sojourn import Message
from sojourn.cli.screen.lines import MessageLines
from sojourn.contracts.message import CompactionPart, TextPart


def compacted(**fields) -> Message:
    return Message(
        role="assistant",
        parts=[CompactionPart(type="compaction", **fields), TextPart(type="text", text="ok")],
    )


def test_a_summary_is_shown_once():
    """A later compaction that keeps the summary says only which results it leaves out."""
    lines = MessageLines()
    first = lines.of(compacted(summary="They agreed.", until=8, at=12))
    assert first == ["(summary, in place of the first 8 messages)", "They agreed.", "ok"]
    later = lines.of(compacted(summary="They agreed.", until=8, cleared=20, at=24))
    assert later == ["(results in the first 20 messages are no longer read by the model)", "ok"]
    assert lines.of(compacted(summary="They differ.", until=20, at=30))[1] == "They differ."


def test_a_summary_above_the_first_line_counts_as_shown():
    """With `--last N` the messages before are not printed."""
    before = compacted(summary="They agreed.", until=8, at=12)
    lines = MessageLines([before]).of(compacted(summary="They agreed.", until=8, cleared=20, at=24))
    assert "They agreed." not in lines
