"""Talking: what a person says next, delivered once: as the answer to what was asked, or as a message."""

import asyncio
import hashlib
import uuid
from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

from sojourn.client.run import Run
from sojourn.contracts.awaits import AwaitConfirmation, AwaitExternalTools
from sojourn.contracts.event import (
    AwaitAnsweredEvent,
    AwaitClarificationEvent,
    AwaitConfirmationEvent,
    MessageReceivedEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
)
from sojourn.contracts.message import Message
from sojourn.contracts.principal import Principal
from sojourn.errors import AwaitClosed, RunAlreadyExists, RunNotFound
from sojourn.http.bodies import StartBody
from sojourn.http.locks.principals import require
from sojourn.http.locks.tenancy import chosen_id
from sojourn.http.problems import Problem
from sojourn.http.protocols.asked import Asked
from sojourn.http.protocols.following import follow, read, recorded
from sojourn.http.protocols.place import Place
from sojourn.http.protocols.reading import Reading
from sojourn.http.protocols.verdict import verdict_of
from sojourn.http.service import Service

__all__ = ["Said", "answer", "ask_once", "digest_of", "say", "say_in_session", "stop"]

BEGINS = 5.0
"""Seconds in which the turn of a message that is canceled has to begin."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a person says."""

    message: Message
    """The message."""
    message_id: str = ""
    """The id by which a message that is sent again is delivered once; made when left out."""

    @property
    def text(self) -> str:
        """Its text, which is what an answer is."""
        return self.message.text


async def stop(service: Service, asking: Principal, place: Place) -> None:
    """End what a reply is made of: the turn of a conversation, or the run, which who has started it may end.

    Raises:
        Problem: The principal may not.
        RunError: The run has ended, or is not there for the principal.
    """
    require(asking, "user")
    run = await service.run(asking, place.run_id)
    if place.message_id:
        turn_id = await _begun(service, place)
        with suppress(AwaitClosed):  # the turn has ended meanwhile
            await run.interrupt("canceled", by=asking.subject, turn_id=turn_id)
        return
    whose = (await run.status()).principal
    if whose is None or whose.subject != asking.subject:
        require(asking, "operator")
    await run.cancel(f"requested by {asking.subject}")


async def _begun(service: Service, place: Place) -> str:
    """Wait until the turn of a message is under way, and return its id: the present one may be another message's."""
    reading = Reading(place)
    with suppress(TimeoutError):
        async with asyncio.timeout(BEGINS), aclosing(follow(service, reading)) as steps:
            async for _ in steps:
                if reading.is_begun:
                    break
    if not reading.is_begun:
        raise Problem(
            409,
            "not_begun",
            "the message waits for the turns before it",
            then="Cancel it once its turn has begun.",
            run_id=place.run_id,
        )
    return reading.turn_id


def digest_of(*texts: str) -> str:
    """A short digest of texts, for ids."""
    return hashlib.sha256("\0".join(texts).encode(errors="surrogatepass")).hexdigest()[:32]


async def ask_once(
    service: Service, asking: Principal, agent_id: str, messages: Sequence[Message], key: str = ""
) -> Place:
    """Start a run for one request, with all its messages; with a key, the same request is the same run.

    Raises:
        Problem: The principal may not, or has sent another request with this key.
        RunError: As `Client.start`.
    """
    require(asking, "user")
    opening = [message.model_dump(mode="json", exclude_defaults=True) for message in messages]
    body = StartBody.model_validate({"agent_id": agent_id, "input": opening})
    run_id = chosen_id(asking, f"once-{digest_of(asking.subject, key)}") if key else None
    try:
        run = await service.start(asking, body, run_id)
    except RunAlreadyExists:
        if run_id is None:
            raise
        if not await service.has_started(asking, run_id, body):
            raise _reused(key, run_id) from None
        return Place(run_id)
    return Place(run.id)


def _reused(key: str, run_id: str) -> Problem:
    return Problem(
        409,
        "idempotency_key_reused",
        f"another request had the id {key[:200]!r} before",
        then="Send the same request, or another id.",
        run_id=run_id,
    )


async def say(service: Service, asking: Principal, run_id: str, said: Said) -> Place:
    """Send a message to a conversation that exists; raises as `Run.send`, and where another message had the id."""
    require(asking, "user")
    run = await service.run(asking, run_id)
    content = {"parts": said.message.model_dump(mode="json", exclude_defaults=True)["parts"]}
    message_id = said.message_id or uuid.uuid4().hex
    accepted = await run.send({"message_id": message_id, **content, "by": asking.subject})
    place = Place(run.id, accepted.after, accepted.message_id)
    return await _repeated(service, place, said) if accepted.repeated else place


async def say_in_session(
    service: Service, asking: Principal, agent_id: str, session_id: str, said: Said, *, approves: bool = True
) -> Place:
    """Send a message to a conversation, which it starts where there is none; where exactly that is asked, it answers a question.

    A call to approve is decided by an answer that has its code. Whoever gives none may not have seen it: the reply is then what is asked.

    Args:
        service: The service.
        asking: Who says it.
        agent_id: The agent.
        session_id: The conversation.
        said: What is said.
        approves: Whether the text may approve a call, since a person has written it.

    Raises:
        Problem: The principal may not, or has sent another message with this id.
        RunError: As `Session.send`.
    """
    require(asking, "user")
    session = await service.session(asking, agent_id, session_id)
    if place := await _settled_by(service, asking, session.run, said, approves=approves):
        return place
    turn = await session.send(said.message, message_id=said.message_id or None, by=asking.subject)
    place = Place(session.run.id, turn.after, turn.message_id)
    return await _repeated(service, place, said) if turn.is_repeated else place


async def _repeated(service: Service, place: Place, said: Said) -> Place:
    """The place of the reply to a message whose id the conversation knows.

    Raises:
        Problem: The message of this id was another one.
    """
    async with aclosing(recorded(service, place)) as events:
        async for event, _ in events:
            if isinstance(event, MessageReceivedEvent) and event.message_id == place.message_id:
                if event.message != said.message:
                    raise _reused(place.message_id, place.run_id)
                break
    return place


async def _settled_by(
    service: Service, asking: Principal, run: Run, said: Said, *, approves: bool
) -> Place | None:
    """The place of the reply to an answer, or to a message that was sent before; None where it is a new message."""
    try:
        status = await run.status()
    except RunNotFound:
        return None
    waits = [status.awaits, *status.child_awaits.values()]
    asks = any(not isinstance(wait, AwaitExternalTools) for each in waits for wait in each)
    verdict = verdict_of(said.text)
    if not asks and not verdict.code:
        return None
    past = await _past_of(service, run.id)
    if said.message_id in past.messages:
        return await _repeated(service, Place(run.id, past.messages[said.message_id], said.message_id), said)
    for asked, after, event in past.decided:
        if asked.code == verdict.code and _is_same(event, asked, asking, said.text):
            return Place(run.id, after)
    named = [each for each in past.open if each[1].code == verdict.code]
    for before, asked, after in named if verdict.code and named else past.open:
        is_call = isinstance(asked.wait, AwaitConfirmation)
        if is_call and not (named and verdict.code and (approves or not verdict.is_approved)):
            return Place(run.id, before)
        await asked.settle(service, asking, said.text)
        return Place(run.id, after)
    return None


async def answer(
    service: Service, asking: Principal, previous: Place, text: str, seen: str | None = None
) -> Place | None:
    """Answer what a reply has asked, once.

    Args:
        service: The service.
        asking: Who answers.
        previous: The reply.
        text: The answer.
        seen: What was shown, where the protocol knows it; what was not shown is asked again.

    Returns:
        The place of the next reply; None where nothing was asked, or it is settled otherwise.

    Raises:
        Problem: The principal may not.
        RunError: The run does not take the answer, or is not there for the principal.
    """
    await service.run(asking, previous.run_id)
    reading = await read(service, previous)
    asked = reading.asked
    if asked is None:
        return None
    verdict = verdict_of(text)
    if (seen is not None and asked.text not in seen) or (asked.code and verdict.code not in ("", asked.code)):
        return previous
    then = Place(previous.run_id, reading.end)
    async with aclosing(recorded(service, then)) as events:
        async for event, _ in events:
            if isinstance(event, AwaitAnsweredEvent) and asked.is_settled_by(event):
                return then if _is_same(event, asked, asking, text) else None
            if isinstance(event, (TurnCompletedEvent, TurnFailedEvent)) and event.run_id == then.run_id:
                return None
    try:
        await asked.settle(service, asking, text)
    except AwaitClosed:
        return None
    return then


def _is_same(event: AwaitAnsweredEvent, asked: Asked, asking: Principal, text: str) -> bool:
    """Whether an answer is this one, sent before."""
    is_decision = isinstance(asked.wait, AwaitConfirmation)
    same = event.approved == verdict_of(text).is_approved if is_decision else event.text == text
    return same and event.by == asking.subject


@dataclass
class _Past:
    """What a conversation has had."""

    messages: dict[str, str] = field(default_factory=dict[str, str])
    """By message_id, the cursor after which its events come."""
    open: list[tuple[str, Asked, str]] = field(default_factory=list[tuple[str, Asked, str]])
    """What is asked, with the cursors before and after the question."""
    decided: list[tuple[Asked, str, AwaitAnsweredEvent]] = field(
        default_factory=list[tuple[Asked, str, AwaitAnsweredEvent]]
    )
    """The calls that were decided, with the cursor after the question, and the decision."""


async def _past_of(service: Service, run_id: str) -> _Past:
    past, after = _Past(), ""
    async with aclosing(recorded(service, Place(run_id))) as events:
        async for event, cursor in events:
            before, after = after, cursor
            if isinstance(event, MessageReceivedEvent):
                past.messages[event.message_id] = before
            elif isinstance(event, AwaitClarificationEvent):
                past.open.append((before, Asked(event.run_id, event.question), after))
            elif isinstance(event, AwaitConfirmationEvent):
                past.open.append((before, Asked(event.run_id, event.confirmation), after))
            elif isinstance(event, AwaitAnsweredEvent):
                settled = [each for each in past.open if each[1].is_settled_by(event)]
                past.decided += [(asked, at, event) for _, asked, at in settled if asked.code]
                past.open = [each for each in past.open if each not in settled]
            elif event.type in ("turn_completed", "turn_failed"):
                past.open = [each for each in past.open if not _is_below(each[1].run_id, event.run_id)]
    return past


def _is_below(run_id: str, top: str) -> bool:
    return run_id == top or run_id.startswith(f"{top}/")
