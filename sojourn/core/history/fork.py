"""Build the state with which a fork begins."""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.dispatch import Dispatch, ForkedStep
from sojourn.contracts.ids import place_in
from sojourn.contracts.message import Message, ToolCallPart
from sojourn.contracts.run import ForkChange, ForkedFrom
from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.awaits.envelope import Rejection
from sojourn.core.awaits.kinds import kind_of
from sojourn.core.awaits.principals import without_roles
from sojourn.core.awaits.waits import Repeated, Waits
from sojourn.core.history.fold_step import StepSoFar
from sojourn.core.history.fork_points import EffectsMade, ForkPoint, as_done
from sojourn.core.run.approval import confirmation_id
from sojourn.core.run.continuation import Continuation
from sojourn.core.run.effects import has_effect, without_steps
from sojourn.core.run.inbox import Inbox, SentMessage
from sojourn.core.run.outcomes import failure_result
from sojourn.core.run.state import RunState
from sojourn.core.run.totals import ActiveTime, RunTotals
from sojourn.core.run.transcript import Packed
from sojourn.core.run.turns import join_interim, receive_message
from sojourn.values.frozen import copy_with
from sojourn.values.text import clip, readable
from sojourn.values.wire import size_of

__all__ = [
    "MAX_GIVEN",
    "Change",
    "approval_to_repeat",
    "changes_of",
    "edit_fault",
    "make_fork",
]


@dataclass(frozen=True, slots=True)
class Change:
    """The change with which a fork differs from its origin."""

    message: str | None = None
    """A user message for the planner, which begins a user turn."""
    results: Mapping[str, ToolResult] = field(default_factory=dict[str, ToolResult])
    """Results in place of those that calls of the last step had, by call id."""
    answer: str | Mapping[str, Any] | None = None
    asks: str | None = None
    """The call of the last step that needs a new decision of a person."""
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """Replaced arguments of calls of the last step, by call id.

    The calls are carried out with these.
    """


def make_fork(
    point: ForkPoint, change: Change, origin: ForkedFrom, now: datetime, effects: EffectsMade
) -> Continuation | str:
    """Return the state that the fork begins with, or why the change does not fit."""
    state, waits_for = point.state, point.waits_for
    messages = point.transcript
    again = point.step and _repeat_call(point.step, change, origin.run_id)
    if point.step and again:
        state = _carry_unknown(point.step.state, point.step, {again.call_id}, effects)
        # The messages that were new to the planner are new to the policy engine.
        state = copy_with(state, unseen=state.planned_from)
        messages = messages[:-1]  # the plan's message, which comes again once the calls are judged
    elif point.step:
        state = _settle(point.step, change.results, origin.run_id, now, effects)
    elif waits_for and waits_for.await_ and change.answer is not None:
        answered = _answer(state, waits_for, change.answer)
        if isinstance(answered, str):
            return answered
        state, waits_for = answered, None
    elif waits_for and change.message is not None:
        if waits_for.wait_ is None:
            return "the planner waits for the answer to a question here; give an answer in place of a message"
        state, waits_for = state.slept(waits_for.wait_, now, is_over=False), None
    state = _carry_effects(state, point, change, effects, {again.call_id} if again else (), origin.run_id)
    state = _begin_anew(state, origin, waits_for, again)
    if change.message is not None and state.is_idle:
        state = _receive(state, Message.user(change.message))
    elif change.message is not None:
        state = copy_with(state, new=(*state.new, Message.user(change.message)))
        state = state.turn_begun() if state.plans else state
    packed = Packed()
    packed.extend(messages)
    return Continuation(
        state, packed.segments(), waits_for, now if waits_for else None, forked=again and again.step
    )


def _carry_effects(
    state: RunState,
    point: ForkPoint,
    change: Change,
    effects: EffectsMade,
    again: Collection[str],
    run_id: str,
) -> RunState:
    key_run_id = state.opening.key_run_id or run_id
    carried = effects.after(
        point.steps,
        again=again,
        unsettled=state.unsettled,
        unexecuted=state.unexecuted,
        carried=state.carried,
        key_run_id=key_run_id,
    )
    had = effects.effects_after(point.steps, again=again)
    unexecuted = tuple(call_id for call_id in state.unexecuted if call_id not in had)
    # Those with keys of their own are carried with these: the fork's id would make other ones.
    state = copy_with(
        state,
        unsettled=tuple(
            call_id for call_id in state.unsettled if not effects.has_own_key(call_id, point.steps)
        ),
        unexecuted=tuple(call_id for call_id in unexecuted if not effects.has_own_key(call_id, point.steps)),
    )
    # A change, or the next message of a conversation, may be why a step has other arguments. Then it is another effect.
    is_same = change == Change() and not state.opening.conversation
    return copy_with(state, carried=carried if is_same else without_steps(carried)) if carried else state


def _receive(state: RunState, message: Message) -> RunState:
    received, _ = receive_message(state, SentMessage("", message, size=size_of(message)), place_in(0, 1))
    return received


def approval_to_repeat(step: StepSoFar, call_id: str) -> AwaitConfirmation | None:
    """Return the approval that a call of a step needs, or None if it needs none."""
    calls = zip(step.plan.calls, step.plan.dispatches, strict=False)
    return next((dispatch.confirm for call, dispatch in calls if call.tool_call_id == call_id), None)


def edit_fault(step: StepSoFar, call_id: str) -> str | None:
    """Return why a call of a step cannot run with other arguments, or None if it can."""
    calls = zip(step.plan.calls, step.plan.dispatches, strict=False)
    kind = next((dispatch.kind for call, dispatch in calls if call.tool_call_id == call_id), None)
    if kind in ("activity", "local"):
        return None
    if kind == "child":
        return "the child run of the call was planned by its arguments; fork with a message instead"
    return "the call was not carried out by a worker, so that other arguments change nothing"


@dataclass(frozen=True, slots=True)
class _Again:
    """A call that is carried out again, in the step that it belongs to."""

    call_id: str
    step: ForkedStep


def _repeat_call(step: StepSoFar, change: Change, run_id: str) -> _Again | None:
    call_id = change.asks or next(iter(change.arguments), None)
    if call_id is None:
        return None
    message = step.plan.message or Message.calls(step.plan.calls)
    arguments = change.arguments.get(call_id)
    if arguments is not None:
        edited = {"payload": dict(arguments), "raw": None}
        parts = [
            part.model_copy(update=edited)
            if isinstance(part, ToolCallPart) and part.tool_call_id == call_id
            else part
            for part in message.parts
        ]
        message = message.model_copy(update={"parts": parts})
    results = [
        step.results.get(call.tool_call_id) or _not_executed(call, run_id)
        for call in step.plan.calls
        if call.tool_call_id != call_id
    ]
    forked_step = ForkedStep(
        message=message,
        results=results,
        dispatches={
            call.tool_call_id: Dispatch(kind=made.kind, taints=made.taints, closed=made.closed)
            for call, made in zip(step.plan.calls, step.plan.dispatches, strict=False)
            if call.tool_call_id in step.results
        },
        edited=[] if arguments is None else [call_id],
        asks=approval_to_repeat(step, call_id) if change.asks else None,
    )
    return _Again(call_id, forked_step)


def _begin_anew(
    state: RunState, origin: ForkedFrom, waits_for: PlanOutcome | None, again: _Again | None
) -> RunState:
    # The run has counted nothing yet, and holds no person's decisions.
    # What was said while approvals were open comes behind the results of their step.
    interim = tuple(copy_with(each, is_over=True) for each in state.interim) if again else ()
    state = state if again else join_interim(state)
    is_stopped = state.safeguards.finalize() is not None
    limit = state.limit if is_stopped else None
    notice = Message.system(state.limit.notice) if state.limit and not is_stopped else None
    is_asked = waits_for is not None and waits_for.await_ is not None
    waits = state.waits
    asked_again = confirmation_id(again.call_id) if again else None
    return RunState(
        opening=state.opening.model_copy(
            update={
                "messages": [],
                "parent": None,
                "forked_from": origin,
                "key_run_id": state.opening.key_run_id or origin.run_id,
            }
        ),
        policy=state.policy,
        is_policy_known=state.is_policy_known,
        agreed=state.agreed,
        turn=state.turn,
        plans=state.plans,
        accepted_attempt=state.accepted_attempt,
        planned_from=state.planned_from,
        turn_start=state.turn_start,
        opened_after=state.opened_after,
        unseen=state.unseen,
        totals=RunTotals(),
        safeguards=state.safeguards,
        active=ActiveTime(budget=state.active.budget),
        waits=Waits(
            open=waits.open if is_asked else {},
            answers={id: digest for id, digest in waits.answers.items() if id != asked_again},
            payloads=waits.payloads,
        ),
        limit=limit,
        phase=_phase(state, waits_for, is_last=limit is not None),
        inbox=_copy_messages(state),
        taken=state.taken,
        interim=interim,
        sender=state.sender,
        askers=state.askers,
        new=tuple(message for message in state.new if message != notice),
        resume_messages=state.resume_messages,
        artifacts=state.artifacts,
        unsettled=state.unsettled,
        unexecuted=state.unexecuted,
        carried=state.carried,
        # A lift is a decision about one run.
        taint=state.taint and state.taint.model_copy(update={"lifted": 0}),
        memory=state.memory,
    )


def _copy_messages(state: RunState) -> Inbox:
    # The user who forks the run sends the copies.
    starter = state.opening.principal
    waiting = tuple(
        copy_with(sent, asked_by=without_roles(sent.asked_by or sent.principal or starter))
        for sent in state.inbox.waiting
    )
    return copy_with(state.inbox, waiting=waiting)


def _phase(state: RunState, waits_for: PlanOutcome | None, *, is_last: bool) -> str:
    if waits_for:
        return "waiting"
    if is_last:
        return "finalizing"
    return "idle" if state.is_idle else "planning"


def _answer(state: RunState, plan: PlanOutcome, answer: str | Mapping[str, Any]) -> RunState | str:
    wait = next(iter(state.waits.open.values()))
    kind = kind_of(wait)
    if kind.given is None:
        return f"{wait.id} is no question of the planner"
    given = kind.given(answer if isinstance(answer, str) else dict(answer))
    read = state.waits.read(kind.name, {"id": wait.id, **given})
    if isinstance(read, Rejection):
        return read.reason
    assert not isinstance(read, Repeated)  # the wait is open
    return copy_with(state, waits=state.waits.closed(wait.id, read)).answered(plan, read)


def _settle(
    step: StepSoFar, replaced: Mapping[str, ToolResult], run_id: str, now: datetime, effects: EffectsMade
) -> RunState:
    # Answered calls keep their results. The others are answered as not executed.
    executed = [
        _replace(step.results.get(call.tool_call_id), replaced.get(call.tool_call_id))
        or _not_executed(call, run_id)
        for call, _ in zip(step.plan.calls, step.plan.dispatches, strict=False)
    ]
    active = ActiveTime(budget=step.state.active.budget)
    state = _carry_unknown(step.state, step, replaced, effects)
    state = copy_with(state, limit=None, active=active, totals=RunTotals())
    safeguards = state.judge_step(step.plan.calls, executed, now)
    return state.settled(step.plan, executed, safeguards, now)


def _replace(known: ToolResult | None, by: ToolResult | None) -> ToolResult | None:
    # Another result takes no mark of text from outside away.
    return by.model_copy(update={"taint": known.taint}) if by and known and known.taint else by or known


def _carry_unknown(
    state: RunState, step: StepSoFar, known: Collection[str], effects: EffectsMade
) -> RunState:
    # The origin may have carried out such calls, or may do so yet.
    unsettled, unexecuted = dict.fromkeys(state.unsettled), dict.fromkeys(state.unexecuted)
    carried = dict(enumerate(state.carried))
    for call, dispatch in zip(step.plan.calls, step.plan.dispatches, strict=False):
        call_id, effect = call.tool_call_id, dispatch.effect
        if not has_effect(dispatch) or call_id in step.results or call_id in known:
            continue
        first = effect.tool_call_id if effect else call_id
        index = effect.carried if effect else None
        if call_id not in effects.results or effects.may_have_acted(call_id):
            if index is None:
                unsettled.setdefault(first)
                unexecuted.pop(first, None)
            elif index in carried:
                carried[index] = as_done(carried[index])
        elif effects.is_unexecuted(call_id) and index is None and first not in unsettled:
            unexecuted.setdefault(first)
    return copy_with(
        state, unsettled=tuple(unsettled), unexecuted=tuple(unexecuted), carried=tuple(carried.values())
    )


def _not_executed(call: ToolRequest, run_id: str) -> ToolResult:
    why = (
        f"not executed in this run, which was forked from {run_id} before the call was answered there; "
        "request it again if it is still needed"
    )
    return failure_result(call, ToolError.new(why, code="not_executed"))


MAX_GIVEN = 500
"""Most characters of the given input to record. The digest covers all of it."""


def changes_of(change: Change, calls: Mapping[str, ToolRequest], *, approve: bool | None) -> list[ForkChange]:
    """Return the record of a change."""
    found: list[ForkChange] = []
    for call_id, result in change.results.items():
        given = result.result if result.error is None else {"error": str(result.error)}
        found.append(_describe_change("result", given, calls.get(call_id)))
    for call_id, arguments in change.arguments.items():
        found.append(_describe_change("arguments", dict(arguments), calls.get(call_id)))
    if change.answer is not None:
        found.append(_describe_change("answer", change.answer))
    if change.asks is not None:
        decided = "" if approve is None else "approve" if approve else "deny"
        found.append(_describe_change("decision", decided, calls.get(change.asks)))
    if change.message is not None:
        found.append(_describe_change("message", change.message))
    return found


def _describe_change(kind: str, value: Any, call: ToolRequest | None = None) -> ForkChange:
    is_text = isinstance(value, str) and kind != "result"
    text = value if is_text else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    return ForkChange(
        kind=kind,
        tool_call_id=call.tool_call_id if call else "",
        tool=call.name if call else "",
        given=clip(readable(text), MAX_GIVEN),
        digest=hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest(),
    )
