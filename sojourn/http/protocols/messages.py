"""Deliver a person's message, exactly once.

It becomes the answer to an open wait, a message of a conversation, or a new run.
"""

import asyncio
import hashlib
import uuid
from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from sojourn.answers import (
    WaitView,
    is_same_answer,
    open_waits,
    parse_answer,
    read_verdict,
    wait_view,
)
from sojourn.client.run import Run
from sojourn.contracts.attachment import parse_attachment_path
from sojourn.contracts.event import MessageReceivedEvent
from sojourn.contracts.message import Accepted, DocumentPart, ImagePart, Message, Part
from sojourn.contracts.principal import Principal
from sojourn.errors import AwaitClosed, InvalidInput, RunAlreadyExists, RunNotFound
from sojourn.http.answering import accept_repetition, is_same_message, submit_answer
from sojourn.http.bodies import StartBody
from sojourn.http.problems import Problem
from sojourn.http.protocols.reply import AgentReply, follow, read, read_timeline
from sojourn.http.protocols.reply_token import ReplyToken
from sojourn.http.protocols.waits import chat_prompt
from sojourn.http.security import audit
from sojourn.http.security.file_bodies import received_files
from sojourn.http.security.principals import require
from sojourn.http.security.tenancy import run_id_for
from sojourn.http.service import Service
from sojourn.timeline import Delivery, TimelineTree, WaitEnd

__all__ = [
    "REUSED",
    "BranchPoint",
    "IncomingMessage",
    "answer_reply",
    "deliver",
    "deliver_to_session",
    "digest_of",
    "start_once",
    "stop",
    "token_of_accepted",
    "token_of_delivery",
    "token_of_task",
    "with_files",
]


REUSED = "idempotency_key_reused"
"""Problem code of a request that reuses the id of another request."""

BEGINS = 5.0
"""Seconds in which the turn of a canceled message must start."""

ATTEMPTS = 3
"""Most times that an answer looks for its wait, if others close the waits that it finds."""


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """A message of a person, as a client sent it."""

    message: Message
    message_id: str = ""
    """Idempotency key: a message that is sent again is delivered once. Generated if empty."""
    is_named: bool = True
    """Whether the sender gave the id.

    An id made from the text identifies a repeated message, but not a repeated answer: a person who says `yes` twice
    may answer two questions.
    """
    context: Sequence[DocumentPart] | None = None
    """Documents that the page adds to the message, or None if the protocol has none.

    They may differ when the client sends the message again.
    """

    @property
    def text(self) -> str:
        return self.message.text

    @property
    def answer_id(self) -> str:
        """Idempotency key of an answer, or empty if the sender gave no id."""
        return self.message_id if self.is_named else ""

    @property
    def whole(self) -> Message:
        return self.message.model_copy(update={"parts": [*self.message.parts, *(self.context or ())]})

    def check_same(self, delivery: Delivery, run_id: str) -> None:
        """Raise a problem if the message delivered under its id is another one."""
        if not is_same_message(delivery, self.message, may_have_context=self.context is not None):
            raise reuse_problem(self.message_id, run_id)


def digest_of(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode(errors="surrogatepass")).hexdigest()[:32]


# Files of a message.


async def with_files(service: Service, asking: Principal, message: Message, run_id: str = "") -> Message:
    """Return a message whose files are uploads of the principal.

    They came with the request, or are files of a run that the principal may see, named by their address.

    Raises:
        InvalidInput: A file is refused, or came with another request.
        ArtifactNotFound: An address names no file.
    """
    service.client.attachments.check_count(message)  # before any of them is stored
    if not message.attachments:
        return message
    parts = [await _with_file(service, asking, part, run_id) for part in message.parts]
    return message.model_copy(update={"parts": parts})


async def _with_file(service: Service, asking: Principal, part: Part, run_id: str) -> Part:
    file = part.attachment if isinstance(part, (ImagePart, DocumentPart)) else None
    if file is None or file.claim or not isinstance(part, (ImagePart, DocumentPart)):
        return part
    received, stored = received_files.get(), service.client.attachments
    if received is not None and file.sha256 in received:
        chunks = received.chunks(file.sha256)
    elif part.url and (named := parse_attachment_path(part.url)):
        file, chunks = await service.attachment(asking, *named)
        if named[0] == run_id:
            with suppress(InvalidInput):  # another principal sent it, so this one gets a copy
                own = await stored.bind(file, run_id=run_id, principal=asking)
                return part.model_copy(update={"url": None, "attachment": own})
    else:
        raise InvalidInput("a file of the message has no data: send its data, or its address")
    upload = await stored.store(
        chunks, name=file.name, media_type=file.media_type, principal=asking, tainted=file.tainted
    )
    return part.model_copy(update={"url": None, "attachment": upload.as_record()})


# Start a run, or send a message.


async def start_once(
    service: Service, asking: Principal, agent_id: str, messages: Sequence[Message], key: str = ""
) -> ReplyToken:
    """Start a run with all messages of a request. With a key this is idempotent."""
    require(asking, "user")
    opening = [message.model_dump(mode="json", exclude_defaults=True) for message in map(_bare, messages)]
    body = StartBody.model_validate({"agent_id": agent_id, "input": opening})
    body.input = [await with_files(service, asking, message) for message in messages]
    run_id = run_id_for(asking, f"once-{digest_of(asking.subject, key)}") if key else None
    try:
        run = await service.start(asking, body, run_id)
    except RunAlreadyExists:
        if run_id is None:
            raise
        if not await service.has_started(asking, run_id, body):
            raise reuse_problem(key, run_id) from None
        return ReplyToken(run_id)
    return ReplyToken(run.id)


def _bare(message: Message) -> Message:
    """Return a message without stored files, which no body may have."""
    parts = [part for part in message.parts if getattr(part, "attachment", None) is None]
    return message.model_copy(update={"parts": parts})


class BranchPoint(NamedTuple):
    """A point of a conversation from which a message begins another branch."""

    at: str
    """The event at which a turn ended."""
    branches: int
    """How often the conversation has branched, as the request has seen it."""


async def deliver(
    service: Service,
    asking: Principal,
    run_id: str,
    message: IncomingMessage,
    point: BranchPoint | None = None,
) -> ReplyToken:
    """Send a message to a conversation, which goes on from a point or where it is.

    Raises:
        SessionBusy: The conversation is at work, and is not to go on from a point now.
    """
    require(asking, "user")
    run = await service.run(asking, run_id)
    stored = await with_files(service, asking, message.message, run.id)
    stored = await service.client.with_attachments(stored, run_id=run.id, principal=asking)
    content: dict[str, Any] = {"parts": stored.model_dump(mode="json", exclude_defaults=True)["parts"]}
    message_id = message.message_id or uuid.uuid4().hex
    fields = {"message_id": message_id, **content, "by": asking.subject}
    if point:
        accepted = await run.branch(*point, fields, principal=asking, idle=True)
    else:
        accepted = await run.send(fields, principal=asking)
    return await token_of_accepted(service, run.id, accepted, message)


async def deliver_to_session(
    service: Service,
    asking: Principal,
    agent_id: str,
    session_id: str,
    message: IncomingMessage,
    *,
    approves: bool = True,
    queues: bool = False,
) -> ReplyToken:
    """Send a message to a conversation, or start one with it.

    If a question is open, the message answers it. A call to approve is decided only by an answer that has the
    call's code, and only if `approves`: a person has written it. A person who gives no code may not have seen the
    call, so the reply then displays the call; with `queues`, or if by the call's policy a message is answered or denies it, the
    message goes to the run instead.
    """
    require(asking, "user")
    session = await service.session(asking, agent_id, session_id)
    for attempt in range(ATTEMPTS):
        try:
            token = await _answer_in_session(
                service, asking, session.run, message, approves=approves, queues=queues
            )
        except AwaitClosed:
            if attempt == ATTEMPTS - 1:
                raise
        else:
            if token is not None:
                return token
            break
    stored = await with_files(service, asking, message.message, session.run.id)
    turn = await session.send(stored, message_id=message.message_id or None, by=asking.subject)
    return await token_of_accepted(service, session.run.id, turn.accepted, message)


async def token_of_accepted(
    service: Service, run_id: str, accepted: Accepted, message: IncomingMessage
) -> ReplyToken:
    token = ReplyToken(run_id, accepted.after, "" if accepted.is_answer else accepted.message_id)
    if not accepted.repeated:
        return token
    start = ReplyToken(run_id, "" if accepted.is_answer else accepted.after)
    tree = await read_timeline(service, start, until=accepted.message_id)
    if delivery := tree.delivered.get(accepted.message_id):
        message.check_same(delivery, run_id)
        return token_of_delivery(run_id, delivery) if accepted.is_answer else token
    return token


def token_of_delivery(run_id: str, delivery: Delivery) -> ReplyToken:
    is_message = isinstance(delivery.event, MessageReceivedEvent)
    return ReplyToken(run_id, delivery.before, delivery.event.message_id or "" if is_message else "")


def reuse_problem(key: str, run_id: str) -> Problem:
    return Problem(
        409,
        REUSED,
        f"another request had the id {key[:200]!r} before",
        then="Send the same request, or another id.",
        run_id=run_id,
    )


async def token_of_task(service: Service, asking: Principal, task_id: str) -> ReplyToken:
    token = ReplyToken.parse(task_id)
    if token is None:
        raise RunNotFound(f"there is no task {task_id[:80]!r}: use the id of a task's creation")
    audit.bind(run_id=token.run_id)
    await service.run(asking, token.run_id)
    return token


# Answer an open wait.


async def _answer_in_session(
    service: Service, asking: Principal, run: Run, message: IncomingMessage, *, approves: bool, queues: bool
) -> ReplyToken | None:
    """Return the token of an answer or a repeated message, or None for a new one."""
    try:
        # Another request may have started the conversation since `Service.session` looked for it.
        status = await (await service.run(asking, run.id)).status()
    except RunNotFound:
        return None
    code = read_verdict(message.text).code
    is_answer = bool(code) or any(view.is_for_people for view in open_waits(status))
    # An answer to a child run reaches the conversation later. Until then only the histories have its id.
    may_be_known = (
        bool(message.message_id) and status.status != "idle" and any(call.run_link for call in status.calls)
    )
    if not is_answer and not may_be_known:
        return None
    tree = await read_timeline(service, ReplyToken(run.id))
    if delivery := tree.delivered.get(message.message_id):
        message.check_same(delivery, run.id)
        return token_of_delivery(run.id, delivery)
    if not is_answer:
        return None
    return await _answer_open(service, asking, tree, message, code, approves=approves, queues=queues)


async def _answer_open(
    service: Service,
    asking: Principal,
    tree: TimelineTree,
    message: IncomingMessage,
    code: str,
    *,
    approves: bool,
    queues: bool,
) -> ReplyToken | None:
    """Answer the wait that a code names, or else the oldest one.

    A call is not answered unless the message names it.
    """
    run_id = tree.top.run_id
    for decision in tree.decisions:
        view = decision.wait and wait_view(decision.wait, decision.event.run_id)
        if view and code and view.ref.code == code and _is_repeated(decision, view, asking, message):
            return ReplyToken(run_id, decision.opened.after if decision.opened else "")
    opened_views = [(each, wait_view(each.wait, each.run_id)) for each in tree.open_waits.values()]
    views = [each for each in opened_views if each[1].is_for_people]
    named = [each for each in views if code and each[1].ref.code == code]
    for opened, view in named or views:
        may_decide = bool(named) and (approves or not read_verdict(message.text).is_approved)
        if view.call and not may_decide:
            is_message = queues or _is_message(view, message.text)
            return None if is_message else ReplyToken(run_id, opened.before)
        await _submit(service, asking, view, message, run_id)
        return ReplyToken(run_id, opened.after)
    return None


def _is_message(view: WaitView, text: str) -> bool:
    """Return whether a text while a call waits is a message to the run.

    The run answers it, or lets it deny the call.
    """
    verdict = read_verdict(text)
    if verdict.code or verdict.is_approved:
        return False
    return view.on_message == "deny" or (view.on_message == "answer" and not verdict.is_plain)


def _is_repeated(end: WaitEnd, view: WaitView, asking: Principal, message: IncomingMessage) -> bool:
    if message.answer_id and end.event.message_id == message.answer_id:
        return True
    given = parse_answer(view, message.text)
    if not is_same_answer(end, given):
        return False
    accept_repetition(asking, end, given)
    return True


async def _submit(
    service: Service, asking: Principal, view: WaitView, message: IncomingMessage, run_id: str
) -> None:
    await submit_answer(
        service,
        asking,
        view,
        parse_answer(view, message.text),
        message_id=message.answer_id,
        conversation=service.client.get_run(run_id),
    )


async def answer_reply(
    service: Service,
    asking: Principal,
    previous: ReplyToken,
    message: IncomingMessage,
    shown: str | None = None,
) -> ReplyToken | None:
    """Answer the wait at the end of a reply once, and return the next reply's token.

    Return None if the reply had no wait, or the question has another answer and no wait is open, or a message without a verdict is
    answered while the call waits. If one is open, the
    answer came too late for the question that it is about: the next reply displays the open wait. `shown` is what
    the client has displayed of the reply, if the protocol knows it: a question that it does not end with is displayed again.
    """
    run = await service.run(asking, previous.run_id)
    reply = await read(service, previous)
    view = reply.wait
    if view is None:
        return None
    verdict = read_verdict(message.text)
    names_another = view.call is not None and verdict.code not in ("", view.ref.code)
    is_message = view.on_message == "answer" and _is_message(view, message.text)
    if is_message and (await run.status()).conversation:
        return None
    is_bare = not verdict.code and shown is None
    # By the record's rule, since a reply may have held a message for the call of a child run too.
    may_be_held = view.call is not None and view.call.on_message == "answer"
    is_perhaps_another = is_bare and may_be_held and reply.has_other_decision
    is_not_shown = shown is not None and not _ends_with(shown, chat_prompt(view))
    if names_another or is_perhaps_another or is_not_shown:
        return previous
    try:
        await _submit(service, asking, view, message, previous.run_id)
    except AwaitClosed:
        if view.call is None or not verdict.is_plain:
            tree = await read_timeline(service, ReplyToken(previous.run_id))
            opened = next((each for each in tree.open_waits.values() if each.wait.is_for_people), None)
            return opened and ReplyToken(previous.run_id, opened.before)
        raise
    return ReplyToken(previous.run_id, reply.end)


def _ends_with(text: str, end: str) -> bool:
    """Compare without regard to white space."""
    return " ".join(text.split()).endswith(" ".join(end.split()))


# End a reply.


async def stop(service: Service, asking: Principal, token: ReplyToken) -> None:
    """End a conversation's turn, or a run that the principal started or operates.

    Raises:
        Problem: The message has no turn yet, or is answered beside the turn of an earlier one (409).
    """
    require(asking, "user")
    run = await service.run(asking, token.run_id)
    if token.message_id:
        turn_id = await _wait_for_turn(service, token)
        if (await read_timeline(service, token)).top.is_beside_turn(token.message_id):
            raise Problem(
                409,
                "task_not_cancelable",
                "the message is answered beside the turn of an earlier one, which would end",
                then="Wait for the answer. To end that turn and close its approvals, interrupt the conversation.",
                run_id=token.run_id,
            )
        with suppress(AwaitClosed):  # the turn has ended in the meantime
            await run.interrupt("canceled", by=asking.subject, turn_id=turn_id)
        return
    principal = (await run.status()).principal
    if principal is None or principal.subject != asking.subject:
        require(asking, "operator")
    await run.cancel(by=asking.subject)


async def _wait_for_turn(service: Service, token: ReplyToken) -> str:
    """Wait until a message has its turn. The present one may be another message's."""
    reply = AgentReply(token)
    with suppress(TimeoutError):
        async with asyncio.timeout(BEGINS), aclosing(follow(service, reply)) as steps:
            async for _ in steps:
                if reply.turn_id:
                    return reply.turn_id
    raise Problem(
        409,
        "not_begun",
        "the message waits for the turns before it",
        then="Cancel it once its turn has begun.",
        run_id=token.run_id,
    )
