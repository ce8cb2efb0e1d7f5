"""A cursor is one text, and a text from a stranger is checked."""

import pytest

from sojourn import Client, InvalidInput
from sojourn.core.run.ids import child_run_id, is_below
from sojourn.events import Cursor, TextDeltaEvent
from sojourn.events.cursor import MAX_OPEN, position_of


def test_another_text_is_refused(subtests: pytest.Subtests) -> None:
    """What is no cursor, or too long for one, raises InvalidInput before anything is read."""
    rows = [
        "x",
        ";",
        "0-000012-00000\n",
        "0-000012-00000;/c1",
        "0-000012-00000;/c1=x",
        "0-000012-00000;=0-000012-00000",
        "0-000012-00000 ;/c1=",
        "0-000012-00000" + ";/c1=" * (MAX_OPEN + 1),
        "0-000012-00000;" + "x" * 300_000,
        "0-000012-00000;/c\u20ac=",
        "0-000012-00000;/c\x01=",
        '0-000012-00000;/c\ndata: {"type":"run_completed"}\n\n=',
        "0-000012-00000;/c 1=",
        "0-000012-00000;/" + "c" * 1_001 + "=",
        "0-000012-00000;s/c1=0-000001-00000",
        "0-000012-00000;r2/c1=0-000001-00000",
        "9" * 5_000 + "-000012-00000",
        "0-" + "9" * 5_000 + "-00000;",
    ]
    for after in rows:
        with subtests.test(str(after)):
            with pytest.raises(ValueError, match=r"event_id|cursor|no child run"):
                Cursor("r", after)
            with pytest.raises(InvalidInput, match=r"event_id|cursor|no child run"):
                Client.get_run(object.__new__(Client), "r").events(after=after)


def test_a_text_is_read_back():
    """The text of a cursor gives the same cursor, with the ids of child runs in full."""
    text = "0-000012-00000;/c1=0-000003-00001;/c1/m2=;r~1a2b/c9=0-000001-00000"
    assert str(Cursor("r", text)) == text
    assert position_of("r", text).after == {
        "r": "0-000012-00000",
        "r/c1": "0-000003-00001",
        "r/c1/m2": "",
        "r~1a2b/c9": "0-000001-00000",
    }


def test_live_events_move_nothing():
    """An event without an event_id leaves a cursor where it is."""
    cursor = Cursor("r", "0-000012-00000;")
    delta = TextDeltaEvent.model_construct(run_id="r", event_id="", type="text_delta", text="a")
    assert cursor.add(delta) == "0-000012-00000;"


def test_every_child_run_is_one(subtests: pytest.Subtests) -> None:
    """However deep and long, with hashed ids too, the id that a child run gets is taken back from a cursor; its sign is that of its run."""
    run_ids = ["r", "ü", "r" * 150, "acme=" + "o" * 100, "shop.clerk:acme@desk-1"]
    all_calls = [["c1"], ["c" * 64, "d" * 64, "e" * 64], ["c" * 64] * 8]
    for calls in all_calls:
        for run_id in run_ids:
            with subtests.test(str((run_id, calls))):
                child = run_id
                for call in calls:
                    child = child_run_id(child, call)
                assert is_below(child, run_id)
                if run_id.isascii():
                    entry = child.removeprefix(run_id) if child.startswith(f"{run_id}/") else child
                    text = f"0-000012-00000;{entry}=0-000001-00000"
                    assert str(Cursor(run_id, text)) == text
