"""Open, join, interrupt and end the turns of a conversation.

These are pure transitions like those of `RunState`, which has what every run does.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial

from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.message import Message
from sojourn.contracts.plan import Finalize
from sojourn.contracts.principal import Principal
from sojourn.contracts.run import RunOutput
from sojourn.contracts.taint import Taint
from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.tool_error import ToolError
from sojourn.core.awaits.confirmation import Decided
from sojourn.core.awaits.principals import acting_principal, askers_of, is_same
from sojourn.core.run.ids import turn_after
from sojourn.core.run.inbox import SentMessage
from sojourn.core.run.interim import InterimAnswer, answering, has_room, interim_messages
from sojourn.core.run.limits import (
    IDLE_TIMEOUT,
    limit_error,
    session_end,
    used_up_limit,
)
from sojourn.core.run.outcomes import MAX_FAULTS, correct_usage
from sojourn.core.run.run_input import (
    MAX_VIEWERS,
    mark_of,
)
from sojourn.core.run.set_aside import failure_notice
from sojourn.core.run.state import INTERRUPTED, RunState
from sojourn.core.run.taint import taint_by_files
from sojourn.core.run.totals import (
    ActiveTime,
    RunTotals,
    add_totals,
    add_usage,
)
from sojourn.core.run.transcript import reply
from sojourn.values.frozen import copy_with
from sojourn.values.text import clip

__all__ = [
    "apply_interim",
    "begin_interim",
    "close_question",
    "closing_output",
    "deny_by_message",
    "end_turn",
    "fail_interim",
    "find_interim",
    "interrupt_turn",
    "interruption_error",
    "is_in_turn",
    "join_interim",
    "join_turn",
    "open_turn",
    "receive_message",
    "session_limit",
    "withdraw_message",
]


MAX_DENIAL = 2_000
"""Longest message that is the reason of a denial, in characters. The planner reads all of it as a message."""


def open_turn(run: RunState, message_ids: Sequence[str] = ()) -> RunState:
    """Open a turn with the first message that waits.

    Everything that limits and counts a turn begins at zero.
    """
    inbox, opening = run.inbox.taking(message_ids) if message_ids else run.inbox.opening()
    is_first = run.plans == 0 and run.turns == 0
    turn = run.turn if is_first else run.turn + 1
    state = run.agreeing(run.agreed) if run.agreed else run
    budget = state.policy.time_budget if run.agreed else run.active.budget
    return copy_with(
        state,
        inbox=inbox,
        taken=tuple(sent.message_id for sent in opening),
        sender=acting_principal(None, *(sent.principal for sent in opening)),
        askers=_with_senders(run.askers, opening),
        opened_after=len(run.new),
        new=(*run.new, *(sent.message for sent in opening)),
        taint=_taint_by(run, opening),
        turn=turn,
        opening_turn=turn,
        waits=copy_with(run.waits, turn=turn),
        totals=RunTotals(),
        safeguards=run.safeguards if is_first else run.safeguards.after_stop().new_turn(),
        active=ActiveTime(budget=budget, paused=run.active.paused),
        limit=None,
        unanswered_for=None,
        doubts={},
        phase="planning",
    )


def join_turn(
    run: RunState, message_ids: Sequence[str] = (), *, before_step: bool = False
) -> tuple[RunState, list[str]]:
    """Return the state with the messages that steer the present turn, and their ids.

    They join the turn before its next plan, behind those that were answered while approvals were open. Before a step that
    a fork carries out again, the latter stay behind the results of that step.
    """
    run = run if before_step else join_interim(run)
    inbox, steers = (
        run.inbox.taking(message_ids) if message_ids else run.inbox.steering(partial(_may_join, run))
    )
    if not steers:
        return run, []
    ids = [sent.message_id for sent in steers]
    new = (*run.new, *(sent.message for sent in steers))
    sender = acting_principal(run.sender, *(sent.principal for sent in steers))
    askers, taken = _with_senders(run.askers, steers), (*run.taken, *ids)
    taint = _taint_by(run, steers)
    return copy_with(run, inbox=inbox, taken=taken, sender=sender, askers=askers, new=new, taint=taint), ids


def _taint_by(run: RunState, sent: Sequence[SentMessage]) -> Taint | None:
    return run.taint and taint_by_files(run.taint, [each.message for each in sent])


def _may_join(run: RunState, sent: SentMessage) -> bool:
    # The message of another sender opens a turn of its own.
    return run.is_for_starter or is_same(sent.principal or run.opening.principal, run.acts_for)


def receive_message(run: RunState, sent: SentMessage, after: str) -> tuple[RunState, SentMessage]:
    """Return the state with a further message, and that message with an id.

    The message may interrupt the present turn.
    """
    inbox, sent = run.inbox.accepted(sent, after)
    state = copy_with(run, inbox=inbox)
    if sent.principal and run.viewers and (mark := mark_of(sent.principal)) not in run.viewers:
        state = copy_with(state, participants=(*run.participants, mark)[:MAX_VIEWERS])
    return (interrupt_turn(state, "") if sent.mode == "interrupt" else state), sent


def deny_by_message(
    run: RunState, message_id: str, await_ids: Collection[str] | None = None
) -> tuple[RunState, list[Decided]]:
    """Return the state after a message, and the open approvals that it denies.

    A message that denies steers the present turn, so that its planner answers it. Only a message that may join the turn
    denies. That takes no role, since its sender may interrupt the turn, which closes its approvals too.

    Args:
        run: The state, which has accepted the message.
        message_id: The message.
        await_ids: The approvals that it denied, as the history has them; by default those that it denies now.
    """
    sent = next((each for each in run.inbox.waiting if each.message_id == message_id), None)
    if sent is None or sent.mode != "queue" or not _may_join(run, sent):
        return run, []
    reason = clip(sent.message.text.strip(), MAX_DENIAL) or "a message came first"
    denials = [
        Decided(wait.id, approved=False, reason=reason, by=sent.by, principal=sent.principal)
        for wait in run.waits.open.values()
        if isinstance(wait, AwaitConfirmation)
        and (wait.on_message == "deny" if await_ids is None else wait.id in await_ids)
    ]
    if not denials:
        return run, []
    steering = copy_with(sent, mode="steer")
    waiting = tuple(steering if each is sent else each for each in run.inbox.waiting)
    return copy_with(run, inbox=copy_with(run.inbox, waiting=waiting)), denials


def find_interim(run: RunState, now: datetime) -> SentMessage | None:
    """Return the message to answer while only approvals are open, or None.

    All of the open waits have to be approvals whose policy says so. The message is the first one that waits for a turn and may join
    the present one. Nothing begins in a run that is paused, or has used up a limit.
    """
    waits = run.waits.open.values()
    lets = all(isinstance(wait, AwaitConfirmation) and wait.on_message == "answer" for wait in waits)
    is_stopped = run.paused is not None or run.interrupted is not None or run.limit is not None
    if not (waits and lets) or is_stopped or answering(run.interim) or run.active.is_used_up(now):
        return None
    if used_up_limit(run.policy, run.totals):
        return None
    found = next((sent for sent in run.inbox.waiting if sent.mode == "queue" and _may_join(run, sent)), None)
    return found if found and has_room(run.interim) else None


def begin_interim(run: RunState, message_id: str) -> RunState:
    """Return the state in which a message that waited is being answered.

    The message belongs to the present turn from here on.
    """
    inbox, found = run.inbox.taking([message_id])
    interim = (*run.interim, *(InterimAnswer(sent) for sent in found))
    taken = (*run.taken, *(sent.message_id for sent in found))
    return copy_with(run, inbox=inbox, interim=interim, taken=taken, taint=_taint_by(run, found))


def apply_interim(run: RunState, plan: PlanOutcome) -> RunState:
    """Return the state after a plan for the message that is being answered.

    Only its answer, its usage and its notes count. A plan that does anything else is refused like any faulty plan.
    """
    usage = plan.usage and correct_usage(plan.usage)
    totals = copy_with(run.totals, usage=add_usage(run.totals.usage, usage))
    state = copy_with(run.with_notes(*plan.notes), totals=totals)
    if plan.failure and not plan.fault:
        return fail_interim(state)
    answer = None if plan.calls or plan.await_ or plan.wait_ or plan.fault else plan.final
    present = run.interim[-1]
    if answer is not None:
        ended = copy_with(present, answer=answer, is_over=True)
        return copy_with(state, interim=(*run.interim[:-1], ended))
    fault = plan.fault or "it does not answer the message"
    refused = copy_with(present, fault=fault, faults=present.faults + 1)
    state = copy_with(state.with_notes(f"planner fault: {fault}"), interim=(*run.interim[:-1], refused))
    is_last = refused.faults > MAX_FAULTS or used_up_limit(state.policy, totals) is not None
    return fail_interim(state) if is_last else state


def fail_interim(run: RunState) -> RunState:
    """Return the state in which the message gets no answer of its own.

    The turn's next plan reads it.
    """
    failed = copy_with(run.interim[-1], is_over=True)
    return copy_with(run, interim=(*run.interim[:-1], failed))


def join_interim(run: RunState) -> RunState:
    """Return the state in which the next plan gets what was said meanwhile.

    That is the messages that were answered while approvals were open, with their answers.
    """
    if not run.interim:
        return run
    sent = [each.sent for each in run.interim]
    return copy_with(
        run,
        interim=(),
        sender=acting_principal(run.sender, *(each.principal for each in sent)),
        askers=_with_senders(run.askers, sent),
        new=(*run.new, *interim_messages(run.interim)),
    )


def withdraw_message(run: RunState, message_id: str) -> RunState:
    """Return the state without a message that waits.

    The state stays the same if the message does not wait. A turn that the message has interrupted ends all the same.
    """
    inbox = run.inbox.withdrawing(message_id)
    return run if inbox is run.inbox else copy_with(run, inbox=inbox)


def is_in_turn(run: RunState, turn_id: str) -> bool:
    """Return whether a turn id is one that the present turn has had.

    In a conversation, a turn may have several ids: an answer to a question begins a further one.
    """
    turns = range(run.opening_turn or run.turn, run.turn + 1)
    return any(turn_after(run.opening.turn_id, turn) == turn_id for turn in turns)


def interrupt_turn(run: RunState, reason: str, turn_id: str = "") -> RunState:
    """End the present turn, so that nothing more begins in it.

    The state stays the same if there is no turn, it is interrupted already, or another one is meant.
    """
    if run.is_idle or run.interrupted is not None or (turn_id and not is_in_turn(run, turn_id)):
        return run
    waits = run.waits
    for await_id in waits.open:
        waits = waits.closed(await_id)
    return copy_with(run, interrupted=reason, waits=waits)


def close_question(run: RunState, plan: PlanOutcome) -> RunState:
    """Close the planner's question, whose turn is interrupted."""
    closed = reply(plan, Message.system("The question was closed, because the turn was interrupted."))
    return copy_with(run, unseen=run.planned_from if plan.asked_by_policy else None, new=(closed,))


def interruption_error(run: RunState) -> ToolError:
    """Return the error of a turn that was interrupted."""
    why = f": {run.interrupted}" if run.interrupted else ""
    return ToolError.new(f"the turn was interrupted{why}", code=INTERRUPTED)


def end_turn(run: RunState, failure: ToolError | None = None) -> RunState:
    """End a turn.

    The planner of the next turn learns why this one failed. If the turn was interrupted, it also
    gets the messages that no planner has seen, and the text that was streamed.
    """
    run = join_interim(run).without_place()
    told = () if failure is None else (failure_notice(failure),)
    unseen = None
    if run.interrupted is not None:
        notice = run.limit and Message.system(run.limit.notice)
        said = (Message.assistant(run.partial),) if run.partial.strip() else ()
        told = (*(message for message in run.new if message != notice), *said, *told)
        is_planning = run.phase in ("planning", "finalizing") and not run.new
        unseen = run.planned_from if is_planning and run.unseen is None else run.unseen
    return copy_with(
        run,
        phase="idle",
        turns=run.turns + 1,
        earlier=add_totals(run.earlier, run.totals),
        totals=RunTotals(),
        taken=(),
        sender=None,
        askers=() if run.interrupted is None else askers_of(run.askers, run.acts_for),
        new=told,
        limit=None,
        unseen=unseen,
        interrupted=None,
        partial="",
    )


def session_limit(run: RunState) -> Finalize | None:
    """Return the limit that lets no further turn begin, or None."""
    return session_end(run.policy, run.turns, run.earlier)


def closing_output(run: RunState, run_id: str, limit: Finalize | None = None) -> RunOutput:
    """Return the output of a conversation that was closed, or that ends by a limit.

    Its figures are the sums over its turns.
    """
    is_used_up = limit is not None and limit.reason != IDLE_TIMEOUT
    return run.output_with(
        run.earlier,
        run_id=run_id,
        final=Message.assistant(limit.message if limit else run.closing or ""),
        reason=limit.reason if limit else "closed",
        error=limit_error(limit) if limit and is_used_up else None,
    )


def _with_senders(askers: Sequence[Principal], sent: Sequence[SentMessage]) -> tuple[Principal, ...]:
    """Return the askers of a turn, and the senders of further messages."""
    return askers_of(askers, *(who for each in sent for who in (each.principal, each.asked_by)))
