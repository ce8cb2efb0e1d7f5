"""Talking: what a person says next, delivered once: as the answer to what was asked, or as a message."""

import asyncio
import hashlib
import uuid
from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial

from sojourn.client.run import Run
from sojourn.contracts.awaits import AwaitConfirmation, AwaitExternalTools
from sojourn.contracts.event import (
    AwaitAnsweredEvent,
    Event,
    MessageReceivedEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
)
from sojourn.contracts.message import Message
from sojourn.contracts.principal import Principal
from sojourn.core.run.inbox import Accepted
from sojourn.errors import AwaitClosed, RunAlreadyExists, RunNotFound
from sojourn.http.bodies import StartBody
from sojourn.http.problems import Problem
from sojourn.http.protocols.asked import Asked
from sojourn.http.protocols.attempts import attempted
from sojourn.http.protocols.delivery_log import Delivered, read_delivery_log
from sojourn.http.protocols.reply import Reply, follow, read, recorded
from sojourn.http.protocols.reply_token import ReplyToken
from sojourn.http.protocols.verdict import is_same_answer, verdict_of
from sojourn.http.security.principals import require
from sojourn.http.security.tenancy import chosen_id
from sojourn.http.service import Service

__all__ = [
    "REUSED",
    "Said",
    "answer",
    "ask_once",
    "digest_of",
    "repeated",
    "reply_to",
    "reused",
    "say",
    "say_in_session",
    "stop",
]

REUSED = "idempotency_key_reused"
"""The code of the problem of a request whose id another one had."""

BEGINS = 5.0
"""Seconds in which the turn of a message that is canceled has to begin."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a person says."""

    message: Message
    """The message."""
    message_id: str = ""
    """The id by which a message that is sent again is delivered once; made when left out."""
    is_named: bool = True
    """Whether the sender gave the id. One that is made of the text is that of a repeated message, and not of a repeated answer: who says
    `yes` twice may answer two questions."""

    @property
    def text(self) -> str:
        """Its text, which is what an answer is."""
        return self.message.text

    @property
    def answer_id(self) -> str:
        """The id by which an answer that is sent again is given once; empty where the sender gave none."""
        return self.message_id if self.is_named else ""


async def stop(service: Service, asking: Principal, token: ReplyToken) -> None:
    """End what a reply is made of: the turn of a conversation, or the run, which who has started it may end.

    Raises:
        Problem: The principal may not.
        RunError: The run has ended, or is not there for the principal.
    """
    require(asking, "user")
    run = await service.run(asking, token.run_id)
    if token.message_id:
        turn_id = await _begun(service, token)
        with suppress(AwaitClosed):  # the turn has ended meanwhile
            await run.interrupt("canceled", by=asking.subject, turn_id=turn_id)
        return
    whose = (await run.status()).principal
    if whose is None or whose.subject != asking.subject:
        require(asking, "operator")
    await run.cancel(f"requested by {asking.subject}")


async def _begun(service: Service, token: ReplyToken) -> str:
    """Wait until the turn of a message is under way, and return its id: the present one may be another message's."""
    reply = Reply(token)
    with suppress(TimeoutError):
        async with asyncio.timeout(BEGINS), aclosing(follow(service, reply)) as steps:
            async for _ in steps:
                if reply.is_begun:
                    break
    if not reply.is_begun:
        raise Problem(
            409,
            "not_begun",
            "the message waits for the turns before it",
            then="Cancel it once its turn has begun.",
            run_id=token.run_id,
        )
    return reply.turn_id


def digest_of(*texts: str) -> str:
    """A short digest of texts, for ids."""
    return hashlib.sha256("\0".join(texts).encode(errors="surrogatepass")).hexdigest()[:32]


async def ask_once(
    service: Service, asking: Principal, agent_id: str, messages: Sequence[Message], key: str = ""
) -> ReplyToken:
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
            raise reused(key, run_id) from None
        return ReplyToken(run_id)
    return ReplyToken(run.id)


def reused(key: str, run_id: str) -> Problem:
    """The problem of a request whose id another one had."""
    return Problem(
        409,
        REUSED,
        f"another request had the id {key[:200]!r} before",
        then="Send the same request, or another id.",
        run_id=run_id,
    )


async def say(service: Service, asking: Principal, run_id: str, said: Said) -> ReplyToken:
    """Send a message to a conversation that exists; raises as `Run.send`, and where another message had the id."""
    require(asking, "user")
    run = await service.run(asking, run_id)
    content = {"parts": said.message.model_dump(mode="json", exclude_defaults=True)["parts"]}
    message_id = said.message_id or uuid.uuid4().hex
    accepted = await run.send({"message_id": message_id, **content, "by": asking.subject}, principal=asking)
    return await reply_to(service, run.id, accepted, said)


async def say_in_session(
    service: Service, asking: Principal, agent_id: str, session_id: str, said: Said, *, approves: bool = True
) -> ReplyToken:
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
    settled = partial(_settled_by, service, asking, session.run, said, approves=approves)
    if token := await attempted(settled):
        return token
    turn = await session.send(said.message, message_id=said.message_id or None, by=asking.subject)
    return await reply_to(service, session.run.id, turn.accepted, said)


async def reply_to(service: Service, run_id: str, accepted: Accepted, said: Said) -> ReplyToken:
    """The token of the reply to a message that a conversation has accepted, now or before.

    Raises:
        Problem: The message of this id was another one.
    """
    token = ReplyToken(run_id, accepted.after, accepted.message_id)
    if not accepted.repeated:
        return token
    if accepted.is_answer:
        delivered = (await read_delivery_log(service, run_id)).delivered.get(accepted.message_id)
        return repeated(delivered, said) if delivered else ReplyToken(run_id, accepted.after)
    async with aclosing(recorded(service, token)) as events:
        async for event, _ in events:
            if isinstance(event, MessageReceivedEvent) and event.message_id == token.message_id:
                return repeated(Delivered(token, event), said)
    return token


def repeated(delivered: Delivered, said: Said) -> ReplyToken:
    """The token of the reply to what was delivered before under the id of this message.

    Raises:
        Problem: It was something else.
    """
    event, token = delivered.event, delivered.token
    is_message = isinstance(event, MessageReceivedEvent)
    if not (event.message == said.message if is_message else is_same_answer(event, said.text)):
        raise reused(said.message_id, token.run_id)
    return token


async def _settled_by(
    service: Service, asking: Principal, run: Run, said: Said, *, approves: bool
) -> ReplyToken | None:
    """The token of the reply to an answer, or to a message that was sent before; None where it is a new message."""
    try:
        # Somebody else may have begun the conversation since `Service.session` looked for it.
        status = await (await service.run(asking, run.id)).status()
    except RunNotFound:
        return None
    waits = [status.awaits, *status.child_awaits.values()]
    asks = any(not isinstance(wait, AwaitExternalTools) for each in waits for wait in each)
    verdict = verdict_of(said.text)
    is_answer = asks or bool(verdict.code)
    # The conversation learns of an answer to a child run after the child run has it: until then only the histories have its id.
    may_be_known = (
        bool(said.message_id) and status.status != "idle" and any(call.run_link for call in status.calls)
    )
    if not is_answer and not may_be_known:
        return None
    past = await read_delivery_log(service, run.id)
    if delivered := past.delivered.get(said.message_id):
        return repeated(delivered, said)
    if not is_answer:
        return None
    for asked, then, event in past.decided:
        if asked.code == verdict.code and _is_same(event, asking, said):
            return then
    named = [each for each in past.open if each[1].code == verdict.code]
    for before, asked, then in named if verdict.code and named else past.open:
        is_call = isinstance(asked.wait, AwaitConfirmation)
        if is_call and not (named and verdict.code and (approves or not verdict.is_approved)):
            return before
        await asked.settle(service, asking, said.text, run.id, said.answer_id)
        return then
    return None


async def answer(
    service: Service, asking: Principal, previous: ReplyToken, said: Said, seen: str | None = None
) -> ReplyToken | None:
    """Answer what a reply has asked, once.

    Args:
        service: The service.
        asking: Who answers.
        previous: The reply.
        said: The answer.
        seen: What was shown, where the protocol knows it; what it does not end with is asked again.

    Returns:
        The token of the next reply; None where nothing was asked, or the question has another answer.

    Raises:
        Problem: The principal may not, or the call was decided otherwise.
        RunError: The run does not take the answer, or is not there for the principal.
    """
    await service.run(asking, previous.run_id)
    reply = await read(service, previous)
    asked = reply.asked
    if asked is None:
        return None
    verdict = verdict_of(said.text)
    if (seen is not None and not _ends_with(seen, asked.text)) or (
        asked.code and verdict.code not in ("", asked.code)
    ):
        return previous
    then = ReplyToken(previous.run_id, reply.end)
    closed = await attempted(partial(_closed_or_settled, service, asking, then, asked, said))
    if closed is None or (isinstance(closed, AwaitAnsweredEvent) and _is_same(closed, asking, said)):
        return then
    if asked.code and verdict.is_plain:
        raise Problem(
            409,
            "await_closed",
            "the call was decided otherwise before, or its turn has ended",
            then="Look at the conversation, and say what is to be done now.",
            run_id=asked.run_id,
        )
    return None


def _ends_with(text: str, end: str) -> bool:
    """Whether a text ends with another, whatever white space a client has changed."""
    return " ".join(text.split()).endswith(" ".join(end.split()))


async def _closed_or_settled(
    service: Service, asking: Principal, then: ReplyToken, asked: Asked, said: Said
) -> Event | None:
    """The event by which what was asked is closed; None where it was open, and is settled now."""
    closed = await _closed_by(service, then, asked)
    if closed is None:
        await asked.settle(service, asking, said.text, then.run_id, said.answer_id)
    return closed


async def _closed_by(service: Service, then: ReplyToken, asked: Asked) -> Event | None:
    """The event by which what was asked is open no more: its answer, or the end of the turn; None while it is open."""
    async with aclosing(recorded(service, then)) as events:
        async for event, _ in events:
            if isinstance(event, AwaitAnsweredEvent) and asked.is_settled_by(event):
                return event
            if isinstance(event, (TurnCompletedEvent, TurnFailedEvent)) and event.run_id == then.run_id:
                return event
    return None


def _is_same(event: AwaitAnsweredEvent, asking: Principal, said: Said) -> bool:
    """Whether an answer is this one, sent before."""
    if said.answer_id and event.message_id == said.answer_id:
        return True
    return is_same_answer(event, said.text) and event.by == asking.subject
