"""Read a person's text as an answer, and submit it on behalf of a request.

The wait must be one of a run that the principal may see, or of a call that it may decide on. A message that
is sent again must be the same, or the new text would get the old answer.
"""

import re
from contextlib import aclosing
from dataclasses import dataclass

from sojourn.answers import (
    Answer,
    Answered,
    Decision,
    GivenAnswer,
    WaitRef,
    WaitView,
    audit_facts,
    check_may_answer,
    submit,
)
from sojourn.client.run import Run
from sojourn.client.session import SessionTurn
from sojourn.contracts.event import AwaitAnsweredEvent, MessageReceivedEvent
from sojourn.contracts.message import DocumentPart, Message
from sojourn.contracts.principal import Principal
from sojourn.errors import StaleDigest
from sojourn.http.problems import Problem
from sojourn.http.security.audit import bind_answer
from sojourn.http.service import Service

__all__ = [
    "MESSAGE_EDITED",
    "Delivered",
    "Verdict",
    "is_same_message",
    "read_answer",
    "read_verdict",
    "require_same",
    "submit_answer",
]

MESSAGE_EDITED = "message_edited"
"""Problem code of a message that was sent before under its id, with other words."""

Delivered = MessageReceivedEvent | AwaitAnsweredEvent
"""Event of what a conversation accepted under a message id: the message, or the answer that it gave."""

YES = frozenset({"yes", "y", "approve", "approved", "ok", "okay"})
"""Words of an approval, in any case. Only the code, and perhaps a full stop, may stand beside one."""

NO = frozenset({"no", "n", "deny", "denied"})
"""Words of a denial."""

_NAMED = re.compile(r"[\s`'\"]*(\w+)[\s,:`'\"]+([0-9a-f]{12})\b[\s.,:;!`'\"]*(.*)", re.DOTALL | re.IGNORECASE)


async def submit_answer(
    service: Service,
    asking: Principal,
    wait: WaitView | WaitRef,
    answer: GivenAnswer,
    *,
    message_id: str = "",
    conversation: Run | None = None,
) -> Answered:
    """Answer a wait that the principal may see, with a line in the audit log.

    Arguments and errors are those of `sojourn.answers.submit`.
    """
    bind_answer(**audit_facts(wait, answer))
    if isinstance(answer, Decision):  # a decider may see the call of a run that it may not see
        run = await service.run_with_wait(asking, wait.run_id, wait.await_id)
    else:
        check_may_answer(asking, wait, answer)
        run = await service.run(asking, wait.run_id)
    return await submit(run, asking, wait, answer, message_id=message_id, conversation=conversation)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a text on a call."""

    is_approved: bool
    """Whether the call may run."""
    reason: str = ""
    """The reason of a denial."""
    code: str = ""
    """Code of the call that the text names, or empty."""
    is_plain: bool = True
    """Whether the text begins with a word of approval or denial.

    A text without one denies, and may be about something else.
    """


def read_verdict(text: str) -> Verdict:
    """Parse a text as the verdict on a call.

    Everything but an approval denies, since these are a person's words, not a button.
    """
    if found := _NAMED.fullmatch(text):
        word, code, rest = found[1].casefold(), found[2].casefold(), found[3].strip()
        if word in YES:
            return Verdict(not rest, reason=rest and text, code=code)
        if word in NO:
            return Verdict(is_approved=False, reason=rest, code=code)
    plain = _plain(text)
    if plain in YES:
        return Verdict(is_approved=True)
    is_plain = _plain(text.partition(" ")[0].rstrip(",:;")) in NO
    return Verdict(is_approved=False, reason="" if plain in NO else text, is_plain=is_plain)


def _plain(text: str) -> str:
    return text.strip().rstrip(".!").strip("`'\"").casefold()


def read_answer(view: WaitView, text: str) -> GivenAnswer:
    """Read a text as the answer to a wait, or raise `StaleDigest` for another call."""
    if view.call is None:
        return Answer(text)
    verdict, code = read_verdict(text), view.ref.code
    if verdict.code not in ("", code):
        message = f"the answer names another call than the one that waits: answer yes {code}, or no {code}, once it was seen"
        raise StaleDigest(message, run_id=view.run_id, await_id=view.await_id, digest=view.digest or "")
    return Decision(verdict.is_approved, view.digest, "" if verdict.is_approved else verdict.reason)


def is_same_message(delivered: Delivered, message: Message, *, may_have_context: bool = False) -> bool:
    """Return whether a message is the one that was delivered.

    A decision on a call is compared by its verdict, an answer to a question by its text. With `may_have_context`,
    documents that the page adds to the message may differ.
    """
    if isinstance(delivered, AwaitAnsweredEvent):
        if delivered.approved is None:
            return delivered.text == message.text
        return delivered.approved == read_verdict(message.text).is_approved
    if not may_have_context:
        return delivered.message == message
    count = len(message.parts)
    own, rest = delivered.message.parts[:count], delivered.message.parts[count:]
    return own == message.parts and all(isinstance(each, DocumentPart) for each in rest)


async def require_same(turn: SessionTurn, message: Message, *, may_have_context: bool = False) -> None:
    """Refuse a changed text under a known message id: it would get the old answer.

    `may_have_context` is as for `is_same_message`.
    """
    if not turn.is_repeated:
        return
    delivered = await _delivered(turn)
    if delivered is not None and not is_same_message(delivered, message, may_have_context=may_have_context):
        raise Problem(
            409,
            MESSAGE_EDITED,
            f"the message {turn.message_id!r} was sent before with other words, which the conversation has",
            then="Send the new words as a message with an id of its own. A conversation has no branches; POST /v1/runs/{run_id}/fork "
            "starts another one that goes on from an earlier point.",
            run_id=turn.run.id,
        )


async def _delivered(turn: SessionTurn) -> Delivered | None:
    """Return the delivery under a message's id, or None without its history."""
    after = None if turn.is_answer else turn.after or None
    events = turn.run.events(after=after, follow=False, children=turn.is_answer)
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Delivered) and event.message_id == turn.message_id:
                return event
    return None
