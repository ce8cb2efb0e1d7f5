"""Open or join the turn that a user interface requests."""

import asyncio
from collections.abc import Collection, Hashable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, cast

from fastapi import Header

from sojourn.answers import (
    NO_EDIT_HERE,
    Answer,
    Decision,
    GivenAnswer,
    Results,
    WaitRef,
    WaitView,
    audit_facts,
    check_answer,
    check_may_answer,
    find_closed_wait,
    parse_decision,
    parse_payload,
    wait_view,
)
from sojourn.client.client import Client
from sojourn.client.run import Run
from sojourn.client.session import Session, SessionTurn, opened_by
from sojourn.contracts.principal import Principal
from sojourn.errors import InvalidInput, RunNotFound, SojournError, StaleDigest, UnknownWait
from sojourn.http.answering import (
    MESSAGE_EDITED,
    accept_repetition,
    edit_message,
    read_branches,
    require_same,
    submit_answer,
)
from sojourn.http.event_streams import DisconnectCallback
from sojourn.http.problems import Problem
from sojourn.http.protocols.messages import IncomingMessage, with_files
from sojourn.http.protocols.turn import Begin, TurnStream
from sojourn.http.protocols.waits import ClientWait, waits_of_status
from sojourn.http.security.audit import bind_answer
from sojourn.http.security.principals import require
from sojourn.http.service import Service
from sojourn.live.transport import topic_of
from sojourn.timeline import Timeline, WaitEnd
from sojourn.values.numbers import is_same, write_exact

__all__ = [
    "CheckedAnswers",
    "ClientAnswer",
    "OnDisconnect",
    "Result",
    "TurnRequest",
    "begin",
    "check_answers",
    "disconnect_callback",
    "find_closed",
    "send_answers",
    "subscribe_early",
]

LONGEST = 30.0
"""Most seconds to hold the early subscription.

By then the follower of the run has subscribed itself. It gets the present draft from its beginning.
"""

OnDisconnect = Annotated[
    Literal["interrupt"] | None,
    Header(
        alias="Sojourn-On-Disconnect",
        description="`interrupt` ends the turn where the client leaves the stream before its end; else the turn goes on.",
    ),
]


DECISION = ("approved", "reason", "scope")
"""The fields of a decision on a call."""


@dataclass(frozen=True, slots=True)
class ClientAnswer:
    """An answer as a client sent it."""

    id: str
    """The id of the `ClientWait`."""
    payload: Any = None
    """For a question a text or values by field, for an approval `{approved, reason, scope}`, for an external call its result."""
    is_declined: bool = False
    """Whether the client gives no answer: it declines the question, denies the call, or has no result."""
    error: str = ""
    """For an external call: why it has no result."""
    message_id: str = ""
    """Id of the message that is the answer, if it names no wait. The message is delivered once."""
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields that the client sent beside the payload. A decision on a call must have none."""
    edited_as: str = ""
    """Field of an approval with which the protocol edits the arguments of the call; empty if it has none."""
    arguments: Any = None
    """The arguments of the call as the client shows them, if it sends them."""
    is_old: bool = False
    """Whether the client has sent it with an earlier message. It is ignored once the wait is closed."""

    def as_given(self, view: WaitView, call_id: str = "") -> GivenAnswer:
        """Return the answer to a wait, or to one call of a wait for results.

        Fields that would be ignored, such as other arguments, are refused.
        """
        if view.kind == "approval":
            return self._decision(view)
        if view.kind == "tool_results":
            return Results([self.result_of(call_id)])
        return parse_payload(view, self.payload, declined=self.is_declined, reason=self._reason)

    def result_of(self, call_id: str) -> dict[str, Any]:
        """Return the result of an external call."""
        if self.is_declined or self.error:
            return {"tool_call_id": call_id, "error": self.error or "the caller gave no result"}
        return {"tool_call_id": call_id, "result": self.payload}

    def _decision(self, view: WaitView) -> Decision:
        if self.arguments is not None and not is_same(self.arguments, write_exact(view.payload)):
            raise InvalidInput(f"the decision shows other arguments than those of the call; {NO_EDIT_HERE}")
        fields = {**self._fields, **self.more}
        if self.is_declined:
            fields.pop(self.edited_as, None)
            fields |= {"approved": False, "reason": self._reason, "scope": "call"}
        return parse_decision(view, fields, DECISION, edited_as=self.edited_as)

    @property
    def _fields(self) -> dict[str, Any]:
        payload: Any = self.payload
        return cast("dict[str, Any]", payload) if isinstance(payload, dict) else {}

    @property
    def _reason(self) -> str:
        reason = self._fields.get("reason", self.payload)
        return reason if isinstance(reason, str) else ""


@dataclass(frozen=True, slots=True)
class Result:
    tool_call_id: str
    payload: Any = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """A user interface's request for a turn.

    Each protocol parses its own body into one.
    """

    sent: Sequence[IncomingMessage] = ()
    """The newest messages of the user, in order. The turn is that of the last one."""
    answers: Sequence[ClientAnswer] = ()
    """Answers to the waits of the conversation."""
    results: Sequence[Result] = ()
    """Results that the client has seen last, or made itself. Those of external calls go to the run."""
    seen: Sequence[str] = ()
    """Ids of waits whose answers the client has seen."""
    edits: Literal["", "words", "again"] = ""
    """What the last message means if the conversation has one of its id.

    `words` edits that message if its words differ, `again` has it answered again, and otherwise other words are refused.
    """


@dataclass(frozen=True, slots=True)
class CheckedAnswers:
    """Answers that the run would take now, and those that it has already."""

    open: Sequence[tuple[WaitView, GivenAnswer, str]]
    """The wait of each answer, the answer, and the id of its message."""
    ids: Mapping[tuple[str, str], list[str]]
    """The ids of all answers, by run and wait."""

    def without_results(self, still: Collection[tuple[str, str]]) -> "CheckedAnswers":
        """Return the answers without results for waits that are not among these."""
        left = [
            each
            for each in self.open
            if each[0].kind != "tool_results" or (each[0].run_id, each[0].await_id) in still
        ]
        return CheckedAnswers(left, self.ids)


async def begin(
    service: Service,
    asking: Principal,
    agent_id: str,
    session_id: str,
    request: TurnRequest,
) -> TurnStream:
    """Send the messages and the answers, each once by its id, and return the turn.

    Everything is checked before anything is sent.
    """
    service.agent(agent_id)
    sent, answers, results = request.sent, request.answers, request.results
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
            then="Send the conversation's messages. The last one is the user's.",
        )
    session = await service.session(asking, agent_id, session_id)
    checked = await _check_given(service, asking, session.run, answers, results)
    after, message_id, is_new = "", None, False
    if sent and "user" in asking.roles:
        await subscribe_early(service.client, session.run)
        for each in sent:
            edits = request.edits if each is sent[-1] else ""
            turn = await _send(service, session, each, asking, edits)
            after, message_id, is_new = (
                turn.after,
                None if turn.is_answer else each.message_id,
                not turn.is_repeated,
            )
    run = session.run
    had = {*request.seen, *(each.id for each in answers), *(f"#{each.tool_call_id}" for each in results)}
    if is_new and had:  # events after the message have no answers from before it
        had &= {each.id for each in waits_of_status(await run.status())}
    if sent and results:  # the message may have ended the turn whose calls waited for them
        still = {(each.view.run_id, each.view.await_id) for each in waits_of_status(await run.status())}
        checked = checked.without_results(still)
    await send_answers(service, asking, run, checked)
    return TurnStream(service.feeds, run, Begin(after, message_id, frozenset(had)), checked.ids)


async def _check_given(
    service: Service,
    asking: Principal,
    run: Run,
    answers: Sequence[ClientAnswer],
    results: Sequence[Result],
) -> CheckedAnswers:
    if not answers and not results:
        return CheckedAnswers((), {})
    try:
        waits = waits_of_status(await run.status())
    except RunNotFound:  # the first message of a conversation, with results of an earlier one
        if answers:
            raise
        waits = []
    given = [*answers, *_external_results(waits, results)]
    return await check_answers(service, asking, run, given, {each.id: each for each in waits})


async def _send(
    service: Service, session: Session, sent: IncomingMessage, asking: Principal, edits: str
) -> SessionTurn:
    """Send a message, which may edit the one that the conversation has under its id."""
    stored = await with_files(service, asking, sent.whole, session.run.id)
    turn = await session.send(stored, message_id=sent.message_id, by=asking.subject)
    if edits == "again" and turn.is_repeated:
        timeline = await read_branches(session)
        if not _has_reply(timeline, sent.message_id):
            return turn
        return await edit_message(session, asking, sent.message_id, branches=timeline.branches)
    try:
        await require_same(turn, sent.message, may_have_context=sent.context is not None)
    except Problem as problem:
        if problem.code != MESSAGE_EDITED or edits != "words":
            raise
        return await edit_message(session, asking, sent.message_id, stored)
    return turn


def _has_reply(timeline: Timeline, message_id: str) -> bool:
    """Return whether the reply to a message is complete."""
    answered = opened_by(timeline, message_id)
    if answered is not None:
        return answered.is_over
    joined, interim = timeline.joined_turn(message_id), timeline.interim_plan(message_id)
    if joined is None or any(each.message_id == message_id for each in joined.messages):
        return False
    return joined.is_over or (interim is not None and interim.message is not None)


async def _without_old(run: Run, answers: Sequence[ClientAnswer]) -> Sequence[ClientAnswer]:
    if not any(each.is_old for each in answers):
        return answers
    still = {each.id for each in waits_of_status(await run.status())}
    return [each for each in answers if each.id in still or not each.is_old]


def _external_results(waits: Sequence[ClientWait], results: Sequence[Result]) -> list[ClientAnswer]:
    known = {each.tool_call_id: each for each in results}
    return [
        ClientAnswer(wait.id, payload=result.payload, error=result.error)
        for wait in waits
        for call in wait.view.calls
        if (result := known.get(call.tool_call_id))
    ]


async def check_answers(
    service: Service,
    asking: Principal,
    run: Run,
    answers: Sequence[ClientAnswer],
    waits: Mapping[str, ClientWait],
) -> CheckedAnswers:
    """Check all answers before the first is sent.

    The role, the kind, the digest and the form must fit, and the answer of a wait that is closed. A client may send an answer again that its wait has.
    """
    given: dict[tuple[str, str], tuple[WaitView, GivenAnswer, str]] = {}
    ids: dict[tuple[str, str], list[str]] = {}
    for answer in answers:
        wait = waits.get(answer.id)
        if wait is None:
            key = await _check_repeated(service, run, asking, answer, [each.view for each in waits.values()])
        else:
            view, key = wait.view, (wait.view.run_id, wait.view.await_id)
            sent = answer.as_given(view, view.calls[0].tool_call_id if view.calls else "")
            bind_answer(**audit_facts(view, sent))
            check_answer(asking, view, sent, service.app.tool_spec)
            if key in given and isinstance(sent, Results) and isinstance(before := given[key][1], Results):
                view, sent = given[key][0], Results([*before.results, *sent.results])
            given[key] = (view, sent, answer.message_id)
        ids.setdefault(key, []).append(answer.id)
    # The author's function that judges a decision runs last, and only the run asks it: its refusal comes before the rest is sent.
    ordered = sorted(given.values(), key=lambda each: not each[0].approver_check)
    return CheckedAnswers(ordered, ids)


async def send_answers(service: Service, asking: Principal, run: Run, checked: CheckedAnswers) -> None:
    """Send the answers that were checked."""
    for view, sent, message_id in checked.open:
        await submit_answer(service, asking, view, sent, message_id=message_id, conversation=run)


async def find_closed(service: Service, run: Run, id: str) -> tuple[WaitEnd, WaitView] | None:
    waiting = Run(run.client, WaitRef.parse(id, run.id).run_id)

    def is_named(view: WaitView) -> bool:
        return any(ref.token(run.id) == id for ref, _ in view.refs())

    try:
        found = await find_closed_wait(waiting, is_named, recent=service.feeds.recent(waiting.id))
    except (InvalidInput, RunNotFound):
        return None
    return (found[0], wait_view(found[0].wait, found[0].event.run_id)) if found and found[0].wait else None


async def _check_repeated(
    service: Service, run: Run, asking: Principal, answer: ClientAnswer, views: Sequence[WaitView]
) -> tuple[str, str]:
    """Check that a closed wait has this answer from before, and return its run and id."""
    ref = WaitRef.parse(answer.id, run.id)
    check_may_answer(asking, ref, Decision(approved=False) if ref.digest else Answer(""))
    found = await find_closed(service, run, answer.id)
    if found is not None:
        end, view = found
        (given_ref,) = (each for each, _ in view.refs() if each.token(run.id) == answer.id)
        given = answer.as_given(view, given_ref.call_id)
        accept_repetition(asking, end, given)
        return view.run_id, view.await_id
    changed = next((each for each in views if each.key == f"{ref.run_id} {ref.await_id}"), None)
    if changed is not None and ref.digest:
        message = f"{ref.run_id}: {ref.await_id} is about other arguments than those of this digest"
        raise StaleDigest(message, run_id=run.id, await_id=ref.await_id, digest=changed.digest or "")
    if ref.call_id:  # its call has a result, and others of the wait have none: the run compares
        given = Results([answer.result_of(ref.call_id)])
        await submit_answer(service, asking, WaitRef(ref.run_id, ref.await_id), given)
        return ref.run_id, ref.await_id
    message = f"{ref.run_id}: nothing called {ref.await_id[:120]} is open"
    raise UnknownWait(message, run_id=run.id, await_id=ref.await_id)


def disconnect_callback(turn: TurnStream, asking: Principal) -> DisconnectCallback | None:
    """Return a callback that ends the turn, if the principal may interrupt.

    A message whose turn has not begun stays queued. One that is answered while a call waits ends nothing: the turn is that of an
    earlier message, and its approval would be closed.
    """

    async def leave() -> None:
        with suppress(SojournError):
            if turn.tree.top.is_beside_turn(turn.message_id or ""):
                return
            turn_id = turn.turn_id or ("" if turn.message_id else (await turn.run.status()).turn_id)
            if turn_id:
                await turn.run.interrupt("the client left", by=asking.subject, turn_id=turn_id)

    return leave if "user" in asking.roles else None


@dataclass(slots=True)
class _Listener:
    """Subscription to the live text of one run, shared by concurrent requests."""

    task: asyncio.Task[None]
    requests: int = 0


_listeners: dict[Hashable, _Listener] = {}
"""By client and run."""


async def subscribe_early(client: Client, run: Run) -> None:
    """Subscribe to the live text of a run until this request ends.

    The run need not exist yet. Workers write no live text without a subscriber, so the first words would
    be lost.
    """
    key = (id(client), run.id)
    listener = _listeners.get(key)
    if listener is None or listener.task.done():
        topic = topic_of(client.temporal.namespace, run.id)
        task = asyncio.create_task(_listen(client, topic), name=f"early subscription to {run.id}")
        listener = _listeners[key] = _Listener(task)
    listener.requests += 1
    if (request := asyncio.current_task()) is not None:
        request.add_done_callback(lambda _: _leave(key, listener))
    await asyncio.sleep(0)


def _leave(key: Hashable, listener: _Listener) -> None:
    listener.requests -= 1
    if listener.requests:
        return
    listener.task.cancel()
    if _listeners.get(key) is listener:
        del _listeners[key]


async def _listen(client: Client, topic: str) -> None:
    with suppress(Exception):  # if the transport fails, only live text is lost
        async with asyncio.timeout(LONGEST), aclosing(client.live.subscribe(topic)) as news:
            async for _ in news:
                pass
