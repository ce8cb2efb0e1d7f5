"""What a conversation's timeline and notes tell of a request."""

from datetime import UTC, datetime

import pytest

from sojourn import Message, events
from sojourn.client.session import last_message, new_refusal
from sojourn.core.run.branches import branch_fault
from sojourn.timeline import Timeline


@pytest.mark.parametrize(
    ("steps", "last"),
    [
        ("", None),
        ("ana:m1", "m1"),
        ("ana:m1 turn", "m1"),
        ("ana:m1 turn end", "m1"),
        ("ana:m1 turn end ana:m2", "m2"),
        (":m1 turn", "m1"),
        ("ana:m1 turn ana:m2", None),
        ("ana:m1 turn end ana:m2 ana:m3", None),
        ("bo:m1 turn", None),
        ("ana:m1 turn ana:m2 steer", None),
        ("ana:m1 turn ana:m2 steer aside", None),
        ("ana:m1 turn ana:m2 steer aside end", None),
        ("ana:m1 turn end bo:m2", None),
    ],
)
def test_the_last_message_is_ones_own_and_none_waits_beside_it(steps: str, last: str | None) -> None:
    """Where it is not clear which message is meant, or somebody else's is the last one, there is none."""
    timeline, opened = Timeline("r", is_conversation=True), list[str]()

    def feed(kind, number: int, **fields) -> None:
        place = {"run_id": "r", "event_id": f"0-{number:06}-00000", "turn_id": "t1"}
        timeline.feed(kind(**place, time=datetime(2024, 1, 1, tzinfo=UTC), **fields))

    feed(events.RunStartedEvent, 1)
    for number, step in enumerate(steps.split(), 2):
        if step == "turn":
            feed(events.TurnStartedEvent, number, message_ids=opened[-1:])
        elif step == "steer":
            feed(events.TurnSteeredEvent, number, message_ids=opened[-1:])
        elif step == "aside":
            feed(events.InterimAnswerEvent, number, message_id=opened[-1], message=Message.assistant("yes"))
        elif step == "end":
            feed(events.TurnFailedEvent, number, error={"message": "x"}, message_ids=opened[-1:])
        else:
            by, _, message_id = step.partition(":")
            opened.append(message_id)
            feed(
                events.MessageReceivedEvent,
                number,
                message_id=message_id,
                message=Message.user("hi"),
                by=by or None,
            )
    assert last_message(timeline, "ana") == last


def test_a_refusal_is_noticed_among_the_last_20_notes():
    """A new one has perhaps the words of one before, and an older one may be gone since."""
    no, others = branch_fault(), [f"note {number}" for number in range(19)]
    for known, added, is_new in [
        ([], [no], True),
        ([no], [], False),
        ([no], ["a note"], False),
        ([no], [no], True),
        ([no, *others], [no], True),
        ([no, *others], ["a note", no, "another"], True),
        ([*others, no], [no], True),
        ([no, *others], ["a note"], False),
    ]:
        assert bool(new_refusal(known, [*known, *added][-20:])) is is_new, (known, added)
