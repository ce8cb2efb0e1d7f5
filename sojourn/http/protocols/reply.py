"""Read the events after a token as text, then an answer, a question or an error.

A reply ends at the first of these in the history, so every process reads the same. A task has one id from
its message to its answer: it continues after its questions. The timeline reads the events. A reply has
only what no entry has: the text that clients have received.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeVar

from sojourn.answers import WaitView, open_waits, status_once_judged, wait_view
from sojourn.contracts.event import (
    ApprovalGivenEvent,
    AwaitAnsweredEvent,
    Event,
    InterimAnswerEvent,
    MessageReceivedEvent,
    MessageWithdrawnEvent,
    UsageEvent,
)
from sojourn.contracts.plan import Usage
from sojourn.contracts.run import RunOutput, RunStatus
from sojourn.contracts.tool_error import ToolError
from sojourn.errors import RunNotFound, SojournError
from sojourn.events import Cursor
from sojourn.events.stream import stream
from sojourn.http.answering import QUIET
from sojourn.http.event_streams import HEARTBEAT
from sojourn.http.problems import Problem, redact, stopping_problem
from sojourn.http.protocols.markup import close_markup
from sojourn.http.protocols.reply_token import MarkFilter, ReplyToken, remove_marks
from sojourn.http.protocols.waits import chat_prompt, chat_text, explain_external_calls, is_blocked
from sojourn.http.routes.parameters import RequestScope, ServerStopping
from sojourn.http.security.limits import heavy_read
from sojourn.http.service import Service
from sojourn.timeline import ChangeKind, Delivery, End, Plan, TimelineTree

__all__ = [
    "MAX_ITEMS",
    "MOST_LATE",
    "AgentReply",
    "HistoryMessage",
    "ReplyStep",
    "SentText",
    "failure_of",
    "follow",
    "is_ahead",
    "read",
    "read_events",
    "read_in_turn",
    "read_timeline",
    "read_to_end",
    "wait_to_end",
]

T = TypeVar("T")

FREE = 200
"""Events that a request may read before it must wait for its turn among the heavy reads."""

MAX_HISTORY = 100
"""Most messages of a task to keep, the newest ones."""

MAX_ITEMS = 10_000
"""Most messages, decisions and entries of a conversation to keep.

The conversation itself remembers the ids of as many messages.
"""

MOST_LATE = 50
"""Most reads of the status of a blocked conversation, `QUIET` apart.

The status may be ahead of the events.
"""

_GAP = "\n\n"


class HistoryMessage(NamedTuple):
    role: Literal["user", "agent"]
    id: str
    text: str


class SentText:
    """The text of one plan that a client has received. Sent text cannot be taken back.

    Each method returns what to send, and whether it is a text of its own, which differs from what was sent.
    """

    def __init__(self) -> None:
        self.text = ""

    def begin(self) -> None:
        self.text = ""

    def grow(self, draft: str, start: int = 0) -> tuple[str, bool]:
        """Follow a draft whose characters before `start` were cut.

        Nothing is sent while another attempt writes the same again.
        """
        sent = self.text[start:]
        return ("", False) if sent.startswith(draft) else self._send(sent, draft, start)

    def finish(self, whole: str) -> tuple[str, bool]:
        """Send the rest of the planner's message after the draft."""
        sent = self._send(self.text, whole, 0)
        self.text = ""
        return sent

    def _send(self, sent: str, whole: str, start: int) -> tuple[str, bool]:
        self.text = self.text[:start] + whole
        return (whole[len(sent) :], False) if whole.startswith(sent) else (whole, True)


@dataclass
class AgentReply:
    """A reply, as far as its events have been read."""

    token: ReplyToken
    is_task: bool = False
    """Whether it continues once its questions are answered. Its text then has no questions."""
    state: Literal["open", "answered", "asked", "failed"] = "open"
    """How the reply ended; `open` until then."""
    text: str = ""
    """The agent's messages, then its question, separated by an empty line."""
    wait: WaitView | None = None
    """With `asked`: the wait; of a task, the oldest open wait."""
    history: list[HistoryMessage] = field(default_factory=list[HistoryMessage])
    """For a task: its message, and its questions with their answers."""
    at: datetime | None = None
    """The time of the last event that was read."""
    output: RunOutput | None = None
    """With `answered`: the output of the turn or of the run."""
    error: ToolError | None = None
    is_canceled: bool = False
    """With `failed`: whether it was canceled."""
    usage: Usage = field(default_factory=Usage)
    """The tokens that its plans used, those of child runs too."""
    end: str = ""
    """Cursor after the event that ends the reply. The reply to an answer starts there."""

    def __post_init__(self) -> None:
        self.tree = TimelineTree(
            self.token.run_id, most_records=MAX_ITEMS, is_conversation=bool(self.token.message_id)
        )
        """The events after the token."""
        self._is_answer = False
        """Whether the message was the answer to a wait."""
        self._is_left = False
        """Whether the message was to be answered while approvals are open, and was not."""
        self._held: list[WaitView] = []
        """Open waits from before the reply, as long as its message waits for them."""
        self._has_own = not self.follows_answer
        """Whether the answer that the reply follows was read, if it follows one."""
        self.has_other_decision = False
        """Whether a wait ended while the message waited for one, so that the one asked now may be another than its client displayed."""
        self._sent = SentText()
        self._marks = MarkFilter()

    @property
    def agent_id(self) -> str:
        return self.tree.top.agent_id

    @property
    def begun_at(self) -> float | None:
        at = self.tree.top.begun_at
        return at.timestamp() if at else None

    @property
    def turn_id(self) -> str:
        """The turn that took the message, once that has begun."""
        return self.tree.top.taken.get(self.token.message_id, "")

    @property
    def is_there(self) -> bool:
        """Whether the history has events of the reply, so that its token is not made up."""
        message_id = self.token.message_id
        return self.at is not None and (self._is_mine or message_id in self.tree.delivered)

    @property
    def _is_mine(self) -> bool:
        """Whether the reply has begun: its message has a turn, or was an answer."""
        message_id = self.token.message_id
        return not message_id or message_id in self.tree.top.taken or self._is_answer

    @property
    def may_be_held(self) -> bool:
        """Whether an approval from before the reply may be what it waits for.

        Its message may wait for one. If it was an answer, another one may be open.
        """
        return self.state == "open" and (not self._is_mine or self._is_left or self.follows_answer)

    @property
    def follows_answer(self) -> bool:
        return bool(self.token.after and not self.token.message_id)

    @property
    def waits(self) -> list[WaitView]:
        """Waits that people can answer, oldest first."""
        if self._held:
            return self._held
        if not self._is_mine:
            return []
        views = (
            wait_view(each.wait, each.run_id, since=each.since) for each in self.tree.open_waits.values()
        )
        return [view for view in views if view.is_for_people]

    def answer_to(self, message_id: str) -> Delivery | None:
        delivery = self.tree.delivered.get(message_id)
        is_answer = delivery and isinstance(delivery.event, AwaitAnsweredEvent | ApprovalGivenEvent)
        return delivery if is_answer else None

    def hold(self, views: list[WaitView]) -> str:
        """Ask what the message waits for, and return the addition to the text."""
        before, self._held = len(self.text), views
        if self.is_task:
            self.state, self.wait = "asked", views[0]
        else:
            self._ask(views[0])
        self.end = self.tree.cursor or self.token.after
        return self.text[before:]

    def _release(self) -> None:
        """Go on with a task that asked what its message waited for."""
        if self._held:
            self.state, self.wait, self._held = "open", None, []

    def take(self, event: Event, cursor: str) -> str:
        """Take the next event, and return its addition to the text."""
        is_answer = isinstance(event, AwaitAnsweredEvent | ApprovalGivenEvent)
        if is_answer and self.may_be_held:
            self.has_other_decision, self._has_own = self._has_own, True
        before, changes = len(self.text), self.tree.feed(event, cursor)
        self._release()
        self.at = event.time
        if is_answer and event.message_id == self.token.message_id:
            self._is_answer = True
        if isinstance(event, MessageWithdrawnEvent) and event.message_id == self.token.message_id:
            error = ToolError.new("the message was withdrawn", code="withdrawn")
            self.state, self.error, self.is_canceled = "failed", error, True
        if self.is_task:
            self._note(event)
        if self._is_mine:
            self._read(event)
        for change in changes if event.run_id == self.token.run_id else ():
            entry = change.entry
            if isinstance(entry, Plan) and self._is_mine and entry.interim_for in ("", self.token.message_id):
                self._write(entry, change.kind)
            elif isinstance(entry, End):
                self._finish(entry)
        if self.state != "open":
            self.end = cursor
        return self.text[before:]

    def _note(self, event: Event) -> None:
        """Record the message of a task, and its questions once they are answered."""
        if isinstance(event, MessageReceivedEvent) and event.message_id == self.token.message_id:
            self.history.append(HistoryMessage("user", event.message_id, event.message.text))
        elif isinstance(event, AwaitAnsweredEvent) and self._is_mine:
            wait = self.tree.decisions[-1].wait
            view = wait and wait_view(wait, event.run_id)
            if view and view.is_for_people:
                verdict = {True: "yes", False: "no", None: event.code or ""}[event.approved]
                self.history.append(HistoryMessage("agent", f"{event.event_id}-0", chat_text(view)))
                answer_id = event.message_id or event.event_id
                self.history.append(HistoryMessage("user", answer_id, event.text or verdict))
        del self.history[:-MAX_HISTORY]

    def _read(self, event: Event) -> None:
        if isinstance(event, UsageEvent):
            names = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")
            self.usage = Usage(
                **{name: getattr(self.usage, name) + getattr(event.usage, name) for name in names}
            )
        if isinstance(event, InterimAnswerEvent):
            if event.message_id == self.token.message_id:
                self._is_left = event.output is None
                if event.output:
                    self.state, self.wait, self.output = "answered", None, event.output
        elif self.is_task:
            if self.state in ("open", "asked"):
                self.wait = next(iter(self.waits), None)
                self.state = "asked" if self.wait else "open"
        elif isinstance(event, ApprovalGivenEvent):  # the call waits on, for a further approval
            self._ask(wait_view(event.confirmation, event.run_id))
        elif opened := self.tree.wait_opened_by(event):
            view = wait_view(opened.wait, opened.run_id, since=opened.since)
            if view.is_for_people:
                self._ask(view)

    def _write(self, plan: Plan, kind: ChangeKind) -> None:
        if kind == "added":
            self.text += self._marks.end()
            self._sent.begin()
        elif kind == "spoken" and not (plan.is_partial and self._sent.text.startswith(plan.text)):
            self._write_whole(plan.text)
        elif plan.is_open:
            is_new = not self._sent.text
            self._add(*self._sent.grow(plan.draft.text, plan.draft.text_start), is_new=is_new)

    def _add(self, piece: str, is_other: bool, *, is_new: bool) -> None:
        if is_other:
            self.text += self._marks.end()
        if (is_other or is_new) and self.text and piece:
            self.text += _GAP
        self.text += self._marks.take(piece)

    def _write_whole(self, text: str) -> None:
        is_new = not self._sent.text
        self._add(*self._sent.finish(text), is_new=is_new)
        self.text += self._marks.end()

    def _ask(self, view: WaitView) -> None:
        self.text += self._marks.end()
        if view.call:  # markup left open by earlier text must not hide a call
            self.text += close_markup(self.text)
        question = chat_prompt(view)
        self.text += f"{_GAP}{question}" if self.text else question
        self.state, self.wait = "asked", view

    def _finish(self, end: End) -> None:
        if end.is_of_turn and not self._is_mine:
            return  # the end of another turn
        if end.status != "completed":
            why = end.text or f"the run ended ({end.status})"
            self.error = end.error or ToolError.new(why, code=getattr(end.event, "code", None))
            is_interrupted = end.is_of_turn and self.error.code == "interrupted"
            self.state, self.is_canceled = "failed", is_interrupted or end.status == "canceled"
        elif end.output and self._is_mine:
            self.state, self.output = "answered", end.output
            if not self.text.endswith(remove_marks(end.output.text)):
                self._write_whole(end.output.text)
        elif end.output:
            reason = end.output.reason
            self.state, self.error = "failed", ToolError.new(f"the run ended ({reason})", code=reason)


class ReplyStep(NamedTuple):
    """An event of a reply, and its addition."""

    event: Event | None
    """None if the reply asks what its message waits for."""
    text: str
    """Its addition to the text of the reply."""
    is_past: bool = False
    """Of a task: whether it was there before the task was followed."""


async def follow(
    service: Service, reply: AgentReply, *, deltas: bool = True, to_end: bool = False
) -> AsyncGenerator[ReplyStep]:
    """Follow a reply to its end, from the last event that was read.

    A task is read also up to what it asks now, and with `to_end` followed beyond its questions.
    """
    token, lasts = reply.token, ("open", "asked") if to_end else ("open",)
    if reply.is_task:  # a recorded question may have been answered since
        async with aclosing(
            read_events(service, replace(token, after=reply.tree.cursor or token.after))
        ) as past:
            async for event, cursor in past:
                yield ReplyStep(event, reply.take(event, cursor), is_past=True)
                if reply.state not in ("open", "asked"):
                    return  # what comes after it is another turn
        _check_is_there(reply)
        if reply.state not in lasts:
            return
    async with aclosing(_follow_live(service, reply, lasts, deltas=deltas)) as steps:
        async for step in steps:
            yield step


async def _follow_live(
    service: Service, reply: AgentReply, lasts: Sequence[str], *, deltas: bool
) -> AsyncGenerator[ReplyStep]:
    """Follow a reply while its state is one of `lasts`.

    Once nothing else goes on, the reply asks what its message waits for.
    """
    token = reply.token
    cursor = _cursor_of(replace(token, after=reply.tree.cursor or token.after))
    with service.feeds.subscribe(token.run_id, cursor, children=True, deltas=deltas) as subscription:
        async with aclosing(subscription.batches(HEARTBEAT)) as batches:
            next_batch = asyncio.ensure_future(anext(batches, None))
            try:
                looks_left = MOST_LATE
                while True:
                    looks = looks_left and reply.may_be_held
                    await asyncio.wait({next_batch}, timeout=QUIET if looks else None)
                    if not next_batch.done():
                        views = await _find_held(service, reply, next_batch)
                        looks_left = 0 if views is None else looks_left - 1
                        if views:
                            yield ReplyStep(None, reply.hold(views))
                            if reply.state not in lasts:
                                return
                        continue
                    batch = next_batch.result()
                    if batch is None:
                        return
                    for delivery in batch:
                        yield ReplyStep(delivery.event, reply.take(delivery.event, delivery.cursor))
                        if reply.state not in lasts:
                            return
                    looks_left = MOST_LATE if batch else looks_left
                    next_batch = asyncio.ensure_future(anext(batches, None))
            finally:
                next_batch.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await next_batch


async def _find_held(
    service: Service, reply: AgentReply, next_batch: asyncio.Future[Any] | None = None
) -> list[WaitView] | None:
    """Return the open waits that the message of a reply waits for.

    Their policy answers messages, and yet this one is not being answered, or it was an answer itself. There are none if the
    status is ahead of the events. None if anything else goes on.
    """
    try:
        run = service.client.get_run(reply.token.run_id)
        status = await (status_once_judged(run, next_batch) if next_batch else run.status())
    except SojournError:  # the events tell what follows
        return None
    if status.judging:
        return []
    views = [view for view in open_waits(status) if view.is_for_people]
    if not (any(view.on_message == "answer" for view in views) and is_blocked(status)):
        return None
    if reply.follows_answer:
        return [] if is_ahead(status, reply.tree) else views
    return views if status.queued or reply.turn_id else []


def is_ahead(status: RunStatus, tree: TimelineTree) -> bool:
    """Return whether a status has ends of calls that the events lack."""
    ended = {call.tool_call_id for call in status.calls if call.state in ("done", "failed")}
    return any(call.id in ended and call.result is None for call in tree.top.calls)


async def read_to_end(service: Service, reply: AgentReply, *, to_end: bool = False) -> None:
    """Follow a reply to its end, without deltas."""
    async with aclosing(follow(service, reply, deltas=False, to_end=to_end)) as steps:
        async for _ in steps:
            pass


async def wait_to_end(attending: RequestScope, reply: AgentReply, seconds: float, *, then: str) -> None:
    """Read a reply to its end while the client waits. The run goes on in any case.

    Raises:
        Problem: This process stops (503), or the time is over (504), with `then` as what to do next.
    """
    run_id = reply.token.run_id
    try:
        await attending.wait(read_to_end(attending.service, reply), seconds)
    except ServerStopping as error:
        stops = stopping_problem()
        detail = f"{stops.detail}; the run {run_id} goes on"
        raise Problem(stops.status, stops.code, detail, then=stops.then, headers=stops.headers) from error
    except TimeoutError as error:
        why = await explain_external_calls(attending.service, run_id)
        detail = f"the run {run_id} goes on. {why}".strip()
        raise Problem(504, "still_running", detail, then=then) from error


def failure_of(reply: AgentReply) -> Problem:
    """Return the problem of a failed run or turn.

    Its status does not make clients retry the request.
    """
    error = reply.error
    code = (error.code if error else "") or "run_failed"
    detail = str(error) if error else "the run failed"
    return Problem(422, code, detail, then=f"The run {reply.token.run_id} has the causes.")


async def read(service: Service, token: ReplyToken, *, is_task: bool = False) -> AgentReply:
    """Return a reply or a task as the histories have it."""
    reply = AgentReply(token, is_task=is_task)
    async with aclosing(read_in_turn(read_events(service, token))) as events:
        async for event, cursor in events:
            reply.take(event, cursor)
            if reply.state not in ("open", "asked" if is_task else "open"):
                break
    _check_is_there(reply)
    if reply.may_be_held and (views := await _find_held(service, reply)):
        reply.hold(views)
    return reply


async def read_timeline(service: Service, token: ReplyToken, *, until: str = "") -> TimelineTree:
    """Read the waits, decisions and deliveries of a conversation after a token.

    Reading stops at the delivery under the id `until`.
    """
    tree = TimelineTree(token.run_id, MAX_ITEMS, is_conversation=True)
    async with aclosing(read_in_turn(read_events(service, token))) as events:
        async for event, cursor in events:
            tree.feed(event, cursor)
            if until in tree.delivered:
                break
    return tree


async def read_in_turn(events: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """Yield the events, after `FREE` of them as one of the heavy reads."""
    count = 0
    async with heavy_read(begins_free=True) as take_turn, aclosing(events):
        async for each in events:
            if (count := count + 1) == FREE:
                await take_turn()
            yield each


def _check_is_there(reply: AgentReply) -> None:
    """Refuse a token that a client made up, since no event would ever follow it."""
    if not reply.is_there:
        run_id = reply.token.run_id
        raise RunNotFound(f"there is no such place in run {run_id!r}", run_id=run_id)


async def read_events(service: Service, token: ReplyToken) -> AsyncGenerator[tuple[Event, str]]:
    """Yield the recorded events of a tree of runs after a token, each with a cursor."""
    client, cursor = service.client, _cursor_of(token)
    events = stream(
        client.temporal,
        token.run_id,
        after=cursor.position,
        follow=False,
        children=True,
        storage=client.storage,
    )
    async with aclosing(events):
        async for event in events:
            yield redact(event), cursor.add(event)


def _cursor_of(token: ReplyToken) -> Cursor:
    try:
        return Cursor(token.run_id, token.after)
    except ValueError as error:
        raise RunNotFound(f"there is no such place in run {token.run_id!r}", run_id=token.run_id) from error
