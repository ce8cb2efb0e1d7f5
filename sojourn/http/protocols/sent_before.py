"""Sent before: what a conversation was given under the id of a message, so that another text under that id gets no old answer."""

from collections.abc import Callable
from contextlib import aclosing

from sojourn.contracts.event import AwaitAnsweredEvent, MessageReceivedEvent
from sojourn.contracts.message import Message
from sojourn.core.run.inbox import Accepted
from sojourn.http.problems import Problem
from sojourn.http.protocols.following import recorded
from sojourn.http.protocols.past import Delivered, past_of
from sojourn.http.protocols.place import Place
from sojourn.http.protocols.verdict import is_same_answer
from sojourn.http.service import Service

__all__ = ["delivered_before", "is_same", "require_same"]


async def delivered_before(service: Service, run_id: str, accepted: Accepted) -> Delivered | None:
    """What a conversation had accepted under the id of a message that was sent again; None where no history has it any more.

    Raises:
        RunNotFound: There is no such run.
        SojournError: The events cannot be read.
    """
    if accepted.is_answer:
        return (await past_of(service, run_id)).delivered.get(accepted.message_id)
    place = Place(run_id, accepted.after, accepted.message_id)
    async with aclosing(recorded(service, place)) as events:
        async for event, _ in events:
            if isinstance(event, MessageReceivedEvent) and event.message_id == place.message_id:
                return Delivered(place, event)
    return None


def is_same(event: MessageReceivedEvent | AwaitAnsweredEvent, message: Message) -> bool:
    """Whether what was delivered is this message; of an answer its text counts."""
    if isinstance(event, MessageReceivedEvent):
        return event.message == message
    return is_same_answer(event, message.text)


async def require_same(
    service: Service,
    run_id: str,
    accepted: Accepted,
    message: Message,
    is_same: Callable[[MessageReceivedEvent | AwaitAnsweredEvent, Message], bool] = is_same,
) -> None:
    """Check that a message that was sent again is the one that the conversation has.

    Args:
        service: The service.
        run_id: The conversation's run.
        accepted: What the conversation said of the message.
        message: The message.
        is_same: Tells whether two are the same.

    Raises:
        Problem: It is another one under the same id (409).
        SojournError: The events cannot be read.
    """
    if not accepted.repeated:
        return
    delivered = await delivered_before(service, run_id, accepted)
    if delivered is not None and not is_same(delivered.event, message):
        raise Problem(
            409,
            "message_edited",
            f"the message {accepted.message_id!r} was sent before with other words, which the conversation has",
            then="Send the new words as a message with an id of its own. A conversation has no branches; POST /v1/runs/{run_id}/fork "
            "starts another one that goes on from an earlier point.",
            run_id=run_id,
        )
