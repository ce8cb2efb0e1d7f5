"""What a text says about a call, and which message is the one that was delivered."""

from datetime import UTC, datetime
from typing import Any

from sojourn.contracts.event import AwaitAnsweredEvent, MessageReceivedEvent
from sojourn.contracts.message import DocumentPart, Message
from sojourn.http.answering import Verdict, is_same_message, read_verdict

CODE = "d4fb1ce2a342"


def test_only_a_whole_approval_approves() -> None:
    """A word of approval with nothing but a code approves; all else denies, with the code and the reason that it has."""
    rows = [
        ("yes", Verdict(is_approved=True)),
        (" Okay. ", Verdict(is_approved=True)),
        (f"`yes {CODE}`.", Verdict(is_approved=True, code=CODE)),
        (f"Approve: {CODE.upper()}", Verdict(is_approved=True, code=CODE)),
        ("no", Verdict(is_approved=False)),
        ("No, not that", Verdict(is_approved=False, reason="No, not that")),
        (f"no {CODE}, not that", Verdict(is_approved=False, reason="not that", code=CODE)),
        ("what is it?", Verdict(is_approved=False, reason="what is it?", is_plain=False)),
        ("yes, but later", Verdict(is_approved=False, reason="yes, but later", is_plain=False)),
        ("nothing of yes", Verdict(is_approved=False, reason="nothing of yes", is_plain=False)),
        (
            f"yes {CODE}, but later",
            Verdict(is_approved=False, reason=f"yes {CODE}, but later", code=CODE),
        ),
        (f"{CODE}", Verdict(is_approved=False, reason=CODE, is_plain=False)),
        (f"yes {CODE}0", Verdict(is_approved=False, reason=f"yes {CODE}0", is_plain=False)),
    ]
    assert [(text, found) for text, verdict in rows if (found := read_verdict(text)) != verdict] == []


def test_a_message_that_is_sent_again_is_the_one_that_was_delivered() -> None:
    """A message has the same parts, but for what a page adds; an answer the same text, and a decision the same verdict."""
    page = DocumentPart(type="document", media_type="text/plain", data="eA==")
    said = Message.user("which?")
    more = said.model_copy(update={"parts": [*said.parts, page]})
    common: dict[str, Any] = {"run_id": "r", "time": datetime.now(UTC), "event_id": "0-000001-00000"}
    delivered = MessageReceivedEvent(**common, message_id="m", message=more)
    assert [is_same_message(delivered, each) for each in (more, said)] == [True, False]
    assert is_same_message(delivered, said, may_have_context=True)
    assert not is_same_message(delivered, Message.user("who?"), may_have_context=True)
    answer = AwaitAnsweredEvent(**common, await_id="w", text="left")
    decision = AwaitAnsweredEvent(**common, await_id="w", approved=True)
    assert [is_same_message(answer, Message.user(text)) for text in ("left", "right")] == [True, False]
    assert [is_same_message(decision, Message.user(text)) for text in ("yes", "later")] == [True, False]
