"""Which message is the one that was delivered."""

from datetime import UTC, datetime
from typing import Any

from sojourn.contracts.awaits import AwaitClarification
from sojourn.contracts.event import AwaitAnsweredEvent, MessageReceivedEvent
from sojourn.contracts.message import DocumentPart, Message
from sojourn.http.answering import is_same_message
from sojourn.timeline import Delivery, OpenWait


def test_a_message_that_is_sent_again_is_the_one_that_was_delivered() -> None:
    """A message has the same parts, but for what a page adds; an answer the same text or values, and a decision the same verdict."""
    page = DocumentPart(type="document", media_type="text/plain", data="eA==")
    said = Message.user("which?")
    more = said.model_copy(update={"parts": [*said.parts, page]})
    common: dict[str, Any] = {"run_id": "r", "time": datetime.now(UTC), "event_id": "0-000001-00000"}
    delivered = Delivery(MessageReceivedEvent(**common, message_id="m", message=more), "", "")
    assert [is_same_message(delivered, each) for each in (more, said)] == [True, False]
    assert is_same_message(delivered, said, may_have_context=True)
    assert not is_same_message(delivered, Message.user("who?"), may_have_context=True)
    question = AwaitClarification(
        id="w", question="Which?", form={"properties": {"side": {"type": "string"}}}
    )
    opened = OpenWait("r", question, common["time"], "0-000000-00000", "", "")
    answer = AwaitAnsweredEvent(**common, await_id="w", text='{"side": "left", "steps": 2}')
    decision = Delivery(AwaitAnsweredEvent(**common, await_id="w", approved=True), "", "")
    texts = ('{"side": "left", "steps": 2}', '{"steps": 2.0, "side": "left"}', "right", " ")
    for known, same in ((opened, [True, True, False, False]), (None, [True, False, False, False])):
        answered = Delivery(answer, "", "", known)
        assert [is_same_message(answered, Message.user(text)) for text in texts] == same
    assert [is_same_message(decision, Message.user(text)) for text in ("yes", "later")] == [True, False]
