"""Build the beginning of a fork, from a run's history and the requested change."""

import asyncio
import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from temporalio.client import Client, WorkflowHistory
from temporalio.converter import StorageDriver
from temporalio.service import RPCError

from sojourn.archive import store_segment
from sojourn.client.conversation_id import conversation_id, conversation_prefix, tenant_prefix
from sojourn.client.start import generate_id
from sojourn.connection.rpc_errors import translate_error
from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.event import Event
from sojourn.contracts.ids import place_of
from sojourn.contracts.message import Message
from sojourn.contracts.principal import Principal, principal_fault
from sojourn.contracts.run import ForkedFrom, RunInput, RunStatus
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.awaits.deciding import ask_in_fork, may_decide, refusal_of
from sojourn.core.awaits.factories import describe_other_call
from sojourn.core.awaits.principals import askers_of, without_roles
from sojourn.core.history.fork import Change, approval_to_repeat, changes_of, edit_fault, make_fork
from sojourn.core.history.fork_points import ForkPoint
from sojourn.core.payload.boundary import parse_call
from sojourn.core.payload.unknown_outcome import changes_nothing
from sojourn.core.run.approval import APPROVE, confirmation_id
from sojourn.core.run.continuation import Continuation, write_continuation
from sojourn.core.run.effects import has_acted, is_settled
from sojourn.core.run.run_input import messages_fault
from sojourn.core.run.transcript import Packed
from sojourn.errors import InvalidInput, NoWorker
from sojourn.events.fork_point import ForkOrigin, origin_in_file, origin_on_server
from sojourn.events.one_run import histories_in
from sojourn.serving.pace import run_in_thread
from sojourn.timeline import Call
from sojourn.values.frozen import copy_with
from sojourn.values.json_fault import json_fault
from sojourn.values.text import clip, is_writable
from sojourn.values.visible import visible
from sojourn.values.wire import encode

if TYPE_CHECKING:
    from sojourn.authoring.app import App
    from sojourn.client.run import Run

__all__ = [
    "MAX_ORIGIN",
    "MISSING",
    "RETRYABLE",
    "Fork",
    "ForkRequest",
    "ForkReview",
    "UnknownEvent",
    "decide_when_asked",
    "decisions_in_fork",
    "edit_warning",
    "editable_call",
    "fork_id",
    "fork_of",
    "read_histories",
]

MAX_ORIGIN = 150
"""Most characters of a session id that the session id of its fork begins with."""

MAX_BY = 300
"""Most characters of the name of the user who forks."""

UNTIL_ASKED = timedelta(minutes=1)
"""Longest wait of a decision until its fork asks for it."""

RETRYABLE = ("failed", "timed_out", "terminated", "canceled")
"""Statuses of runs that ended without an answer, from which an operator may go on in a new run."""

MISSING: Any = object()
"""A placeholder if no result is replaced, because a result may be None."""


class UnknownEvent(InvalidInput):
    """The origin has no event of the id.

    Commands and the HTTP service each add how to list the ids.
    """

    then = "GET /v1/runs/{run_id}/events lists the ids of the events."


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """A run to fork, the point, and the change, as the arguments of `Client.fork`."""

    run_id: str
    at: str | None = None
    message: str | None = None
    result: Any = MISSING
    answer: str | Mapping[str, Any] | None = None
    approve: bool | None = None
    arguments: Mapping[str, Any] | None = None
    is_branch: bool = False
    """Whether the run itself goes on from the point, in another branch of its conversation."""


@dataclass(frozen=True, slots=True)
class ForkReview:
    """A fork that is about to start."""

    run_id: str
    """The id of the new run."""
    origin: ForkedFrom
    """The forked run, the change, and who forked it."""
    warning: str = ""
    """A warning that the origin carried out, or may have carried out, the call that the fork makes with other arguments; or empty."""


@dataclass(frozen=True, slots=True)
class Fork:
    """A fork that has not started yet."""

    begins: Continuation
    task_queue: str
    approval: str | None = None
    """The wait that is decided as soon as it is open."""
    warning: str = ""
    """A warning that the origin carried out, or may have carried out, the call that the fork makes with other arguments; or empty."""

    @property
    def link(self) -> ForkedFrom:
        """The origin of the fork, with the changes."""
        link = self.begins.state.opening.forked_from
        assert link
        return link

    @property
    def run(self) -> RunInput:
        """The run as its start describes it, with the messages of the transcript."""
        state = self.begins.state
        transcript = Packed.unpacked(self.begins.transcript).messages()
        return state.opening.model_copy(update={"messages": [*transcript, *state.new]})

    @property
    def run_id(self) -> str:
        """The default id of the new run.

        It is that of the fork's session, or a generated one.
        """
        opening = self.begins.state.opening
        if opening.conversation:
            return conversation_id(opening.agent_id, opening.session_id, opening.tenant)
        return generate_id(opening.agent_id, opening.tenant)

    def named(self, run_id: str | None) -> "Fork":
        """Return this fork, with a session of its own if it is a conversation."""
        opening = self.begins.state.opening
        if not opening.conversation:
            return self
        prefix = conversation_prefix(opening.agent_id, opening.tenant)
        session_id = (run_id or "").removeprefix(prefix)
        if run_id is None:
            session_id = f"{opening.session_id[:MAX_ORIGIN]}-fork-{uuid.uuid4().hex[:8]}".lstrip("-")
        elif not session_id or conversation_id(opening.agent_id, session_id, opening.tenant) != run_id:
            return self
        return self._opening_with(session_id=session_id)

    def asked_by(self, principal: Principal | None, origin: str, by: str | None = None) -> "Fork":
        """Return this fork with a record of the user who forked, and another principal."""
        if fault := principal_fault(principal):
            raise InvalidInput(fault, run_id=origin)
        who = {"by": by and clip(by, MAX_BY), "principal": without_roles(principal)}
        link = self.link.model_copy(update=who)
        if principal is None:
            return self._opening_with(forked_from=link)
        fork, state = self._opening_with(forked_from=link, principal=principal), self.begins.state
        # The sender of a copied message is the principal that forks, not that of the original.
        waiting = tuple(copy_with(sent, principal=None) for sent in state.inbox.waiting)
        askers = state.askers if state.is_idle else askers_of(state.askers, state.acts_for)
        state = copy_with(
            fork.begins.state,
            sender=None,
            askers=askers,
            inbox=copy_with(state.inbox, waiting=waiting),
        )
        return replace(fork, begins=copy_with(fork.begins, state=state))

    def why_not(self, principal: Principal | None, *, approved: bool) -> str | None:
        """Return why a principal may not decide on the call that the fork decides on.

        The reason is a clause, or None if the roles of the principal allow the decision. The approvers
        are those that the origin recorded. If the tool names others by now, the decision is void anyway.
        """
        asks = self.begins.forked and self.begins.forked.asks
        return refusal_of(ask_in_fork(asks, principal), principal, approved=approved) if asks else None

    def _opening_with(self, **fields: Any) -> "Fork":
        opening = self.begins.state.opening.model_copy(update=fields)
        return replace(
            self, begins=copy_with(self.begins, state=copy_with(self.begins.state, opening=opening))
        )

    async def fitting(self, client: Client, storage: StorageDriver | None, run_id: str) -> "Fork":
        """Return this fork, with too large a transcript moved to external storage."""
        if self.argument():
            return self
        packed = Packed.unpacked(self.begins.transcript)
        if storage is not None and len(packed):
            claim = await store_segment(client, storage, run_id, encode(packed.messages()))
            packed.move_to_storage(len(packed), claim)
        fork = replace(self, begins=copy_with(self.begins, transcript=packed.segments()))
        if fork.argument() is None:
            raise InvalidInput(
                "the transcript is too large to begin a run with, without external storage: "
                "Client.connect(storage=...)",
                run_id=run_id,
            )
        return fork

    def argument(self) -> dict[str, Any] | None:
        """Return the argument of the fork's workflow, or None if it is too large."""
        state = self.begins.state
        opening = state.opening.model_copy(update={"listed": True})
        return write_continuation(copy_with(self.begins, state=copy_with(state, opening=opening)))


def fork_id(origin: RunStatus, *parts: Any) -> str:
    """Return the id of a fork, which is the same for equal JSON values.

    The fork of a conversation is one too, with a session of its own.
    """
    mark = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
    if origin.conversation:
        session_id = f"{origin.session_id[:MAX_ORIGIN]}-fork-{mark[:8]}".lstrip("-")
        return conversation_id(origin.agent_id, session_id, origin.tenant)
    return f"{tenant_prefix(origin.tenant)}{origin.agent_id.rsplit('.', 1)[-1]}-{mark[:12]}"


def read_histories(run_id: str, path: str | PathLike[str]) -> list[WorkflowHistory]:
    """Return the histories of a run's executions, oldest first, from a file.

    `sojourn export --history` writes such a file.
    """
    try:
        histories = histories_in(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}", run_id=run_id) from error
    except ValueError as error:
        raise InvalidInput(
            f"{path} is not a history; write one with: sojourn export RUN --history FILE", run_id=run_id
        ) from error
    if (named := histories[-1].workflow_id) != run_id:
        raise InvalidInput(f"{path} is the history of run {named}, not of {run_id}", run_id=run_id)
    return histories


async def fork_of(
    client: Client,
    asked: ForkRequest,
    histories: Sequence[WorkflowHistory] = (),
    storage: StorageDriver | None = None,
    app: "App | None" = None,
) -> Fork:
    """Return the requested fork."""
    try:
        if histories:
            origin = await origin_in_file(client, histories, asked.at, storage)
        else:
            origin = await origin_on_server(client, asked.run_id, asked.at, storage)
    except RPCError as error:
        raise translate_error(error, asked.run_id) from error
    if asked.at and not origin.event:
        raise UnknownEvent(_no_event(asked.run_id, asked.at, origin.oldest), run_id=asked.run_id)
    origin.points.effects.is_branch = asked.is_branch
    if app is not None:
        agent_id = origin.points.fold.state.opening.agent_id
        tools = app.tools_of(agent_id).values()
        effects = origin.points.effects
        effects.reads = {tool.spec.id for tool in tools if changes_nothing(tool.spec)}
        effects.injected = {tool.spec.id: tool.spec.injected for tool in tools}
        effects.validators = {tool.spec.id: tool.validator for tool in tools}
    fork = _fork(origin, asked)
    if isinstance(fork, str):
        raise InvalidInput(fork, run_id=asked.run_id)
    if app is not None and (fault := await _unfit(app, fork)):
        raise InvalidInput(f"the arguments cannot be used: {fault}", run_id=asked.run_id)
    return fork


async def _unfit(app: "App", fork: Fork) -> str | None:
    """Return why edited arguments do not fit their tool, if the app knows it."""
    begins = fork.begins
    if begins.forked is None:
        return None
    tools = app.tools_of(begins.state.opening.agent_id)
    for call in begins.forked.calls:
        tool = tools.get(call.name) if call.tool_call_id in begins.forked.edited else None
        checked = await run_in_thread(partial(tool.check, call), on=call.payload) if tool else None
        if isinstance(checked, ToolResult) and checked.error:
            return str(checked.error)
    return None


async def decide_when_asked(
    run: "Run", approval: str, *, approve: bool, by: str | None, principal: Principal | None
) -> None:
    """Decide on the call of a fork once the fork asks about it.

    If the app as it is now does not ask, nothing is decided. A call that the origin may have
    carried out is not approved: the fork's question reports that, and no person has read it yet.
    """
    try:
        async with asyncio.timeout(UNTIL_ASKED.total_seconds()), aclosing(run.events()) as events:
            async for event in events:
                if event.type == "await_confirmation" and event.confirmation.id == approval:
                    decide = run.approve if approve else run.deny
                    if not (approve and event.confirmation.outcome_unknown):
                        await decide(event.confirmation, by=by, principal=principal)
                    return
                if event.type == "tool_end" and confirmation_id(event.tool_call_id) == approval:
                    return
    except TimeoutError as error:
        late = f"no worker has judged the call within {UNTIL_ASKED}; decide on it once the run asks"
        raise NoWorker(late, run_id=run.id) from error


def decisions_in_fork(wait: AwaitConfirmation, principal: Principal) -> list[str]:
    """Return `approve` and `deny`, as far as a principal may decide so in a fork."""
    asked = ask_in_fork(wait, principal)
    return [name for name in ("approve", "deny") if may_decide(asked, principal, approved=name == "approve")]


def editable_call(call: Call) -> Call | None:
    """Return a call with parsed arguments, or None if a fork cannot edit them."""
    read = None if call.child else parse_call(call.call)
    return replace(call, call=read) if isinstance(read, ToolRequest) else None


def edit_warning(call: Call, tool: ToolSpec | None) -> str:
    """Return a warning if the run carried out a call, or may have.

    With other arguments it is another call.
    """
    has_begun = call.state == "running" if call.result is None else has_acted(call.result)
    if not has_begun or (tool and changes_nothing(tool)):
        return ""
    return describe_other_call(call.call, "This run", visible)


def _no_event(run_id: str, at: str, oldest: str) -> str:
    try:
        is_gone = place_of(at) < place_of(oldest)
    except ValueError:
        is_gone = False
    if not is_gone:
        return f"run {run_id} has no event {at!r}"
    return f"the event {at} of run {run_id} can no longer be forked: the oldest that Temporal has not deleted is {oldest}"


def _fork(origin: ForkOrigin, asked: ForkRequest) -> Fork | str:
    chosen = _choose(origin, asked)
    if isinstance(chosen, str):
        return chosen
    point, change, approval = chosen
    calls = {call.tool_call_id: call for call in point.step.plan.calls} if point.step else {}
    link = ForkedFrom(
        run_id=asked.run_id,
        event_id=point.event_id,
        execution=origin.execution,
        at=asked.at or "",
        changes=changes_of(change, calls, approve=asked.approve),
    )
    begins = make_fork(point, change, link, datetime.now(UTC), origin.points.effects)
    if isinstance(begins, str):
        return begins
    return Fork(begins, origin.task_queue, approval, _warning(change, origin))


def _warning(change: Change, origin: ForkOrigin) -> str:
    """Return a warning if the origin may have carried out the changed call."""
    effects = origin.points.effects
    for call_id in change.arguments:
        made = effects.made.get(call_id)
        if made and made.call.name not in effects.reads and effects.may_have_acted(call_id):
            return describe_other_call(made.call, f"Run {origin.points.fold.run_id}", visible)
    return ""


_Choice = tuple[ForkPoint, Change, str | None]
"""The point, the change, and the wait to decide."""


def _choose(origin: ForkOrigin, asked: ForkRequest) -> _Choice | str:
    changes = (
        asked.result is not MISSING,
        *(each is not None for each in (asked.answer, asked.approve, asked.arguments)),
    )
    if sum(changes) > 1:
        return "give only one of result, answer, approve and arguments"
    if asked.message is not None and (fault := _message_fault(asked.message)):
        return fault
    where = f"at {asked.at}" if asked.at else "at its last point"
    if asked.approve is not None:
        return _choose_decision(origin, asked, where)
    if asked.arguments is not None:
        return _choose_arguments(origin, asked, where)
    if asked.result is not MISSING:
        return _choose_result(origin, asked, where)
    points = origin.points
    if asked.answer is not None:
        if points.asked is None:
            return f"the planner of run {asked.run_id} asks nothing {where}; name the event of its question with at"
        return points.asked, Change(asked.message, answer=asked.answer), None
    point = (points.answered if asked.message is not None else None) or points.last
    if point is None:
        return f"run {asked.run_id} has nothing to begin with {where}: its input cannot be read"
    return point, Change(asked.message), None


def _choose_decision(origin: ForkOrigin, asked: ForkRequest, where: str) -> _Choice | str:
    if asked.message is not None:
        return "a fork that decides on a call takes no message: the step goes on from there"
    point = origin.points.step
    call_id = origin.points.calls.get(_wait_at(origin), "")
    confirm = approval_to_repeat(point.step, call_id) if point and point.step else None
    if not (point and confirm):
        return f"run {asked.run_id} asked about no call {where}; name the event of the approval with at"
    return point, Change(asks=call_id), confirm.id


def _choose_arguments(origin: ForkOrigin, asked: ForkRequest, where: str) -> _Choice | str:
    if asked.message is not None:
        return "a fork that calls with other arguments takes no message: the step goes on from there"
    point, begun = origin.points.step, origin.event
    call_id = _call_at(origin) or origin.points.calls.get(_wait_at(origin), "")
    if begun is not None and begun.type == "tool_start":
        call_id = begun.tool_call_id
    known = {call.tool_call_id for call in point.step.plan.calls} if point and point.step else set[str]()
    if not (point and point.step and call_id in known):
        return f"run {asked.run_id} has no call {where}; name the event tool_start, tool_end or await_confirmation of the call with at"
    if (
        fault := _approval_fault(point)
        or edit_fault(point.step, call_id)
        or _arguments_fault(asked.arguments)
    ):
        return fault
    return point, Change(arguments={call_id: asked.arguments or {}}), None


def _approval_fault(point: ForkPoint) -> str | None:
    """Return why a step's calls must keep their arguments and results, or None.

    A flow had them approved, which no rule of the tools knows.
    """
    turn = point.transcript[point.state.turn_start :]
    if any(result.name == APPROVE for message in turn for result in message.tool_results):
        return (
            "a person decided in this turn on what the flow does, so its calls keep their arguments, and results whose outcome is "
            "known; fork at that decision, or before it"
        )
    return None


def _arguments_fault(given: Any) -> str | None:
    if not isinstance(given, Mapping):
        return "the arguments are an object"
    fault = json_fault(dict(cast("Mapping[str, Any]", given)))
    return f"the arguments cannot be used: {fault.message}" if fault else None


def _choose_result(origin: ForkOrigin, asked: ForkRequest, where: str) -> _Choice | str:
    point, call_id = origin.points.step, _call_at(origin)
    known = point.step.results.get(call_id) if point and point.step else None
    if not (point and known):
        return f"run {asked.run_id} has no result to replace {where}; name the event tool_end of the call with at"
    if known.name == APPROVE:
        return "what a person decided cannot be replaced by a result; fork with approve, so that a person decides again"
    # The result of a call whose outcome is unknown replaces nothing that was approved.
    is_unknown = known.error is not None and is_settled(known) is False
    if not is_unknown and (fault := _approval_fault(point)):
        return fault
    result = _result(known, asked.result)
    return result if isinstance(result, str) else (point, Change(asked.message, {call_id: result}), None)


def _message_fault(text: str) -> str | None:
    if not text.strip():
        return "the message is empty"
    return (
        messages_fault([Message.user(text)])
        if is_writable(text)
        else "the message cannot be written as UTF-8"
    )


def _wait_at(origin: ForkOrigin) -> str:
    event = origin.event
    if event is None:
        return origin.last_wait
    if event.type == "await_confirmation":
        return event.confirmation.id
    if event.type == "await_answered":
        return event.await_id
    if event.type == "approval_given":
        return event.await_id
    call_id = _call_of(event)
    waits = [wait for wait, call in origin.points.calls.items() if call == call_id]
    return waits[-1] if waits else ""


def _call_at(origin: ForkOrigin) -> str:
    return _call_of(origin.event) if origin.event else origin.last_call


def _call_of(event: Event) -> str:
    return getattr(event, "tool_call_id", "") if event.type in ("tool_end", "tool_result_received") else ""


def _result(known: ToolResult, given: Any) -> ToolResult | str:
    if isinstance(given, ToolResult):
        return given.model_copy(update={"name": known.name, "tool_call_id": known.tool_call_id})
    if fault := json_fault(given):
        return f"the result cannot be used: {fault.message}"
    return ToolResult(name=known.name, tool_call_id=known.tool_call_id, result=given)
