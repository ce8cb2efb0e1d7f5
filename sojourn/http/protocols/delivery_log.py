"""DeliveryLog: what a conversation was told, what it has asked, and how that was settled, from its events and those of its child runs."""

from contextlib import aclosing
from dataclasses import dataclass, field

from sojourn.contracts.event import (
    AwaitAnsweredEvent,
    AwaitClarificationEvent,
    AwaitConfirmationEvent,
    MessageReceivedEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
)
from sojourn.http.protocols.asked import Asked
from sojourn.http.protocols.reply import FREE, recorded
from sojourn.http.protocols.reply_token import ReplyToken
from sojourn.http.security.limits import heavy_read
from sojourn.http.service import Service

__all__ = ["Delivered", "DeliveryLog", "read_delivery_log"]


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message, or an answer that had the id of one."""

    token: ReplyToken
    """The token of the reply."""
    event: MessageReceivedEvent | AwaitAnsweredEvent
    """What was said."""


@dataclass
class DeliveryLog:
    """What a conversation has had."""

    delivered: dict[str, "Delivered"] = field(default_factory=dict[str, "Delivered"])
    """By message_id, what was delivered under it."""
    open: list[tuple[ReplyToken, Asked, ReplyToken]] = field(
        default_factory=list[tuple[ReplyToken, Asked, ReplyToken]]
    )
    """What is asked, with the places before and after the question."""
    decided: list[tuple[Asked, ReplyToken, AwaitAnsweredEvent]] = field(
        default_factory=list[tuple[Asked, ReplyToken, AwaitAnsweredEvent]]
    )
    """The calls that were decided, with the token after the question, and the decision."""


async def read_delivery_log(service: Service, run_id: str) -> DeliveryLog:
    """Read the past of a conversation.

    Raises:
        RunNotFound: There is no such run.
        SojournError: The events cannot be read.
    """
    past, after = DeliveryLog(), ReplyToken(run_id)
    async with heavy_read(begins_free=True) as take_turn, aclosing(recorded(service, after)) as events:
        count = 0
        async for event, cursor in events:
            if (count := count + 1) == FREE:
                await take_turn()
            before, after = after, ReplyToken(run_id, cursor)
            if isinstance(event, MessageReceivedEvent) and event.run_id == run_id:
                token = ReplyToken(run_id, before.after, event.message_id)
                past.delivered[event.message_id] = Delivered(token, event)
            elif isinstance(event, AwaitClarificationEvent):
                past.open.append((before, Asked(event.run_id, event.question), after))
            elif isinstance(event, AwaitConfirmationEvent):
                past.open.append((before, Asked(event.run_id, event.confirmation), after))
            elif isinstance(event, AwaitAnsweredEvent):
                _settle(past, event)
            elif isinstance(event, (TurnCompletedEvent, TurnFailedEvent)):
                past.open = [each for each in past.open if not _is_below(each[1].run_id, event.run_id)]
    return past


def _settle(past: DeliveryLog, event: AwaitAnsweredEvent) -> None:
    settled = [each for each in past.open if each[1].is_settled_by(event)]
    for _, asked, then in settled:
        if event.message_id:
            past.delivered.setdefault(event.message_id, Delivered(then, event))
        if asked.code:
            past.decided.append((asked, then, event))
    past.open = [each for each in past.open if each not in settled]


def _is_below(run_id: str, top: str) -> bool:
    return run_id == top or run_id.startswith(f"{top}/")
