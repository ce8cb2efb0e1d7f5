"""`{scheduled_at}` in the messages of a schedule."""

import pytest

from sojourn.contracts.message import Message
from sojourn.contracts.run import RunInput
from sojourn.core.run.scheduled_time import fill_message, fill_opening, format_fault, has_scheduled_time

DUE = "daily-2026-03-02T17:30:00Z"


@pytest.mark.parametrize(
    ("text", "zone", "filled"),
    [
        ("{scheduled_at}", "UTC", "2026-03-02T17:30:00+00:00"),
        ("at {scheduled_at}.", "Europe/Berlin", "at 2026-03-02T18:30:00+01:00."),
        ("{scheduled_at:%d %B %Y, %H:%M}", "Asia/Tokyo", "03 March 2026, 02:30"),
        ("{scheduled_at:}", "UTC", "2026-03-02T17:30:00+00:00"),
        ("{{scheduled_at}} {{scheduled_at:%d}}", "UTC", "{scheduled_at} {scheduled_at:%d}"),
        (
            '{"a": {"b": 1}} {name} {{x}} {scheduled_at_all}',
            "UTC",
            '{"a": {"b": 1}} {name} {{x}} {scheduled_at_all}',
        ),
        ("{scheduled_at}", "Mars/Olympus", "2026-03-02T17:30:00+00:00"),
    ],
)
def test_the_time_is_written_in_the_zone_of_the_schedule(text, zone, filled):
    """The placeholder becomes the due time; doubled braces lose one pair, and other braces stay."""
    assert fill_message(Message.user(text), zone, DUE).text == filled


def test_an_opening_is_filled_in_once():
    """A filled-in opening is read again without a change, and one of another start stays as it is."""
    run = RunInput(
        agent_id="a.b", messages=[Message.user("{{scheduled_at}} {scheduled_at:%Y}")], time_zone="UTC"
    )
    filled = fill_opening(run, DUE)
    assert filled.messages[0].text == "{scheduled_at} 2026"
    assert fill_opening(filled, DUE) == filled
    by_hand = run.model_copy(update={"time_zone": None})
    assert fill_opening(by_hand, DUE) is by_hand
    assert fill_opening(run, "started-by-hand").messages == run.messages


def test_a_placeholder_is_found_and_its_format_checked():
    """A text without the placeholder is none of its business; a format has a longest length."""
    assert has_scheduled_time([Message.user("{scheduled_at:%d}")])
    assert has_scheduled_time([Message.user("{{scheduled_at}}")])
    assert not has_scheduled_time([Message.user("scheduled_at {scheduled}")])
    assert format_fault([Message.user("{scheduled_at:%d}")]) is None
    assert format_fault([Message.user("{scheduled_at:%-d. %B, %H:%M %% %Z}")]) is None
    for text in ("%100000d", "%d %", "%5Y", "%é"):
        assert "follows each %" in format_fault([Message.user(f"{{scheduled_at:{text}}}")])
    assert "at most 100" in format_fault([Message.user("{scheduled_at:" + "%d" * 51 + "}")])
