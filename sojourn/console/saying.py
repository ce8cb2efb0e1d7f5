"""Send a form as one message of a conversation, idempotently.

A form with another text is another message.
"""

import uuid
from typing import Any

from sojourn.client.session import Session
from sojourn.console.form import Form
from sojourn.console.page import Visit
from sojourn.contracts.message import Message
from sojourn.http.problems import Problem
from sojourn.http.protocols.messages import REUSED, IncomingMessage, token_of_accepted

__all__ = ["message_id_for", "say"]


async def say(
    visit: Visit, session: Session, form: Form, message: str | Message, mode: Any = "queue"
) -> None:
    """Send the message of a form, under the id that the form has.

    Raises:
        Problem: The form was sent before, with another message.
        RunError: As `Session.send`.
    """
    message_id = form.text("message_id")
    turn = await session.send(message, message_id=message_id or None, mode=mode, by=visit.asking.subject)
    sent = IncomingMessage(Message.user(message) if isinstance(message, str) else message, message_id)
    try:
        await token_of_accepted(visit.service, session.run.id, turn.accepted, sent)
    except Problem as problem:
        if problem.code != REUSED:
            raise
        raise Problem(
            409,
            REUSED,
            "this message was sent before with another text; the conversation has that one",
            then="Look at what was sent; if this is to be said too, send it again: it is a message of its own then.",
            run_id=session.run.id,
        ) from None


def message_id_for(form: Form | None, problem: Problem | None) -> str:
    """Return the message id for the next rendering of a form.

    It is the id that the form was sent with, unless another message has it.
    """
    kept = form.text("message_id") if form and not (problem and problem.code == REUSED) else ""
    return kept or uuid.uuid4().hex
