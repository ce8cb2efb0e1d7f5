"""Open the turn that a request of a user interface asks for, or join it."""

import asyncio
from collections.abc import Hashable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import Header

from sojourn.client.client import Client
from sojourn.client.run import Run
from sojourn.contracts.event import MessageReceivedEvent
from sojourn.contracts.message import DocumentPart, Message
from sojourn.contracts.principal import Principal
from sojourn.errors import SojournError
from sojourn.http.problems import Problem
from sojourn.http.protocols.settle import Answer, settle
from sojourn.http.protocols.streamed import Left
from sojourn.http.protocols.turn import Begin, Turn
from sojourn.http.protocols.waits import open_waits
from sojourn.http.security.principals import require
from sojourn.http.sent_before import Delivered, is_same, require_same
from sojourn.http.service import Service
from sojourn.live.transport import topic_of

__all__ = ["OnDisconnect", "Result", "Sent", "TurnRequest", "begin", "interrupting", "subscribe_early"]

LONGEST = 30.0
"""Seconds; by then the follower of the run, which gets the present draft from its beginning, listens by itself."""

OnDisconnect = Annotated[
    Literal["interrupt"] | None,
    Header(
        alias="Sojourn-On-Disconnect",
        description="`interrupt` ends the turn where the client leaves the stream before its end; else the turn goes on.",
    ),
]


@dataclass(frozen=True, slots=True)
class Sent:
    """A message of a user in a request."""

    id: str
    message: Message
    context: Sequence[DocumentPart] | None = None
    """What the page says beside it, perhaps other things when the message is sent again; None if the protocol has no such thing."""

    @property
    def whole(self) -> Message:
        """The message with its context."""
        return self.message.model_copy(update={"parts": [*self.message.parts, *(self.context or ())]})

    def is_same(self, event: Delivered, message: Message) -> bool:
        """Whether what was delivered under its id is this message, whatever its context was."""
        if isinstance(event, MessageReceivedEvent) and self.context is not None:
            own, rest = event.message.parts[: len(message.parts)], event.message.parts[len(message.parts) :]
            return own == message.parts and all(isinstance(each, DocumentPart) for each in rest)
        return is_same(event, message)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a call in a request."""

    tool_call_id: str
    payload: Any = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What a request of a user interface asks for. Each protocol reads its own body into one."""

    sent: Sequence[Sent] = ()
    """The newest messages of the user, in order; the turn is that of the last one."""
    answers: Sequence[Answer] = ()
    """Answers to what the conversation waits for."""
    results: Sequence[Result] = ()
    """Results that the client has seen last, or made itself: those of external calls go to the run."""
    seen: Sequence[str] = ()
    """Ids of waits whose answers the client has seen."""


async def begin(
    service: Service,
    asking: Principal,
    agent_id: str,
    session_id: str,
    request: TurnRequest,
) -> Turn:
    """Send the messages, each once by its id, and the answers; return the turn that the client is to read.

    Raises:
        Problem: There is no such agent, a role is missing, or the request has neither a message nor an answer.
        SojournError: A message or an answer is not accepted.
    """
    service.agent(agent_id)
    sent, answers, results = request.sent, request.answers, request.results
    if answers:
        run = await service.conversation(asking, agent_id, session_id)
        answers = await _without_old(run, answers)
    elif sent:
        require(asking, "user")
    else:
        raise Problem(
            422,
            "invalid_request",
            "the request has no message of a user and no answer",
            then="Send the conversation's messages, of which the last one is the user's.",
        )
    session = await service.session(asking, agent_id, session_id)
    after, message_id, is_new = "", None, False
    if sent and "user" in asking.roles:
        await subscribe_early(service.client, session.run)
        for each in sent:
            turn = await session.send(each.whole, message_id=each.id, by=asking.subject)
            await require_same(session.run, turn.accepted, each.message, each.is_same)
            after, message_id, is_new = turn.after, None if turn.is_answer else each.id, not turn.is_repeated
    run = session.run
    given = [*answers, *(await _from_outside(run, results) if results else ())]
    had = {*request.seen, *(each.id for each in answers), *(f"#{each.tool_call_id}" for each in results)}
    if is_new and had:  # the answers that were given before the message are not among what follows it
        had &= {each.id for each in open_waits(await run.status())}
    settled = await settle(service, asking, run, given)
    return Turn(service.feeds, run, Begin(after, message_id, frozenset(had)), settled)


async def _without_old(run: Run, answers: Sequence[Answer]) -> Sequence[Answer]:
    """The answers less those of earlier messages whose waits are open no more."""
    if not any(each.is_old for each in answers):
        return answers
    still = {each.id for each in open_waits(await run.status())}
    return [each for each in answers if each.id in still or not each.is_old]


async def _from_outside(run: Run, results: Sequence[Result]) -> list[Answer]:
    """The answers that results are: those of calls outside that are open."""
    known = {each.tool_call_id: each for each in results}
    return [
        Answer(wait.id, payload=result.payload, error=result.error)
        for wait in open_waits(await run.status())
        if wait.call and (result := known.get(wait.call.tool_call_id))
    ]


def interrupting(turn: Turn, asking: Principal) -> Left | None:
    """End the turn that a stream was of; None for a principal that may not.

    A message whose turn has not begun keeps its place.
    """

    async def left() -> None:
        with suppress(SojournError):
            turn_id = turn.turn_id or ("" if turn.message_id else (await turn.run.status()).turn_id)
            if turn_id:
                await turn.run.interrupt("the client left", by=asking.subject, turn_id=turn_id)

    return left if "user" in asking.roles else None


@dataclass(slots=True)
class _Listener:
    """The subscription to the live text of one run, shared by the requests that want it."""

    task: asyncio.Task[None]
    requests: int = 0


_listeners: dict[Hashable, _Listener] = {}
"""By client and run."""


async def subscribe_early(client: Client, run: Run) -> None:
    """Subscribe to the live text of a run until this request ends; the run need not exist yet.

    Workers write no live text without a subscriber, so the first words would be lost.
    """
    key = (id(client), run.id)
    listener = _listeners.get(key)
    if listener is None or listener.task.done():
        topic = topic_of(client.temporal.namespace, run.id)
        task = asyncio.create_task(_listen(client, topic), name=f"early subscription to {run.id}")
        listener = _listeners[key] = _Listener(task)
    listener.requests += 1
    if (request := asyncio.current_task()) is not None:
        request.add_done_callback(lambda _: _leave(key, listener))
    await asyncio.sleep(0)


def _leave(key: Hashable, listener: _Listener) -> None:
    listener.requests -= 1
    if listener.requests:
        return
    listener.task.cancel()
    if _listeners.get(key) is listener:
        del _listeners[key]


async def _listen(client: Client, topic: str) -> None:
    with suppress(Exception):  # a transport that fails loses only what would have been seen live
        async with asyncio.timeout(LONGEST), aclosing(client.live.subscribe(topic)) as news:
            async for _ in news:
                pass
