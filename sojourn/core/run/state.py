"""Hold the run state in one frozen value with pure transitions.

The workflow applies a transition after an await, and the fold applies the same one when it reads the
history. So the live status and the folded status are built from equal values. `turns.py` has the transitions of a
conversation's turns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sojourn.contracts.dispatch import CarriedEffect, Dispatch
from sojourn.contracts.message import Message
from sojourn.contracts.plan import Finalize, PolicyDecision
from sojourn.contracts.principal import Principal
from sojourn.contracts.quota import Admission
from sojourn.contracts.run import CallStatus, NoticeKind, RunInput, RunOutput, Spent
from sojourn.contracts.run_policy import Caps, Limits, RunPolicy
from sojourn.contracts.taint import Taint
from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import Artifact, ToolResult
from sojourn.core.awaits.confirmation import Decided
from sojourn.core.awaits.kinds import Answer, PlannerAnswer
from sojourn.core.awaits.principals import acting_principal, askers_of, is_same
from sojourn.core.awaits.steering import PauseRequest, ResumeRequest, is_overtaken
from sojourn.core.awaits.waits import Waits
from sojourn.core.payload.memory import MemoryChange, apply_patches, memory_after, memory_fault
from sojourn.core.payload.unknown_outcome import Doubt, mark_doubts
from sojourn.core.run.effects import (
    carried_after,
    doubts_after,
    has_step_acted,
    unexecuted_after,
    unsettled_after,
    without_steps,
)
from sojourn.core.run.ids import turn_after
from sojourn.core.run.inbox import BranchRequest, Inbox
from sojourn.core.run.interim import InterimAnswer
from sojourn.core.run.limits import (
    caps_left,
    exhausted_limit,
    finalize,
    limit_error,
    limits_of,
    lower_policy,
    turn_policy,
    used_up_limit,
)
from sojourn.core.run.plan_rules import not_executed
from sojourn.core.run.run_input import (
    add_labels,
    is_visible_to,
    turn_start_of,
    viewers_of,
)
from sojourn.core.run.set_aside import MAX_SET_ASIDE, SetAsideRequest
from sojourn.core.run.taint import lift_taint, taint_after, taint_at_start
from sojourn.core.run.totals import (
    MAX_ARTIFACTS,
    ActiveTime,
    RunTotals,
    add_usage,
    count_step,
    spending_of,
)
from sojourn.core.run.transcript import Claim, for_planner, reply
from sojourn.core.safeguards.judge import SafeguardState
from sojourn.values.frozen import copy_with
from sojourn.values.timers import seconds_of

__all__ = ["INTERRUPTED", "MAX_CALLS_SHOWN", "MAX_NOTES", "RunState", "call_status"]

MAX_CALLS_SHOWN = 100

MAX_CALLS_CARRIED = 20
"""Finished calls kept for the status when the run continues as new.

It has all calls in progress.
"""

_IN_PROGRESS = ("running", "waiting")

INTERRUPTED = "interrupted"
"""The code of a turn that was interrupted."""

MAX_NOTES = 20


@dataclass(frozen=True)
class RunState:
    """All that a run knows between two awaits, except its transcript.

    Some fields grow. `waits` grows with every wait of the run: the digest of its answer (`answers`) and, of a
    confirmation, of its arguments (`payloads`); of an external wait the calls and their results (`parts`); and
    with every release (`releases`). `new` and `resume_messages` grow with messages that no planner has received
    yet, and `interim` with messages that are answered while a step waits. All others are bounded: `calls` by 100, `notes` by 20, `artifacts` by 100 references, `memory` by 64 KB, `safeguards` by
    their last records.
    """

    opening: RunInput
    """The input of the run, with the labels that the policy engine has added."""
    policy: RunPolicy = field(default_factory=RunPolicy)
    """The limits in force, from the first plan's result on."""
    is_policy_known: bool = False
    agreed: RunPolicy | None = None
    """In a conversation: the policy with which each turn begins.

    The session and the policy engine may tighten it for a turn.
    """
    turn: int = 1
    """The number of the user turn, from 1."""
    plans: int = 0
    """Number of plans begun."""
    accepted_attempt: int = 1
    """The attempt of `PlanActivity` that made the last plan."""
    planned_from: int = 0
    """Number of messages of the transcript before the last plan's new messages."""
    turn_start: int = 0
    """Index in the transcript of the first message that opened the present turn.

    Outside a conversation, of the one that opened the run, if it began with earlier messages.
    """
    opened_after: int | None = None
    """Number of messages in `new` that precede the turn's opening messages.

    None outside a conversation, or once the turn has a plan.
    """
    unseen: int | None = None
    """Index of the first message that no planner has seen, if a plan was discarded."""
    totals: RunTotals = field(default_factory=RunTotals)
    safeguards: SafeguardState = field(default_factory=SafeguardState)
    active: ActiveTime = field(default_factory=ActiveTime)
    waits: Waits = field(default_factory=Waits)
    paused: PauseRequest | None = None
    last_steering: int = 0
    """The number of the last pause or resume from a parent run that was applied."""
    limit: Finalize | None = None
    """Why the next turn is the last; None while more turns may follow."""
    unanswered_for: ToolError | None = None
    """Why the last turn gave no answer."""
    phase: str = "planning"
    """`planning`, `executing_tools`, `waiting`, `finalizing`, `idle`, or empty.

    A conversation is `idle` between its turns. Empty once the run has its answer.
    """
    new: tuple[Message, ...] = ()
    """The new messages for the next plan."""
    inbox: Inbox = field(default_factory=Inbox)
    """In a conversation: the messages that wait, and those that are known."""
    taken: tuple[str, ...] = ()
    """In a conversation: the ids of the messages of the present turn."""
    interim: tuple[InterimAnswer, ...] = ()
    """In a conversation: messages that were answered while approvals of the present step are open. The next plan gets them."""
    partial: str = ""
    """The text that the last plan had streamed when it was canceled; empty once another begins."""
    sender: Principal | None = None
    """The sender of the present turn's message, or None for the run's starter.

    It has only the roles that all senders of messages in the turn share.
    """
    askers: tuple[Principal, ...] = ()
    """The principals behind the present turn, without roles.

    These are the senders of its messages, of answers to its questions and of results from outside, also in its child runs,
    and those of an interrupted turn before it. In a fork, also those of its origin. In a child run, also those of its
    parent's turn.
    """
    participants: tuple[str, ...] = ()
    """In a conversation that not all of its tenant may see: the senders' marks."""
    opening_turn: int = 0
    """In a conversation: `turn` when the present turn opened, before any answer."""
    turns: int = 0
    """In a conversation: the number of turns that have ended."""
    earlier: RunTotals = field(default_factory=RunTotals)
    """In a conversation: the totals of those turns."""
    interrupted: str | None = None
    """In a conversation: why the present turn is being ended, or None."""
    branching: BranchRequest | None = None
    """In a conversation: from where it goes on once the present turn has ended, or None."""
    branches: int = 0
    """In a conversation: how often it went on, or was to go on, from an earlier point."""
    closing: str | None = None
    """Why a conversation ends once no message waits, or None if it stays open."""
    resume_messages: tuple[Message, ...] = ()
    """A person's messages with a resume, and records of content that was set aside.

    The next plan gets them after `new`.
    """
    set_aside: tuple[str, ...] = ()
    """The targets that an operator has set aside, as `SetAsideRequest.target`."""
    calls: Mapping[str, CallStatus] = field(default_factory=dict[str, CallStatus])
    notes: tuple[str, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    unsettled: tuple[str, ...] = ()
    """Failed calls that may have taken effect, and that no later call has settled."""
    unexecuted: tuple[str, ...] = ()
    """The calls that their tool has refused as not carried out, and that no equal call has repeated."""
    carried: tuple[CarriedEffect, ...] = ()
    """In a fork: effects of the origin after the fork, which no call has settled."""
    doubts: Mapping[str, Doubt] = field(default_factory=dict[str, Doubt])
    """Doubts about failed calls that may have taken effect all the same.

    They are calls of the run, or of a conversation's present turn.
    """
    has_acted: bool = False
    """Whether one of the calls took effect, or may have."""
    taint: Taint | None = None
    """The text from outside that the run has read; None if the run began under a version that did not follow it."""
    memory: Mapping[str, Any] = field(default_factory=dict[str, Any])
    executions: int = 0
    """Number of executions of the run before the present one."""
    notices: tuple[NoticeKind, ...] = ()
    """The kinds of notices that the run gives, as the last plan says."""
    archives: bool = False
    """Whether the workers of the run archive its events."""
    storage_fails: bool = False
    """Whether the transcript could not be stored when the run last continued as new."""
    archived: int = 0
    """Number of executions, from the first one, whose events are archived."""
    archive: Claim | None = None
    """The claim of the last part of the archive."""
    began: datetime | None = None
    """When the run began, if it has continued as new."""
    place: int = 0
    """The number of the plan with which the run asked its tenant's ledger for a place; 0 if it has none, or has given it up.

    Only the run itself knows it, and no reader of its history.
    """
    has_quota: bool = False
    """Whether its tenant had a quota when the run last asked."""
    queued: Admission | None = None
    """What of the tenant's quota the run waits for, or None."""

    @classmethod
    def opened(cls, opening: RunInput) -> "RunState":
        budget = opening.policy.time_budget if opening.policy else None
        waits = opening.conversation and not opening.messages
        return cls(
            opening,
            new=tuple(opening.messages),
            active=ActiveTime(budget=budget or None),
            phase="idle" if waits else "planning",
            turn_start=turn_start_of(opening.messages),
            askers=askers_of(opening.also_asked_by),
            taint=taint_at_start(opening),
        )

    # Read.

    @property
    def is_tainted(self) -> bool:
        """Whether the run has read text from outside that counts."""
        return self.taint is not None and self.taint.is_active

    @property
    def acts_for(self) -> Principal | None:
        """The principal for whom the run acts now: the sender of the turn's message.

        Every call of the present turn is made for this principal. A turn has one subject from its first
        plan to its end, but its roles may become fewer. Answers, decisions and results from outside
        change nothing.
        """
        is_sender = self.sender is not None and not self.is_for_starter
        return self.sender if is_sender else self.opening.principal

    @property
    def also_asked_by(self) -> tuple[Principal, ...]:
        """The principals behind the present turn beside `acts_for`, without roles."""
        return tuple(each for each in self.askers if not is_same(each, self.acts_for))

    @property
    def _askers_beside_parent(self) -> list[Principal]:
        """In a child run, the principals behind its turn that its parent does not know."""
        known = askers_of(self.opening.also_asked_by, self.opening.principal)
        return [each for each in self.askers if each not in known] if self.opening.parent else []

    @property
    def known_taint(self) -> Taint | None:
        """The text from outside that the run has read, or None if it has read none."""
        return self.taint and self.taint.since(0)

    @property
    def _taint_to_report(self) -> Taint | None:
        """In a child run, the text from outside that its parent does not know."""
        # The parent knows the files with which it called, too.
        return self.taint and self.taint.since(
            taint_at_start(self.opening).count if self.opening.parent else 0
        )

    def asked_below(self, ended: RunOutput | Spent | None) -> "RunState":
        """Return the state once a child run has ended.

        The users who spoke in the child run have requested what the parent makes of its answer or
        error.
        """
        more = ended.also_asked_by if ended else []
        return copy_with(self, askers=askers_of(self.askers, *more)) if more else self

    @property
    def is_for_starter(self) -> bool:
        """Whether the run acts for its starter, and not for the senders of messages."""
        session = self.policy.session
        return session is not None and session.acts_for == "starter"

    @property
    def viewers(self) -> tuple[str, ...]:
        """The marks of the principals who may see the run over HTTP, beside operators.

        It is empty if the run's whole tenant may see it.
        """
        return viewers_of(self.opening, self.participants)

    def admits(self, principal: Principal | None) -> bool:
        """Return whether the run accepts input from a principal.

        It accepts it from a principal who may see the run, and from a program that acts for no
        principal.
        """
        return is_visible_to(self.viewers, principal)

    @property
    def turn_id(self) -> str:
        return turn_after(self.opening.turn_id, self.turn)

    @property
    def limits(self) -> Limits:
        return limits_of(self.policy)

    def caps(self, now: datetime) -> Caps:
        return caps_left(self.policy, self.totals, self.active.active_time(now))

    def spending(self, now: datetime) -> Spent | None:
        """Return the run's spending, for its parent, or None if it is all zero."""
        return spending_of(
            self.totals,
            list(self.artifacts),
            self._active_time(now),
            has_acted=self.has_acted,
            also_asked_by=self._askers_beside_parent,
            taint=self._taint_to_report,
        )

    def in_doubt(self, error: ToolError) -> ToolError:
        """Return the error of the run or its present turn."""
        return mark_doubts(error, self.doubts.values())

    def output(self, plan: PlanOutcome, run_id: str, now: datetime) -> RunOutput:
        assert plan.final is not None
        return self.output_with(
            self.totals,
            run_id=run_id,
            final=plan.final,
            result=plan.result,
            reason=self.limit.reason if self.limit else "answered",
            error=self.in_doubt(limit_error(self.limit, self.unanswered_for)) if self.limit else None,
            active_time=self._active_time(now),
            may_have_acted=self.has_acted and self.limit is not None,
            also_asked_by=self._askers_beside_parent,
            taint=self._taint_to_report,
        )

    def output_with(self, totals: RunTotals, **fields: Any) -> RunOutput:
        """Return an output with these figures and fields."""
        return RunOutput(
            agent_id=self.opening.agent_id,
            tool_calls=totals.tool_calls,
            rounds=totals.rounds,
            children_count=totals.children_count,
            telemetry=totals.telemetry,
            usage=totals.usage,
            notes=list(self.notes),
            artifacts=list(self.artifacts),
            **fields,
        )

    def _active_time(self, now: datetime) -> timedelta | None:
        return self.active.active_time(now) if self.active.budget else None

    # Plan.

    def planning(self) -> "RunState":
        """Begin to plan.

        Used-up tokens or money make this turn the last.
        """
        state = self if self.limit else self.limited(used_up_limit(self.policy, self.totals))
        return copy_with(state, phase="finalizing" if state.limit else "planning")

    def plan_begun(self, after: int) -> "RunState":
        """Hand the new messages to a planner."""
        start = self.turn_start if self.opened_after is None else after + self.opened_after
        return copy_with(
            self,
            plans=self.plans + 1,
            new=(),
            resume_messages=(),
            planned_from=after,
            turn_start=start,
            opened_after=None,
            partial="",
        )

    def queued_by(self, admission: Admission) -> "RunState":
        """Wait for a place in the quota of the tenant, with a plan that has begun."""
        return copy_with(self, queued=admission, has_quota=True)

    def asking_again(self) -> "RunState":
        """Have the same plan made, now that there may be a place."""
        return copy_with(self, queued=None)

    def without_place(self) -> "RunState":
        """Give the place up, since the run ends or only waits."""
        return copy_with(self, place=0, queued=None) if self.place or self.queued else self

    def without_new_place(self) -> "RunState":
        """Give up the place for which the last plan has asked, since no answer came."""
        return self.without_place() if self.place == self.plans else self

    def plan_canceled(self, details: Sequence[Any]) -> "RunState":
        """Keep the text that a canceled plan had streamed.

        Its activity reports the text as the only detail.
        """
        text = details[0] if len(details) == 1 else None
        return copy_with(self, partial=text) if isinstance(text, str) else self

    def plan_cut_off(self, before: "RunState") -> "RunState":
        """Take back a plan that an interruption has cut off.

        Nothing of the plan is recorded, so the next plan gets its new messages.
        """
        return copy_with(
            self,
            plans=before.plans,
            new=(*before.new, *self.new),
            resume_messages=(*before.resume_messages, *self.resume_messages),
            planned_from=before.planned_from,
            turn_start=before.turn_start,
            opened_after=before.opened_after,
        )

    def planned(self, plan: PlanOutcome, now: datetime) -> "RunState":
        """Take a plan's policy, policy decision, notes and usage into the state."""
        state = copy_with(self, accepted_attempt=plan.attempt, unseen=None, notices=tuple(plan.notices))
        if plan.policy:
            state = state.agreeing(plan.policy)
        if plan.opening_taint and state.taint is not None:
            state = copy_with(state, taint=state.taint.joining(plan.opening_taint, None))
        if plan.decision:
            state = state.tightened(plan.decision, now)
        if plan.visibility == "subject" and state.opening.parent is None:
            state = copy_with(state, opening=state.opening.model_copy(update={"visibility": plan.visibility}))
        if state.is_policy_known and state.policy.time_budget != state.active.budget:
            state = copy_with(state, active=copy_with(state.active, budget=state.policy.time_budget))
        if plan.quota:
            state = copy_with(state, has_quota=True)
        totals = copy_with(state.totals, usage=add_usage(state.totals.usage, plan.usage))
        return copy_with(state.with_notes(*plan.notes), totals=totals)

    def agreeing(self, policy: RunPolicy) -> "RunState":
        """Return the state with the policy of the run.

        In a conversation, the policy has only the rest that the earlier turns left.
        """
        agreed = policy if self.opening.conversation else None
        return copy_with(self, policy=turn_policy(policy, self.earlier), agreed=agreed, is_policy_known=True)

    def tightened(self, decision: PolicyDecision, now: datetime) -> "RunState":
        """Apply the policy engine's caps and labels from now on."""
        state = self
        if decision.caps:
            spent = self.active.active_time(now)
            state = copy_with(state, policy=lower_policy(self.policy, decision.caps, self.totals, spent))
        if decision.labels:
            labels = add_labels(self.opening.labels, decision.labels)
            state = copy_with(state, opening=self.opening.model_copy(update={"labels": labels}))
        return state

    def remembering(self, plan: PlanOutcome) -> "RunState":
        """Return the state with an accepted plan's changes of the memory."""
        if not plan.memory:
            return self
        if memory_fault(self.memory, plan.memory):  # the plan was completed by hand
            return self.with_notes("the memory was not changed by a plan, since it would be too large")
        return copy_with(self, memory=memory_after(self.memory, plan.memory))

    def plan_refused(self, plan: PlanOutcome) -> "RunState":
        """Tell the planner why its plan cannot be carried out."""
        refusal = Message.system(f"The last plan was refused: {plan.fault}.")
        return copy_with(self.with_notes(f"planner fault: {plan.fault}"), new=(refusal,))

    def out_of_time(self) -> "RunState":
        """End a plan at the time budget.

        The next turn is the last, and its planner gets the same new messages.
        """
        active = copy_with(self.active, expired=True)
        state = copy_with(self, active=active, phase="finalizing", unseen=self.planned_from)
        return state.limited(state.time_is_up)

    # Call tools.

    def step_begun(self, calls: Sequence[ToolRequest], dispatches: Sequence[Dispatch]) -> "RunState":
        """Begin a step.

        Admitted calls run. Calls without a dispatch were not admitted.
        """
        state = copy_with(self, phase="executing_tools")
        for call in calls[: len(dispatches)]:
            state = state.with_call(
                CallStatus(tool_call_id=call.tool_call_id, name=call.name, state="running")
            )
        return state

    def with_call(self, call: CallStatus) -> "RunState":
        calls = {**self.calls, call.tool_call_id: call}
        if len(calls) > MAX_CALLS_SHOWN:
            del calls[next(iter(calls))]
        return copy_with(self, calls=calls)

    def judge_step(
        self, calls: Sequence[ToolRequest], executed: Sequence[ToolResult], now: datetime
    ) -> SafeguardState:
        """Return the safeguards after a step.

        The run's policy sets the number of similar errors that stop it.
        """
        return self.safeguards.settle(calls, executed, now, similar_errors=self.policy.similar_errors)

    def settled(
        self, plan: PlanOutcome, executed: Sequence[ToolResult], safeguards: SafeguardState, now: datetime
    ) -> "RunState":
        """End a step whose calls are all answered.

        This updates totals, safeguards, artifacts and limits.
        """
        refused = [not_executed(call, plan.refused, self.limits) for call in plan.calls[len(executed) :]]
        state = self
        for result in refused:
            state = state.with_call(call_status(result))
        made = [artifact for result in executed for artifact in result.artifacts]
        results = Message.results([for_planner(result) for result in (*executed, *refused)])
        state, notices = state.remembered_by(apply_patches(self.memory, executed))
        state = copy_with(
            state,
            totals=count_step(self.totals, executed),
            safeguards=safeguards,
            artifacts=(*self.artifacts, *made)[-MAX_ARTIFACTS:],
            unsettled=unsettled_after(self.unsettled, plan, executed),
            unexecuted=unexecuted_after(self.unexecuted, plan, executed),
            carried=carried_after(self.carried, plan, executed),
            doubts=doubts_after(self.doubts, plan, executed),
            taint=taint_after(self.taint, plan, executed, now),
            has_acted=self.has_acted or has_step_acted(plan, executed),
            new=(results, *notices),
        )
        if state.active.is_used_up(now):
            return state.limited(state.time_is_up)
        return state.limited(
            safeguards.finalize() or exhausted_limit(state.policy, state.totals, plan.refused, executed)
        )

    def remembered_by(self, changes: Sequence[MemoryChange]) -> tuple["RunState", list[Message]]:
        """Return the state with the memory changes of a step, and its refusals."""
        if not changes:
            return self, []
        notices = [change.notice for change in changes if change.refused]
        state = copy_with(self.with_notes(*notices), memory=changes[-1].memory)
        return state, [Message.system(notice) for notice in notices]

    @property
    def time_is_up(self) -> Finalize:
        """Why the next turn is the last, once the time budget is used up."""
        return finalize(self.policy.model_copy(update={"time_budget": self.active.budget}), "time_budget")

    def limited(self, limit: Finalize | None) -> "RunState":
        """Make the next turn the last, for this reason."""
        if limit is None:
            return copy_with(self, limit=None)
        state = copy_with(self, limit=limit, new=(*self.new, Message.system(limit.notice)))
        is_known = self.limit is not None and self.limit.reason == limit.reason
        return state if is_known else state.with_notes(f"limit reached: {limit.reason}")

    def history_full(self) -> "RunState":
        """Make the next turn the last, because the history is near the server's limit."""
        return self.limited(finalize(self.policy, "history"))

    # Wait.

    def slept(self, duration: timedelta, now: datetime, *, is_over: bool) -> "RunState":
        """End a sleep."""
        seconds = f"{seconds_of(duration)} s"
        text = f"Waited {seconds}." if is_over else f"The wait of {seconds} was cut short."
        state = copy_with(self, new=(Message.system(text),), safeguards=self.safeguards.after_wait())
        return state.limited(state.time_is_up) if state.active.is_used_up(now) else state

    def waiting(self) -> "RunState":
        """Begin a sleep, or a wait for the answer to a planner's question."""
        return copy_with(self.without_place(), phase="waiting")

    def answered(self, plan: PlanOutcome, answer: Answer | None) -> "RunState":
        """Apply the answer to a planner's question, or its expiry.

        An answer begins a new user turn.

        Raises:
            TypeError: No planner reads an answer of this kind.
        """
        assert plan.await_
        unseen = self.planned_from if plan.asked_by_policy else None
        state = copy_with(self, unseen=unseen, carried=without_steps(self.carried))
        if answer is None:
            nobody = Message.system(f"Nobody answered within {plan.await_.expires_after}.")
            return copy_with(state, new=(reply(plan, nobody),))
        if not isinstance(answer, PlannerAnswer):
            raise TypeError(f"no planner reads a {type(answer).__name__}")
        return copy_with(state, new=(reply(plan, answer.message),)).turn_begun()

    def settled_by(self, answer: Answer) -> tuple["RunState", list[Answer]]:
        """Return the state after an accepted answer to an open wait, and all answers.

        The answers are the accepted one and those that follow from it. A user or program that answers a
        question, or gives a result from outside, says something that later calls of the turn may be
        made of, and so has requested them too. A decision on a call says nothing of that kind.
        """
        waits, settled = self.waits.answered(answer)
        askers = self.askers if isinstance(answer, Decided) else askers_of(self.askers, answer.principal)
        taint = lift_taint(self.taint, self.waits.open.get(answer.await_id), answer)
        return copy_with(self, waits=waits, askers=askers, taint=taint), settled

    def turn_begun(self) -> "RunState":
        """Begin a user turn after a person's message.

        Rounds and loops count from zero, and `max_tool_rounds` is lifted.
        """
        state = copy_with(
            self,
            turn=self.turn + 1,
            totals=copy_with(self.totals, turn_rounds=0),
            safeguards=self.safeguards.new_turn(),
        )
        if self.limit is None or self.limit.reason != "max_tool_rounds":
            return state
        notice = Message.system(self.limit.notice)
        new = tuple(message for message in self.new if message != notice)
        phase = "planning" if self.phase == "finalizing" else self.phase
        return copy_with(state, limit=None, new=new, phase=phase)

    def steered(self, message: PauseRequest | ResumeRequest, now: datetime) -> tuple["RunState", bool]:
        """Return the state after a pause or resume, and whether the run applies it."""
        if is_overtaken(message, self.last_steering):
            return self, False
        state = copy_with(self, last_steering=message.number or self.last_steering)
        if isinstance(message, ResumeRequest) and self.paused is None:
            return state, False
        paused = message if isinstance(message, PauseRequest) else None
        state = copy_with(state, paused=paused, active=self.active.stopped(now, paused=paused is not None))
        if isinstance(message, ResumeRequest) and message.messages:
            resume_messages = (*self.resume_messages, *(Message.user(text) for text in message.messages))
            sender = acting_principal(self.acts_for, message.principal) if message.principal else self.sender
            askers = askers_of(self.askers, message.principal)
            state = copy_with(
                state,
                resume_messages=resume_messages,
                sender=sender,
                askers=askers,
                carried=without_steps(self.carried),
            ).turn_begun()
        return state, True

    def set_aside_fault(self, request: SetAsideRequest, length: int) -> str | None:
        """Return why something cannot be set aside, or None."""
        if request.message >= length:
            return (
                f"the transcript has {length} messages in their final order, from 0 on, and no message {request.message} yet; "
                "set it aside after the run's next plan"
            )
        if len(self.set_aside) >= MAX_SET_ASIDE and request.target not in self.set_aside:
            return f"{MAX_SET_ASIDE} messages and results are set aside already; fork the run before what spoils it"
        return None

    def setting_aside(self, request: SetAsideRequest) -> "RunState":
        """Return the state in which planners no longer read a message or a result.

        It stays the same if that was set aside before.
        """
        if request.target in self.set_aside:
            return self
        return copy_with(
            self,
            set_aside=(*self.set_aside, request.target),
            resume_messages=(*self.resume_messages, request.record),
        ).with_notes(request.note)

    @property
    def is_idle(self) -> bool:
        """Whether a conversation is between two turns."""
        return self.phase == "idle"

    # Note.

    def with_notes(self, *notes: str) -> "RunState":
        return copy_with(self, notes=(*self.notes, *notes)[-MAX_NOTES:]) if notes else self

    def without_note(self, note: str) -> "RunState":
        """Remove this note, by identity: an equal note made elsewhere stays."""
        return copy_with(self, notes=tuple(each for each in self.notes if each is not note))

    # Go on in another execution, or end.

    def continued(self, started: datetime) -> "RunState":
        """Return the state with which the next execution begins."""
        opening = self.opening.model_copy(update={"messages": []})
        last = list(self.calls)[-MAX_CALLS_CARRIED:]
        calls = {id_: call for id_, call in self.calls.items() if id_ in last or call.state in _IN_PROGRESS}
        return copy_with(
            self, executions=self.executions + 1, began=self.began or started, opening=opening, calls=calls
        )

    def storing(self, *, fails: bool) -> "RunState":
        return self if self.storage_fails == fails else copy_with(self, storage_fails=fails)

    def archiving(self, archives: bool) -> "RunState":
        return self if self.archives == archives else copy_with(self, archives=archives)

    def unanswered(self, why: ToolError) -> "RunState":
        return copy_with(self, unanswered_for=why)

    def ended(self) -> "RunState":
        """Return the state of a run that is over: no wait is open."""
        state = self.without_place()
        return copy_with(state, phase="", paused=None, waits=copy_with(self.waits, open={}))

    def finished(self) -> "RunState":
        """Return the state of a run that has its answer."""
        return copy_with(self.without_place(), phase="", new=())


def call_status(result: ToolResult) -> CallStatus:
    code = result.error.code if result.error else None
    state = "done" if result.ok else code if code in ("denied", "not_executed") else "failed"
    return CallStatus(
        tool_call_id=result.tool_call_id,
        name=result.name,
        state=state or "failed",
        error=str(result.error)[:200] if result.error else None,
        run_link=result.run_link,
    )
