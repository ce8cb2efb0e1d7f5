"""Find the message of a run's transcript that the caller sets aside.

The caller names it by its number, its id, or the id of a call.
"""

from collections.abc import AsyncIterator, Callable, Sequence

from sojourn.client.sending import Fields
from sojourn.contracts.event import Event, MessageReceivedEvent
from sojourn.contracts.message import Message
from sojourn.contracts.run import RunStatus
from sojourn.core.awaits.envelope import write_json
from sojourn.errors import InvalidInput
from sojourn.values.text import plain

__all__ = ["is_plan_under_way", "parse_target", "quote_target", "target_of"]

MAX_QUOTED = 200
"""Most characters of an id in an error."""

_MAX_WORDS = 60


def is_plan_under_way(status: RunStatus) -> bool:
    """Return whether the run is being planned.

    That plan, and its retries, still read a message that the caller sets aside now.
    """
    return status.status == "running" and status.phase in ("planning", "finalizing")


def quote_target(messages: Sequence[Message], target: Fields) -> str:
    """Return the role and the first words of the target, in one printable line."""
    index: int = target["message"]
    message, call_id = messages[index], target.get("tool_call_id")
    results = [each for each in message.tool_results if call_id in (None, each.tool_call_id)]
    if results:
        first = results[0]
        text = first.error.message if first.error else first.result
        said = f"result of {first.name}: {text if isinstance(text, str) else write_json(text)}"
    else:
        calls = ", ".join(call.name for call in message.tool_calls)
        text = " ".join(filter(None, (message.text, calls and f"calls {calls}")))
        said = f"{message.role}: {text or 'no text'}"
    return plain(said, _MAX_WORDS)


def parse_target(text: str) -> int | str:
    """Return the number of a message, or else the text as an id."""
    is_number = text.isascii() and text.isdecimal() and len(text) < 10
    return int(text) if is_number else text


async def target_of(
    run_id: str, messages: Sequence[Message], events: Callable[[], AsyncIterator[Event]], what: int | str
) -> Fields:
    """Return the fields of the update `set_aside` that name a message or a result."""
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
