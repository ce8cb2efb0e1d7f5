"""Which message is the one that was delivered."""

from datetime import UTC, datetime
from typing import Any

from sojourn.contracts.event import AwaitAnsweredEvent, MessageReceivedEvent
from sojourn.contracts.message import DocumentPart, Message
from sojourn.http.answering import is_same_message


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
