"""Wait for a message's answer, or until its conversation itself needs one.

Whichever comes first ends the wait.
"""

import asyncio
from contextlib import aclosing, suppress

from sojourn.client.session import SessionTurn
from sojourn.contracts.run import RunOutput, RunStatus
from sojourn.errors import SojournError
from sojourn.events import Cursor
from sojourn.http.problems import Problem
from sojourn.http.request_scope import RequestScope
from sojourn.http.service import Service

__all__ = ["settled"]

QUIET = 0.1
"""Seconds without an event after which to check whether the conversation waits for an answer."""


async def settled(attending: RequestScope, turn: SessionTurn, seconds: float) -> RunOutput | RunStatus:
    """Wait for the answer of the turn that takes a message.

    Args:
        attending: The request that waits.
        turn: The message.
        seconds: The longest time to wait.

    Returns:
        The answer. Otherwise the status of the conversation, once it or a child run has an open wait, the time is
        over, or this process shuts down.

    Raises:
        RunFailed: The turn has no answer.
        ServerUnavailable: The server did not answer for a minute.
        Problem: The principal has too many streams and waiting requests, or has lost access.
    """
    try:
        return await attending.wait(_first(attending.service, turn), seconds)
    except TimeoutError:
        return await turn.run.status()


async def _first(service: Service, turn: SessionTurn) -> RunOutput | RunStatus:
    answer = asyncio.ensure_future(turn.result())
    question = asyncio.ensure_future(_asked(service, turn))
    try:
        await asyncio.wait({answer, question}, return_when=asyncio.FIRST_COMPLETED)
        status = None if answer.done() else question.result()
        return status or await answer
    finally:
        for each in (answer, question):
            each.cancel()
        await asyncio.gather(answer, question, return_exceptions=True)


async def _asked(service: Service, turn: SessionTurn) -> RunStatus | None:
    """Return the conversation's status once it has an open wait.

    The wait may be of this turn, or of one that the message has to wait for. Returns None once this
    process can no longer follow the conversation.
    """
    cursor, looks = Cursor(turn.run.id, turn.after), True
    with (
        suppress(Problem, SojournError),
        service.feeds.subscribe(turn.run.id, cursor, children=True) as events,
    ):
        async with aclosing(events.batches(QUIET)) as batches:
            async for batch in batches:
                if batch:
                    looks = True
                elif looks:
                    looks = False
                    status = await turn.run.status()
                    if _waits(status):
                        return status
    return None


def _waits(status: RunStatus) -> bool:
    """Return whether the conversation waits for an answer.

    While the planner plans, it may have read the messages that close its questions.
    """
    return bool(status.awaits or status.child_awaits) and status.phase not in ("planning", "finalizing")
