"""The messages that wait for a conversation: how many there is room for, and which open a turn together."""

import pytest

from sojourn import Message, Principal
from sojourn.core.awaits.envelope import Rejection
from sojourn.core.run.inbox import (
    MAX_WAITING,
    MAX_WAITING_BYTES,
    MAX_WITHDRAWN,
    NOT_SENDER,
    Inbox,
    SentMessage,
    Withdrawal,
    read_withdraw,
)

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


def two_messages() -> Inbox:
    """An inbox with `m1` of Ana, and `m2` of whoever began the conversation."""
    inbox = Inbox()
    for message_id, principal in (("m1", ANA), ("m2", None)):
        message = SentMessage(message_id, Message.user("hi"), principal=principal)
        inbox, _ = inbox.accepted(message, "0-000001-00000")
    return inbox


def test_a_withdrawn_message_is_known_and_waits_no_more():
    """Sent again under its id it is a repetition, and withdrawn again it changes nothing."""
    inbox = two_messages()
    after = inbox.withdrawing("m1")
    assert [each.message_id for each in after.waiting] == ["m2"]
    assert after.where("m1") == inbox.where("m1")
    assert after.withdrawal_fault(Withdrawal("m1"), None) is None
    assert after.withdrawing("m1") is after
    assert after.withdrawing("m2").waiting == ()


def test_the_list_of_withdrawn_messages_is_bounded():
    """A conversation goes on in a new execution with all of them."""
    inbox = Inbox()
    for number in range(MAX_WITHDRAWN + 1):
        inbox, sent_message = inbox.accepted(SentMessage(f"m{number}", Message.user("hi")), "0-000001-00000")
        inbox = inbox.withdrawing(sent_message.message_id)
    assert len(inbox.withdrawn) == MAX_WITHDRAWN


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (Withdrawal("m1"), None),
        (Withdrawal("m1", principal=ANA), None),
        (Withdrawal("m1", principal=BEN), NOT_SENDER),
        (Withdrawal("m1", principal=BEN, as_operator=True), None),
        (Withdrawal("m2", principal=BEN), None),
        (Withdrawal("m2", principal=ANA), NOT_SENDER),
        (Withdrawal("m3"), "InvalidAnswer"),
        (Withdrawal("taken"), "AwaitClosed"),
        (Withdrawal("answer"), "AwaitClosed"),
    ],
    ids=[
        "a program",
        "its sender",
        "another person",
        "an operator",
        "the starter",
        "not the starter",
        "unknown",
        "taken",
        "an answer",
    ],
)
def test_a_message_is_withdrawn_by_its_sender_while_it_waits(request_: Withdrawal, kind: str | None):
    """Or by an operator; a message without a sender is that of who began the conversation."""
    inbox, _ = two_messages().accepted(SentMessage("taken", Message.user("hi")), "0-000001-00000")
    inbox = inbox.taking(["taken"])[0].answered("answer", "0-000002-00000")
    fault = inbox.withdrawal_fault(request_, BEN)
    assert (fault and fault.kind) == kind


@pytest.mark.parametrize(
    "values",
    [
        [],
        [{}],
        [{"message_id": ""}],
        [{"message_id": "x" * 201}],
        [{"message_id": "m", "by": 1}],
        [{"message_id": "m", "as_operator": "yes"}],
        [{"message_id": "m", "principal": {"subject": 1}}],
        [{"message_id": "m", "text": "x"}],
        [7],
    ],
)
def test_a_withdrawal_that_cannot_be_read_is_refused(values: list[object]):
    """A field that is misspelt, or of another type, is no reason to guess."""
    assert isinstance(read_withdraw(values), Rejection)


def test_a_withdrawal_is_an_object_or_an_id():
    """Temporal's own tools send the id alone."""
    assert read_withdraw(["m"]) == Withdrawal("m")
    given = {"message_id": "m", "by": "ana", "as_operator": True, "principal": {"subject": "ana"}}
    assert read_withdraw([given]) == Withdrawal("m", "ana", Principal(subject="ana"), as_operator=True)
