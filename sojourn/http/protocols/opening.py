"""Opening: what a request of a protocol is about, and the turn that it begins, or goes on with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sojourn.client.run import Run
from sojourn.contracts.event import MessageReceivedEvent
from sojourn.contracts.message import DocumentPart, Message
from sojourn.contracts.principal import Principal
from sojourn.http.locks.principals import require
from sojourn.http.problems import Problem
from sojourn.http.protocols.attention import attend
from sojourn.http.protocols.settle import Answer, settle
from sojourn.http.protocols.turn import Begin, Turn
from sojourn.http.protocols.waits import open_waits
from sojourn.http.sent_before import Delivered, is_same, require_same
from sojourn.http.service import Service

__all__ = ["Result", "Sent", "begin"]


@dataclass(frozen=True, slots=True)
class Sent:
    """A message of a user in a request."""

    id: str
    message: Message
    context: Sequence[DocumentPart] | None = None
    """What the page says beside it, perhaps other things when the message is sent again; None where the protocol has no such thing."""

    @property
    def whole(self) -> Message:
        """The message with what is beside it."""
        return self.message.model_copy(update={"parts": [*self.message.parts, *(self.context or ())]})

    def is_same(self, event: Delivered, message: Message) -> bool:
        """Whether what was delivered under its id is this message, whatever was beside it."""
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


async def begin(
    service: Service,
    asking: Principal,
    agent_id: str,
    session_id: str,
    *,
    sent: Sequence[Sent],
    answers: Sequence[Answer] = (),
    results: Sequence[Result] = (),
    seen: Sequence[str] = (),
) -> Turn:
    """Send the messages, each once by its id; give the answers; and return the turn that the client is to read.

    Args:
        service: The service.
        asking: Who asks.
        agent_id: The agent.
        session_id: The conversation.
        sent: The newest messages of the user, in order; the turn is that of the last one.
        answers: The answers to what the conversation waits for.
        results: The results that the client has seen last, or made itself: those of calls outside are given to the run.
        seen: Ids of waits whose answers the client has seen.

    Raises:
        Problem: There is no such agent, a role is missing, or there is neither a message nor an answer.
        SojournError: A message or an answer is not accepted.
    """
    service.agent(agent_id)
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
        await attend(service.client, session.run)
        for each in sent:
            turn = await session.send(each.whole, message_id=each.id, by=asking.subject)
            await require_same(session.run, turn.accepted, each.message, each.is_same)
            after, message_id, is_new = turn.after, None if turn.is_answer else each.id, not turn.is_repeated
    run = session.run
    given = [*answers, *(await _from_outside(run, results) if results else ())]
    had = {*seen, *(each.id for each in answers), *(f"#{each.tool_call_id}" for each in results)}
    if is_new and had:  # the answers that were given before the message are not among what follows it
        had &= {each.id for each in open_waits(await run.status())}
    settled = await settle(service, asking, run, given)
    return Turn(service.hub, run, Begin(after, message_id, frozenset(had)), settled)


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
