"""A handle of a conversation with an agent.

A conversation is one run that does not end at its answer.
"""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from itertools import dropwhile
from typing import Any, NamedTuple, TypeGuard

from temporalio.service import RPCError

from sojourn.attachments import comparable
from sojourn.client.access import Access, Attachable, no_worker, queue_of
from sojourn.client.conversation_id import conversation_id
from sojourn.client.run import Run
from sojourn.client.sending import Fields, send
from sojourn.client.start import priority_of, start_workflow, validate_input
from sojourn.connection.rpc_errors import translate_error
from sojourn.contracts.attachment import AttachmentRecord
from sojourn.contracts.event import (
    ConversationBranchedEvent,
    Event,
    InterimAnswerEvent,
    MessageReceivedEvent,
    MessageWithdrawnEvent,
    TurnStartedEvent,
    TurnSteeredEvent,
)
from sojourn.contracts.ids import AGENT_ID, SESSION_ID
from sojourn.contracts.memory import SessionMemory
from sojourn.contracts.message import Accepted, Message, TextPart
from sojourn.contracts.principal import Principal, Visibility
from sojourn.contracts.run import RunOutput, RunStatus
from sojourn.contracts.run_policy import RunPolicyOverride
from sojourn.contracts.wire_names import SEND
from sojourn.core.awaits.principals import PRINCIPAL, write_principal
from sojourn.core.run.branches import REFUSED
from sojourn.core.run.inbox import ADMIT, Mode
from sojourn.errors import AwaitClosed, InvalidInput, NoWorker, RunFailed, RunNotFound, SojournError
from sojourn.events.cursor import position_of
from sojourn.events.one_run import find_accepted
from sojourn.events.reading import Kept
from sojourn.events.stream import stream
from sojourn.timeline import Timeline, UserMessage, UserTurn, is_run_end, is_turn_end

__all__ = [
    "EditableMessage",
    "Session",
    "SessionTurn",
    "last_message",
    "message_to_edit",
    "new_refusal",
    "opened_by",
]

MOST_ENTRIES = 1_000_000
"""Most entries of a conversation that are read to find its branches."""

UNTIL_BEGUN = 30.0
"""Seconds in which a branch that the conversation is switched to should begin."""

LOOK_PAUSE = 0.5
"""Seconds between two looks whether such a branch is refused."""


def _has_content(message: Message, sent: Fields) -> bool:
    parts = sent["parts"] if "parts" in sent else Message.user(sent["text"]).parts
    return comparable(Message.model_validate({"role": "user", "parts": parts})) == comparable(message)


def opened_by(timeline: Timeline, message_id: str) -> UserTurn | None:
    """Return the turn of the present branch that a message alone has opened, or None."""
    turns = reversed(timeline.path)  # a message that could not be edited opens a second turn of its branch
    return next((turn for turn in turns if [each.message_id for each in turn.messages] == [message_id]), None)


class EditableMessage(NamedTuple):
    """A message that can be edited, and the point from which its branch begins."""

    sent: UserMessage
    at: str

    def with_text(self, text: str) -> Message:
        """Return the message with other words, and with its images and documents.

        Raises:
            InvalidInput: Nothing would be left.
        """
        files = [part for part in self.sent.message.parts if not isinstance(part, TextPart)]
        words = [TextPart(type="text", text=text)] if text.strip() else []
        if not (words or files):
            raise InvalidInput("the message is empty")
        return Message(role="user", parts=[*words, *files])


def message_to_edit(timeline: Timeline, message_id: str) -> EditableMessage | None:
    """Return a message that can be edited, or None.

    It alone opened a turn of the present branch, or is to open the next one.
    """
    waiting = timeline.queued.get(message_id)
    if waiting is not None:
        is_next = timeline.turn is None and next(iter(timeline.queued)) == message_id
        return EditableMessage(waiting, timeline.head) if is_next and timeline.head else None
    turn = opened_by(timeline, message_id)
    return EditableMessage(turn.messages[0], turn.follows) if turn and turn.follows else None


def last_message(timeline: Timeline, by: str | None) -> str | None:
    """Return the id of the user's last message, or None if that is not clear.

    It alone opened the present or the last turn, or is to open the next one. None if other messages wait, if others opened that turn
    with it or joined it, or if another user sent it.
    """
    waiting = list(timeline.queued.values())
    if timeline.turn is None and waiting:
        messages = waiting
    elif waiting or not timeline.path:
        return None
    else:
        turn = timeline.path[-1]
        messages = [*turn.messages, *turn.joined]
    is_own = len(messages) == 1 and messages[0].by in ("", by or "")
    return messages[0].message_id if is_own else None


def new_refusal(known: Sequence[str], notes: Sequence[str]) -> str:
    """Return the run's last note of a refused branch since `known`, or an empty text.

    A run keeps its last 20 notes, so an older refusal may be gone from them.
    """
    rest = iter(known)
    added = [*dropwhile(lambda note: note in rest, notes)]
    return next((note for note in reversed(added) if note.startswith(REFUSED)), "")


class SessionTurn:
    """A message that a conversation has accepted, and the turn that takes it."""

    def __init__(self, run: Run, accepted: Accepted, kept: Kept | None = None) -> None:
        self.run = run
        self.message_id = accepted.message_id
        self.turn_id = ""
        """The user turn that took the message; empty until `events` or `result` has seen it begin."""
        self.after = accepted.after
        """An event_id of the run, after which the message's events come."""
        self.accepted = accepted
        """How the conversation accepted the message."""
        self._kept = kept

    @property
    def is_repeated(self) -> bool:
        """Whether the conversation had accepted a message of this id before."""
        return self.accepted.repeated

    @property
    def is_answer(self) -> bool:
        """Whether the message was given before, as the answer to a question."""
        return self.accepted.is_answer

    def __repr__(self) -> str:
        return f"<SessionTurn of {self.message_id} in {self.run.id}>"

    async def events(
        self, *, children: bool = False, deltas: bool = False, earlier: bool = False
    ) -> AsyncGenerator[Event]:
        """Yield the events of the message and of its turn.

        The last one is the turn's `turn_completed` or `turn_failed`, or the message's `message_withdrawn`, or the `interim_answer` of a
        message that was answered while approvals of its turn are open.

        Args:
            children: Include the events of child runs, as `Run.events`.
            deltas: Include the text that a planner is writing, as `Run.events` does.
            earlier: Include the events before the turn begins: those of the turns that the message waits for.
        """
        is_mine = self.is_answer
        async for event in self._events(children=children, deltas=deltas):
            if (
                isinstance(event, (TurnStartedEvent, TurnSteeredEvent))
                and self.message_id in event.message_ids
            ):
                is_mine, self.turn_id = True, event.turn_id
            about = isinstance(event, MessageReceivedEvent) and event.message_id == self.message_id
            is_end = is_run_end(event) and event.run_id == self.run.id
            if is_mine or about or is_end or earlier or self._is_withdrawal(event):
                yield event
            ends = is_turn_end(event) and event.run_id == self.run.id
            if (is_mine and ends) or self._is_withdrawal(event) or self._is_interim_answer(event):
                return

    def _is_interim_answer(self, event: Event) -> TypeGuard[InterimAnswerEvent]:
        if not isinstance(event, InterimAnswerEvent) or event.message is None:
            return False
        return event.message_id == self.message_id and event.run_id == self.run.id

    def _is_withdrawal(self, event: Event) -> bool:
        is_mine = isinstance(event, MessageWithdrawnEvent) and event.message_id == self.message_id
        return is_mine and event.run_id == self.run.id

    def _events(self, *, children: bool, deltas: bool) -> AsyncGenerator[Event]:
        client = self.run.client
        return stream(
            client.temporal,
            self.run.id,
            after=position_of(self.run.id, self.after),
            follow=True,
            children=children,
            live=client.live if deltas else None,
            storage=client.storage,
            since=self.after,
            kept=self._kept,
        )

    async def result(self) -> RunOutput:
        """Return the answer of the turn that took the message.

        If the message was answered alone, while approvals of that turn were open, return that answer.

        Raises:
            RunFailed: The turn failed, and the conversation continues; or the message was withdrawn (`withdrawn` is the `code`); or the run was canceled or terminated before an
                answer; or the conversation reached a limit, whose name is the `code`, before the turn began.
        """
        async for event in self.events():
            if event.type == "turn_completed":
                return event.output
            if self._is_interim_answer(event) and event.output is not None:
                return event.output
            if event.type == "turn_failed":
                raise RunFailed(
                    f"the turn of message {self.message_id} failed: {event.error}",
                    run_id=self.run.id,
                    code=event.error.code,
                    error=event.error,
                )
            if self._is_withdrawal(event):
                raise RunFailed(
                    f"message {self.message_id} was withdrawn", run_id=self.run.id, code="withdrawn"
                )
        # Raises why the run ended, unless it was closed or had reached a limit.
        whole = await self.run.result()
        raise RunFailed(
            f"{self.run.id} ended before it answered message {self.message_id}: {whole.text or whole.reason}",
            run_id=self.run.id,
            code=whole.reason,
        )


class Session:
    """A handle of one conversation with an agent, valid before it starts.

    Made by `Client.session`, whose arguments it takes. Methods raise as those of `Run`.

    Raises:
        InvalidInput: An id breaks its rule.
    """

    def __init__(
        self,
        client: Access,
        agent_id: str,
        session_id: str,
        *,
        labels: Mapping[str, str] | None = None,
        policy: RunPolicyOverride | None = None,
        principal: Principal | None = None,
        visibility: Visibility = "tenant",
        priority: int | None = None,
        admit: bool = False,
    ) -> None:
        if not AGENT_ID.match(agent_id):
            raise InvalidInput(f"agent_id {agent_id[:80]!r} has the form <service>.<agent>")
        if not session_id or not SESSION_ID.match(session_id):
            raise InvalidInput(
                "session_id has 1 to 200 characters, without quotes, backslashes and control characters"
            )
        self._client = client
        self.agent_id = agent_id
        self.session_id = session_id
        tenant = principal.tenant if principal else ""
        self.run = Run(client, conversation_id(agent_id, session_id, tenant))
        """The run of the conversation: to answer, approve, pause, fork and so on."""
        self._principal = principal
        self._sender = principal and write_principal(principal)
        self._admit = admit
        priority_of(tenant, priority)
        self._priority = priority
        self._kept = Kept()
        self._opening = validate_input(
            self.run.id,
            agent_id=agent_id,
            session_id=session_id,
            messages=[],
            conversation=True,
            labels=dict(labels or {}),
            policy=policy,
            principal=principal,
            visibility=visibility,
        )

    def __repr__(self) -> str:
        return f"<Session {self.session_id} of {self.agent_id}>"

    async def send(
        self,
        message: str | Message,
        *,
        message_id: str | None = None,
        mode: Mode = "queue",
        by: str | None = None,
        attachments: Sequence[Attachable] = (),
    ) -> SessionTurn:
        """Send a message, which is delivered once.

        The first message starts the conversation, in the same request, unless it is invalid.
        Retries are idempotent: a message with the same `message_id` gives the same turn, whether or not
        the first call succeeded.

        Args:
            message: A text, or a user message with images and documents; at most 256 KB as JSON, without the files that go to
                external storage.
            message_id: An id of the sender's, at most 200 characters; made when left out.
            mode: `queue`: the message opens a turn of its own, in the order of acceptance; `steer`: the next plan of the
                present turn sees it, or it opens a turn if none is under way, or the present one acts for another principal; `interrupt`: the
                present turn ends, its calls are cancelled, and the next turn begins with the message.
            by: Name to record, unchecked.
            attachments: Files to send with the message: paths, or what `Client.attach` has stored.

        Raises:
            SessionBusy: 100 messages wait already.
            AwaitClosed: The conversation was closed, or its run has ended.
            InvalidInput: The message is invalid; or workers of several task queues serve the agent.
            RunNotFound: The conversation is one that the principal may not see.
            NoWorker: No worker serves the agent, or none accepted the message within 30 s.
        """
        made = message_id or uuid.uuid4().hex
        sent = await self._fields(message, made, by, attachments) | {"mode": mode}
        try:
            accepted = await self.run.send(sent)
        except RunNotFound:
            accepted = await self._begin(sent, message if isinstance(message, str) else message.text)
        except AwaitClosed:
            known = await self._find_accepted(message_id)
            if known is None:
                raise
            accepted = known
        return SessionTurn(self.run, accepted, self._kept)

    async def _fields(
        self,
        message: str | Message,
        message_id: str,
        by: str | None,
        attachments: Sequence[Attachable],
        kept: Sequence[AttachmentRecord] = (),
    ) -> Fields:
        # `kept` are files that the conversation has already. The caller may have uploaded none of them.
        if attachments and isinstance(message, str):
            message = Message(role="user", parts=list(Message.user(message).parts) if message.strip() else [])
        content: dict[str, Any] = {"text": message}
        if isinstance(message, Message):
            if message.role != "user":
                raise InvalidInput(
                    f"a message to a conversation has the role user, not {message.role[:40]!r}"
                )
            message = await self._client.with_attachments(
                message, attachments, run_id=self.run.id, principal=self._principal, kept=kept
            )
            content = {"parts": message.model_dump(mode="json", exclude_defaults=True)["parts"]}
        sent: Fields = {"message_id": message_id, **content, "by": by, PRINCIPAL: self._sender}
        return sent | {ADMIT: True} if self._admit else sent

    async def timeline(self) -> Timeline:
        """Return the conversation so far, with the turns of all its branches.

        `Timeline.path` has those of the present branch, and `Timeline.siblings` the other answers to a message.
        """
        timeline = Timeline(self.run.id, MOST_ENTRIES, is_conversation=True)
        async with aclosing(self.run.events(follow=False)) as events:
            async for event in events:
                timeline.feed(event)
        return timeline

    async def edit(
        self,
        message_id: str,
        message: str | Message | None = None,
        *,
        by: str | None = None,
        attachments: Sequence[Attachable] = (),
        branches: int | None = None,
        keep_files: bool = False,
    ) -> SessionTurn:
        """Send other words in place of a message, or have it answered anew.

        The message has opened a turn, or is to open the next one. The conversation goes on from the point before that turn, in another branch. A turn under way is interrupted, and messages that wait
        are withdrawn. Later messages and answers stay in the history, as another branch. Effects of their calls are known to the new one.

        Args:
            message_id: The message, in the present branch.
            message: Its new content, which changes nothing if the message has it already; left out, the same words are answered again.
            by: Name to record, unchecked.
            attachments: As for `send`.
            branches: `Timeline.branches` as the caller has seen it, so that a request that is sent twice has one effect.
            keep_files: Whether a new text leaves the images and documents of the message as they are.

        Raises:
            AwaitClosed: The conversation has ended, or went on from another point meanwhile.
            InvalidInput: The message opened no turn of the present branch, or the new one is invalid.
            SessionBusy: Another edit is under way.
        """
        timeline = await self.timeline()
        known = message_to_edit(timeline, message_id)
        if known is None:
            raise InvalidInput(
                f"no turn of the present branch of {self.run.id} began with the message {message_id[:80]!r}",
                run_id=self.run.id,
            )
        before = known.sent.message
        if keep_files and isinstance(message, str):
            message = known.with_text(message)
        words = before if message is None else message
        sent = await self._fields(words, message_id, by, attachments, before.attachments)
        if message is not None and _has_content(before, sent):
            place = timeline.delivered[message_id].before
            return SessionTurn(
                self.run, Accepted(message_id=message_id, after=place, repeated=True), self._kept
            )
        number = timeline.branches if branches is None else branches
        return SessionTurn(self.run, await self.run.branch(known.at, number, sent), self._kept)

    async def switch(self, at: str, *, branches: int | None = None) -> None:
        """Go on from the end of another branch, so that the next message comes after it.

        It has begun when this returns.

        Args:
            at: The event at which the newest turn of that branch ended, as `Timeline.tip` returns it.
            branches: `Timeline.branches` as the caller has seen it, so that a request that is sent twice has one effect.

        Raises:
            AwaitClosed: The conversation has ended, or went on from another point meanwhile.
            InvalidInput: No turn ended at this event, or the conversation at that point cannot be read or is too large to go on
                from. It stays in its present branch.
            NoWorker: It has not begun within 30 s. It may begin later.
            SessionBusy: Another edit is under way.
        """
        timeline = await self.timeline()
        if not any(turn.end and turn.end.event_id == at for turn in timeline.turns):
            raise InvalidInput(f"no turn of {self.run.id} ended at the event {at[:80]!r}", run_id=self.run.id)
        known = (await self.run.status()).notes
        accepted = await self.run.branch(at, timeline.branches if branches is None else branches)
        looks = [asyncio.create_task(each) for each in (self._begun(accepted), self._refusal(known))]
        try:
            done, _ = await asyncio.wait(looks, timeout=UNTIL_BEGUN, return_when=asyncio.FIRST_COMPLETED)
            if why := next((why for each in done if (why := each.result())), ""):
                raise InvalidInput(f"{self.run.id} stays in its present branch: {why}", run_id=self.run.id)
            if not done:
                raise NoWorker(
                    f"{self.run.id} has not gone on from {at} within {UNTIL_BEGUN:g} s; look at it again, it may later",
                    run_id=self.run.id,
                )
        finally:
            for each in looks:
                each.cancel()
            await asyncio.gather(*looks, return_exceptions=True)

    async def _begun(self, accepted: Accepted) -> None:
        async with aclosing(self.run.events(after=accepted.after)) as events:
            async for event in events:
                if isinstance(event, ConversationBranchedEvent):
                    return

    async def _refusal(self, known: Sequence[str]) -> str:
        """Wait until the run notes that a branch cannot begin, and return the note.

        The history may not say so before the run does something else.
        """
        while True:
            await asyncio.sleep(LOOK_PAUSE)
            with suppress(SojournError):
                if why := new_refusal(known, (await self.run.status()).notes):
                    return why

    async def _find_accepted(self, message_id: str | None) -> Accepted | None:
        if not message_id:
            return None
        return await find_accepted(self._client.temporal, self.run.id, message_id)

    async def _begin(self, message: Fields, text: str) -> Accepted:
        """Start the conversation with its first message, in one request.

        If another program has just started it, it gets the message.
        """
        temporal, run = self._client.temporal, self._opening
        try:
            queue = self._client.task_queue or await queue_of(temporal, self.agent_id, self.run.id)
            if self._client.task_queue and not await self._client.worker_soon(queue):
                raise NoWorker(no_worker(queue), run_id=self.run.id)
        except RPCError as error:
            raise translate_error(error, self.run.id) from error
        listed = run.model_copy(update={"listed": True})

        async def update(fields: Fields) -> Any:
            return await start_workflow(
                temporal,
                self.run.id,
                run,
                queue,
                argument=listed,
                update=(SEND, fields),
                message=text,
                priority=self._priority,
            )

        accepted = await send(temporal.get_workflow_handle(self.run.id), SEND, update, message)
        return Accepted.model_validate(accepted)

    def events(
        self, *, after: str | None = None, follow: bool = True, children: bool = False, deltas: bool = False
    ) -> AsyncGenerator[Event]:
        """Yield the events of all turns, as `Run.events`."""
        return self.run.events(after=after, follow=follow, children=children, deltas=deltas)

    async def status(self) -> RunStatus:
        """Return the conversation's status, as `Run.status`. `idle` between two turns."""
        return await self.run.status()

    async def transcript(self) -> list[Message]:
        """Return the transcript so far, as `Run.transcript`."""
        return await self.run.transcript()

    async def memory(self) -> SessionMemory:
        """Return the memory of the conversation, as `Run.memory`."""
        return await self.run.memory()

    async def withdraw(self, message_id: str, *, by: str | None = None, as_operator: bool = False) -> bool:
        """Withdraw a message that waits, and return whether it was not withdrawn before.

        No planner reads it. Sent again under its id it stays withdrawn. A turn that the message has interrupted stays
        interrupted.

        Args:
            message_id: The id of the message, as in `SessionTurn.message_id`.
            by: Name to record, unchecked.
            as_operator: Withdraw the message of another principal too.

        Raises:
            AwaitClosed: The message's turn has begun, or the run of the conversation has ended.
            MissingRole: Another principal sent the message.
            InvalidInput: The conversation has no such message.
        """
        return await self.run.withdraw(message_id, by=by, principal=self._principal, as_operator=as_operator)

    async def interrupt(self, reason: str = "", *, by: str | None = None, turn_id: str | None = None) -> bool:
        """End the present turn, and return whether there was one.

        The messages that wait open the turns that follow. The calls of the turn are cancelled, as
        with `Run.cancel`, and its questions are closed. Its `result` raises `RunFailed` with the
        code `interrupted`.

        Args:
            reason: Recorded.
            by: Name to record, unchecked.
            turn_id: The turn to end, as in `SessionTurn.turn_id` or `RunStatus.turn_id`; the present one when left out.

        Raises:
            AwaitClosed: The run of the conversation has ended; or the present turn is another one than `turn_id`.
        """
        return await self.run.interrupt(reason, by=by, turn_id=turn_id)

    async def close(self, reason: str = "", *, by: str | None = None) -> None:
        """End the conversation once its backlog of messages is empty.

        The present turn and the messages that were sent before are answered.

        Raises:
            AwaitClosed: The conversation was closed before, or its run has ended.
        """
        await self.run.close(reason, by=by)
