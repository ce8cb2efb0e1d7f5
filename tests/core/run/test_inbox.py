"""The messages that wait for a conversation: how many there is room for, and which open a turn together."""

import pytest

from sojourn import Message, Principal
from sojourn.core.run.inbox import MAX_WAITING, MAX_WAITING_BYTES, Inbox, SentMessage

ANA, BEN = (Principal(subject=name, roles=["user"]) for name in ("ana", "ben"))


def sent(mode: str = "queue", *, size: int = 0, principal: Principal | None = None) -> SentMessage:
    return SentMessage("", Message.user("hi"), mode, size=size, principal=principal)  # type: ignore[arg-type] - a mode


def filled(*messages: SentMessage) -> Inbox:
    inbox = Inbox()
    for message in messages:
        inbox, _ = inbox.accepted(message, "0-000001-00000")
    return inbox


@pytest.mark.parametrize(
    ("waiting", "size", "is_full"),
    [
        ([0] * (MAX_WAITING - 1), 0, False),
        ([0] * MAX_WAITING, 0, True),
        ([MAX_WAITING_BYTES - 10], 10, False),
        ([MAX_WAITING_BYTES - 10], 11, True),
        ([MAX_WAITING_BYTES // 2] * 2, 1, True),
    ],
    ids=["room for one", "too many", "as large as allowed", "too large", "together too large"],
)
def test_messages_wait_up_to_a_number_and_a_size(waiting: list[int], size: int, is_full: bool) -> None:
    """A conversation goes on in a new execution with all that wait, so their number and their size together are bounded."""
    assert filled(*(sent(size=each) for each in waiting)).is_full(size) is is_full


@pytest.mark.parametrize(
    ("messages", "opening"),
    [
        ([("queue", ANA), ("queue", ANA)], 1),
        ([("interrupt", ANA), ("interrupt", ANA), ("queue", ANA)], 2),
        ([("interrupt", ANA), ("interrupt", BEN)], 1),
        ([("interrupt", None), ("interrupt", ANA)], 1),
        ([("queue", BEN), ("interrupt", ANA), ("interrupt", ANA)], 2),
    ],
    ids=["one at a time", "interruptions", "of two people", "of nobody", "before the others"],
)
def test_what_opens_a_turn_is_of_one_sender(
    messages: list[tuple[str, Principal | None]], opening: int
) -> None:
    """The first message opens a turn; messages that interrupt open one together, but never those of two people: a turn acts for one."""
    inbox = filled(*(sent(mode, principal=principal) for mode, principal in messages))
    rest, opened = inbox.opening()
    assert len(opened) == opening
    assert len({each.principal and each.principal.subject for each in opened}) == 1
    assert (*opened, *rest.waiting) == inbox.waiting
