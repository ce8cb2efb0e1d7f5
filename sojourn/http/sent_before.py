"""Refuse a changed text under a message id that a conversation already has.

Otherwise the new text would get the old answer.
"""

from collections.abc import Callable
from contextlib import aclosing

from sojourn.client.run import Run
from sojourn.contracts.event import AwaitAnsweredEvent, MessageReceivedEvent
from sojourn.contracts.message import Accepted, Message
from sojourn.http.problems import Problem

__all__ = ["Delivered", "is_same", "require_same"]

Delivered = MessageReceivedEvent | AwaitAnsweredEvent
"""Event of what a conversation accepted under a message id: the message, or the answer that it gave."""


def is_same(delivered: Delivered, message: Message) -> bool:
    """Check whether a message is the one that was delivered.

    For an answer to a question, this compares the text.
    """
    if isinstance(delivered, MessageReceivedEvent):
        return delivered.message == message
    return delivered.approved is not None or delivered.text == message.text


async def require_same(
    run: Run,
    accepted: Accepted,
    message: Message,
    is_same: Callable[[Delivered, Message], bool] = is_same,
) -> None:
    """Check that a message that was sent again is the one that the conversation has.

    Args:
        run: The conversation's run.
        accepted: What the conversation said of the message.
        message: The message.
        is_same: Tells whether two are the same.

    Raises:
        Problem: It is another one under the same id (409).
        SojournError: The events cannot be read.
    """
    if not accepted.repeated:
        return
    delivered = await _delivered(run, accepted)
    if delivered is not None and not is_same(delivered, message):
        raise Problem(
            409,
            "message_edited",
            f"the message {accepted.message_id!r} was sent before with other words, which the conversation has",
            then="Send the new words as a message with an id of its own. A conversation has no branches; POST /v1/runs/{run_id}/fork "
            "starts another one that goes on from an earlier point.",
            run_id=run.id,
        )


async def _delivered(run: Run, accepted: Accepted) -> Delivered | None:
    """Return the delivery under the message's id, or None.

    The histories may no longer have it.
    """
    after = None if accepted.is_answer else accepted.after or None
    events = run.events(after=after, follow=False, children=accepted.is_answer)
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Delivered) and event.message_id == accepted.message_id:
                return event
    return None
