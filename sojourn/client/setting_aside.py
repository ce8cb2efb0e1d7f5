"""Setting aside: which message of a run's transcript is meant, by its number, its id, or the id of a call."""

from collections.abc import AsyncIterator, Callable, Sequence

from sojourn.client.sending import Fields
from sojourn.contracts.event import Event, MessageReceivedEvent
from sojourn.contracts.message import Message
from sojourn.errors import InvalidInput

__all__ = ["target_of"]

MAX_QUOTED = 200
"""Most characters of an id in an error."""


async def target_of(
    run_id: str, messages: Sequence[Message], events: Callable[[], AsyncIterator[Event]], what: int | str
) -> Fields:
    """Return what the update `set_aside` takes to name a message or a result.

    Args:
        run_id: The run.
        messages: Its transcript.
        events: Its events so far, which have the ids of messages.
        what: The number of a message, the id of a call, or the id of a message.

    Raises:
        InvalidInput: The transcript has no such message or result.
    """
    if isinstance(what, int):
        if 0 <= what < len(messages):
            return {"message": what}
        raise InvalidInput(
            f"{run_id}: the transcript has no message {what}; it has {len(messages)}, from 0 on",
            run_id=run_id,
        )
    if (place := _place_of_call(messages, what)) is not None:
        return {"message": place, "tool_call_id": what}
    received = [
        (event.message_id, event.message)
        async for event in events()
        if isinstance(event, MessageReceivedEvent)
    ]
    if (place := _place_of_message(messages, received, what)) is not None:
        return {"message": place}
    raise InvalidInput(
        f"{run_id}: the transcript has neither a result of a call {what[:MAX_QUOTED]!r} nor a message with that id; give the "
        "number of a message, from 0 on, the id of a call that has a result, or the id of a message that was sent",
        run_id=run_id,
    )


def _place_of_call(messages: Sequence[Message], call_id: str) -> int | None:
    for index in range(len(messages) - 1, -1, -1):
        if any(result.tool_call_id == call_id for result in messages[index].tool_results):
            return index
    return None


def _place_of_message(
    messages: Sequence[Message], received: Sequence[tuple[str, Message]], message_id: str
) -> int | None:
    """Return the index of a message that a conversation has accepted.

    A transcript has no ids of messages. Of equal messages, the last one that was accepted is the last one there, and so on.
    """
    message = next((each for id, each in received if id == message_id), None)
    if message is None:
        return None
    places = [index for index, each in enumerate(messages) if each == message]
    equal = [id for id, each in received if each == message]
    behind = len(equal) - equal.index(message_id)
    return places[-behind] if behind <= len(places) else None
