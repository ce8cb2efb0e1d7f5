"""Submit an answer on behalf of a request.

The wait must be one of a run that the principal may see, or of a call that it may decide on. A message that
is sent again must be the same, or the new text would get the old answer.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Any

from sojourn.answers import (
    Answered,
    Decision,
    DecisionResult,
    GivenAnswer,
    WaitRef,
    WaitView,
    audit_facts,
    check_earlier,
    check_may_answer,
    is_same_answer,
    parse_answer,
    read_verdict,
    send_each,
    status_once_judged,
    submit,
    wait_view,
)
from sojourn.attachments import comparable
from sojourn.client.client import Client
from sojourn.client.run import Run
from sojourn.client.session import Session, SessionTurn
from sojourn.contracts.event import ApprovalGivenEvent, AwaitAnsweredEvent
from sojourn.contracts.message import DocumentPart, Message
from sojourn.contracts.principal import Principal
from sojourn.contracts.run import RunOutput, RunStatus
from sojourn.errors import InvalidInput, SojournError
from sojourn.events import Cursor
from sojourn.events.one_run import branches_in_history
from sojourn.http.problems import Problem, problem_of
from sojourn.http.security.audit import bind, bind_answer, note_repetition
from sojourn.http.security.limits import heavy_read
from sojourn.http.security.principals import has_role
from sojourn.http.service import Service
from sojourn.reader import read_branch
from sojourn.timeline import Delivery, Timeline, TimelineTree, UserTurn, WaitEnd

__all__ = [
    "MESSAGE_EDITED",
    "accept_repetition",
    "answer_or_question",
    "decide_each",
    "edit_message",
    "is_same_message",
    "needs_answer",
    "read_branches",
    "read_present_branch",
    "require_same",
    "submit_answer",
    "switch_branch",
    "withdraw_message",
]

MESSAGE_EDITED = "message_edited"
"""Problem code of a message that was sent before under its id, with other words."""


def needs_answer(status: RunStatus) -> bool:
    """Return whether a run or a child run of it waits for an answer.

    While the planner plans, it may have read the messages that close its questions, and while it answers a message, the run does more
    than wait.
    """
    is_planning = status.phase in ("planning", "finalizing") or bool(status.answering)
    return bool(status.awaits or status.child_awaits) and not is_planning


QUIET = 0.1
"""Seconds without an event after which to check whether the run waits for an answer."""


async def answer_or_question(
    service: Service, run: Run, answer: Callable[[], Coroutine[Any, Any, RunOutput]], *, after: str = ""
) -> RunOutput | RunStatus:
    """Wait for an answer of a run, or until the run or a child run needs one itself.

    Args:
        service: The service, whose feeds follow the run.
        run: The run.
        answer: Waits for the answer: of the run, or of one of its turns.
        after: The event after which the run is followed.

    Returns:
        The answer, or the status with the open waits.
    """
    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(answer())]
    try:
        await asyncio.wait(tasks, timeout=QUIET)  # an answer that is there needs no feed
        if not tasks[0].done():
            tasks.append(asyncio.create_task(_wait_for_question(service, run, after)))
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        status = None if tasks[0].done() else await tasks[1]
        return status or await tasks[0]
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _wait_for_question(service: Service, run: Run, after: str) -> RunStatus | None:
    """Return the run's status once it has an open wait.

    Returns None once this process can no longer follow the run.
    """
    looks = True
    with (
        suppress(Problem, SojournError),
        service.feeds.subscribe(run.id, Cursor(run.id, after), children=True) as events,
    ):
        async with aclosing(events.batches(QUIET)) as batches:
            async for batch in batches:
                if batch:
                    looks = True
                elif looks:
                    looks = False
                    status = await status_once_judged(run)
                    if needs_answer(status):
                        return status
    return None


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
    recent = service.feeds.recent(run.id)
    done = await submit(
        run, asking, wait, answer, message_id=message_id, conversation=conversation, recent=recent
    )
    if done.already:
        note_repetition(wait.run_id, wait.await_id, done.by)
    return done


def accept_repetition(asking: Principal, end: WaitEnd, answer: GivenAnswer) -> Answered:
    """Accept an answer that a closed wait has already, with a line in the audit log.

    Errors are those of `sojourn.answers.check_earlier`.
    """
    assert end.wait is not None
    bind_answer(**audit_facts(wait_view(end.wait, end.event.run_id), answer))
    done = check_earlier(end, asking, answer)
    note_repetition(done.run_id, done.await_id, done.by)
    return done


async def decide_each(
    service: Service, asking: Principal, decisions: Sequence[tuple[WaitRef, Decision]]
) -> list[DecisionResult]:
    """Decide on several calls as `submit_answer` does, and return what came of each.

    The line in the audit log names the refused ones with their codes.
    """
    send = partial(submit_answer, service, asking)
    results = await send_each(decisions, send, refusals=(SojournError, Problem))
    refused = [
        {"run_id": each.run_id, "await_id": each.await_id, "code": problem_of(each.error).code}
        for each in results
        if each.error
    ]
    if refused:
        bind(refused=refused)
    return results


async def withdraw_message(run: Run, asking: Principal, message_id: str) -> None:
    """Withdraw a message of the principal's, or any message if it is an operator."""
    is_operator = has_role(asking, "operator")
    await run.withdraw(message_id, by=asking.subject, principal=asking, as_operator=is_operator)


async def read_branches(session: Session) -> Timeline:
    """Return a conversation with the turns of all its branches.

    Its whole history is read, so this is a heavy read.
    """
    async with heavy_read():
        return await session.timeline()


async def read_present_branch(
    client: Client, run_id: str, before: str = ""
) -> tuple[Timeline, list[UserTurn]] | None:
    """Return a conversation with the turns of its present branch.

    With `before` these are the ones before an event. None if it has one branch only.
    """
    if not await branches_in_history(client.temporal, run_id):
        return None
    async with heavy_read():
        return await read_branch(client, run_id, before)


async def edit_message(
    session: Session,
    asking: Principal,
    message_id: str,
    message: str | Message | None = None,
    *,
    attachments: Sequence[str] = (),
    branches: int | None = None,
    keep_files: bool = False,
) -> SessionTurn:
    """Edit a message, as `Session.edit`."""
    async with heavy_read():
        return await session.edit(
            message_id,
            message,
            by=asking.subject,
            attachments=attachments,
            branches=branches,
            keep_files=keep_files,
        )


async def switch_branch(session: Session, at: str, branches: int | None = None) -> None:
    """Go on in another branch, as `Session.switch`."""
    async with heavy_read():
        await session.switch(at, branches=branches)


def is_same_message(delivery: Delivery, message: Message, *, may_have_context: bool = False) -> bool:
    """Return whether a message is the one that was delivered.

    A decision on a call is compared by its verdict, another answer as its wait reads the text. With
    `may_have_context`, documents that the page adds to the message may differ.
    """
    event, opened = delivery.event, delivery.opened
    if isinstance(event, ApprovalGivenEvent):
        return read_verdict(message.text).is_approved
    if isinstance(event, AwaitAnsweredEvent):
        if event.approved is not None:
            return event.approved == read_verdict(message.text).is_approved
        if opened is None:
            return event.text == message.text
        try:
            answer = parse_answer(wait_view(opened.wait, event.run_id), message.text)
        except InvalidInput:
            return False
        return is_same_answer(WaitEnd(event, opened), answer)
    message, known = comparable(message), comparable(event.message)
    if not may_have_context:
        return known == message
    count = len(message.parts)
    own, rest = known.parts[:count], known.parts[count:]
    return own == message.parts and all(isinstance(each, DocumentPart) for each in rest)


async def require_same(turn: SessionTurn, message: Message, *, may_have_context: bool = False) -> None:
    """Refuse a changed text under a known message id: it would get the old answer.

    `may_have_context` is as for `is_same_message`.
    """
    if not turn.is_repeated:
        return
    delivery = await _find_delivery(turn)
    if delivery is not None and not is_same_message(delivery, message, may_have_context=may_have_context):
        raise Problem(
            409,
            MESSAGE_EDITED,
            f"the message {turn.message_id!r} was sent before with other words, which the conversation has",
            then="Send the new words as a message with an id of its own, or edit the message: POST /v1/sessions/{agent_id}/{session_id}/edit.",
            run_id=turn.run.id,
        )


async def _find_delivery(turn: SessionTurn) -> Delivery | None:
    """Return the delivery under a message's id, or None without its history."""
    after, tree = None if turn.is_answer else turn.after or None, TimelineTree(turn.run.id)
    events = turn.run.events(after=after, follow=False, children=turn.is_answer)
    async with aclosing(events):
        async for event in events:
            tree.feed(event)
            if delivery := tree.delivered.get(turn.message_id):
                return delivery
    return None
