"""RunState: what a run keeps, one frozen value with pure transitions.

The workflow applies a transition where it has awaited something, the fold where it reads the same from the history;
so the live status and the folded one are built of equal values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sojourn.contracts.artifact import Artifact
from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.message import Message
from sojourn.contracts.plan import Finalize
from sojourn.contracts.policy_decision import PolicyDecision
from sojourn.contracts.run import CallStatus, RunInput, RunOutput
from sojourn.contracts.run_policy import Caps, Limits, RunPolicy
from sojourn.contracts.spent import Spent
from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.awaits.clarification import Clarified
from sojourn.core.awaits.steering import Paused, Resumed, is_overtaken
from sojourn.core.awaits.waits import Waits
from sojourn.core.run.active_time import ActiveTime
from sojourn.core.run.admission import not_executed
from sojourn.core.run.ids import turn_after
from sojourn.core.run.limits import caps_left, exhausted, finalize, gave_up, limits_of, lowered, used_up
from sojourn.core.run.opening import labelled
from sojourn.core.run.spent import MAX_ARTIFACTS, spent_by
from sojourn.core.run.totals import RunTotals, add_usage, settle
from sojourn.core.run.transcript import for_planner, reply
from sojourn.core.safeguards.judge import SafeguardState
from sojourn.core.values.frozen import changed

__all__ = ["MAX_CALLS_SHOWN", "MAX_NOTES", "RunState", "call_status"]

MAX_CALLS_SHOWN = 100
"""Calls kept for the status."""

MAX_NOTES = 20
"""Notes kept for the status."""


@dataclass(frozen=True)
class RunState:
    """All that a run knows between two awaits, less its transcript.

    What of it grows: `waits` by every wait of the run (the digest of its answer; an external call's result as it was
    sent), `new` and `said` by what no planner has been given yet, `opening` by nothing. All else is bounded: `calls`
    by 100, `notes` by 20, `artifacts` by 100 references, `safeguards` by its last records.
    """

    opening: RunInput
    """What the run was started with; its labels are those that the policy engine has added to."""
    policy: RunPolicy = field(default_factory=RunPolicy)
    """The limits in force; the first plan brings them."""
    is_policy_known: bool = False
    turn: int = 1
    """The user turn, counted from 1."""
    plans: int = 0
    """Plans that were begun."""
    accepted_attempt: int = 1
    """The attempt of `PlanActivity` that made the last plan."""
    planned_from: int = 0
    """Messages of the transcript that were there before those of the last plan's input."""
    unseen: int | None = None
    """From which message on the planner has to be told, where a plan was discarded."""
    totals: RunTotals = field(default_factory=RunTotals)
    safeguards: SafeguardState = field(default_factory=SafeguardState)
    active: ActiveTime = field(default_factory=ActiveTime)
    waits: Waits = field(default_factory=Waits)
    paused: Paused | None = None
    heeded: int = 0
    """The number of the last pause or resume that a parent run told."""
    limit: Finalize | None = None
    """Why the next turn is the last; None while there may be more."""
    unanswered_for: ToolError | None = None
    """Why the last turn gave no answer."""
    phase: str = "planning"
    """`planning` `executing_tools` `waiting` `finalizing`; empty once the run has its answer."""
    new: tuple[Message, ...] = ()
    """What the next plan is given."""
    said: tuple[Message, ...] = ()
    """What a person said with a resume; the next plan is given it after `new`."""
    calls: Mapping[str, CallStatus] = field(default_factory=dict[str, CallStatus])
    """The last calls, by id."""
    notes: tuple[str, ...] = ()
    artifacts: tuple[Artifact, ...] = ()

    @classmethod
    def opened(cls, opening: RunInput) -> "RunState":
        """A run that has just been started."""
        budget = opening.policy.time_budget if opening.policy else None
        return cls(opening, new=tuple(opening.messages), active=ActiveTime(budget=budget or None))

    # Read.

    @property
    def turn_id(self) -> str:
        """The id of the user turn."""
        return turn_after(self.opening.turn_id, self.turn)

    @property
    def limits(self) -> Limits:
        """What a plan is judged by."""
        return limits_of(self.policy)

    def caps(self, now: datetime) -> Caps:
        """What is left of the limits."""
        return caps_left(self.policy, self.totals, self.active.spent(now))

    def spent(self, now: datetime) -> Spent | None:
        """What the run has spent, for whoever called it; None where it is nothing."""
        return spent_by(self.totals, list(self.artifacts), self._active_time(now))

    def output(self, plan: PlanOutcome, run_id: str, now: datetime) -> RunOutput:
        """What the run gives for its last plan."""
        assert plan.final is not None
        return RunOutput(
            run_id=run_id,
            agent_id=self.opening.agent_id,
            final=plan.final,
            result=plan.result,
            reason=self.limit.reason if self.limit else "answered",
            error=gave_up(self.limit, self.unanswered_for) if self.limit else None,
            tool_calls=self.totals.tool_calls,
            rounds=self.totals.rounds,
            children_count=self.totals.children_count,
            telemetry=self.totals.telemetry,
            usage=self.totals.usage,
            notes=list(self.notes),
            artifacts=list(self.artifacts),
            active_time=self._active_time(now),
        )

    def _active_time(self, now: datetime) -> timedelta | None:
        return self.active.spent(now) if self.active.budget else None

    # Plan.

    def planning(self) -> "RunState":
        """A plan is due; spent tokens and money make it the last."""
        state = self if self.limit else self.limited(used_up(self.policy, self.totals))
        return changed(state, phase="finalizing" if state.limit else "planning")

    def plan_begun(self, after: int) -> "RunState":
        """A planner was given what is new; `after` counts the messages before that."""
        return changed(self, plans=self.plans + 1, new=(), said=(), planned_from=after)

    def planned(self, plan: PlanOutcome, now: datetime) -> "RunState":
        """A plan came, with the policy, the policy engine's decision, notes and usage."""
        state = changed(self, accepted_attempt=plan.attempt, unseen=None)
        if plan.policy:
            state = changed(state, policy=plan.policy, is_policy_known=True)
        if plan.decision:
            state = state.tightened(plan.decision, now)
        if state.is_policy_known and state.policy.time_budget != state.active.budget:
            state = changed(state, active=changed(state.active, budget=state.policy.time_budget))
        totals = changed(state.totals, usage=add_usage(state.totals.usage, plan.usage))
        return changed(state.noted(*plan.notes), totals=totals)

    def tightened(self, decision: PolicyDecision, now: datetime) -> "RunState":
        """The policy engine's limits and labels hold from now on."""
        state = self
        if decision.caps:
            spent = self.active.spent(now)
            state = changed(state, policy=lowered(self.policy, decision.caps, self.totals, spent))
        if decision.labels:
            labels = labelled(self.opening.labels, decision.labels)
            state = changed(state, opening=self.opening.model_copy(update={"labels": labels}))
        return state

    def plan_refused(self, plan: PlanOutcome) -> "RunState":
        """The planner is told why its plan cannot be carried out."""
        refusal = Message.system(f"The last plan was refused: {plan.fault}.")
        return changed(self.noted(f"planner fault: {plan.fault}"), new=(refusal,))

    def out_of_time(self) -> "RunState":
        """The time budget was used up during a plan: the next is the last, and is told what that one was."""
        active = changed(self.active, expired=True)
        state = changed(self, active=active, phase="finalizing", unseen=self.planned_from)
        return state.limited(state.time_is_up)

    # Call tools.

    def step_begun(self, calls: Sequence[ToolRequest], dispatches: Sequence[Dispatch]) -> "RunState":
        """The admitted calls of a plan are carried out; the calls without a dispatch were not admitted."""
        state = changed(self, phase="executing_tools")
        for call in calls[: len(dispatches)]:
            state = state.shown(CallStatus(tool_call_id=call.tool_call_id, name=call.name, state="running"))
        return state

    def shown(self, call: CallStatus) -> "RunState":
        """How a call stands."""
        calls = {**self.calls, call.tool_call_id: call}
        if len(calls) > MAX_CALLS_SHOWN:
            del calls[next(iter(calls))]
        return changed(self, calls=calls)

    def settled(
        self, plan: PlanOutcome, executed: Sequence[ToolResult], safeguards: SafeguardState, now: datetime
    ) -> "RunState":
        """All calls of a step are answered, in call order: totals, safeguards, artifacts and limits follow.

        Args:
            plan: Whose calls they are.
            executed: The answers of the admitted calls.
            safeguards: The state after these calls, by the rules that the run is judged by.
            now: The time.
        """
        refused = [not_executed(call, plan.refused, self.limits) for call in plan.calls[len(executed) :]]
        state = self
        for result in refused:
            state = state.shown(call_status(result))
        made = [artifact for result in executed for artifact in result.artifacts]
        results = Message.results([for_planner(result) for result in (*executed, *refused)])
        state = changed(
            state,
            totals=settle(self.totals, executed),
            safeguards=safeguards,
            artifacts=(*self.artifacts, *made)[-MAX_ARTIFACTS:],
            new=(results,),
        )
        if state.active.is_used_up(now):
            return state.limited(state.time_is_up)
        return state.limited(
            safeguards.finalize() or exhausted(state.policy, state.totals, plan.refused, executed)
        )

    @property
    def time_is_up(self) -> Finalize:
        """Why the next turn is the last, once the time budget is used up."""
        return finalize(self.policy.model_copy(update={"time_budget": self.active.budget}), "time_budget")

    def limited(self, limit: Finalize | None) -> "RunState":
        """The next turn is the last, for this reason; None leaves it open."""
        if limit is None:
            return changed(self, limit=None)
        state = changed(self, limit=limit, new=(*self.new, Message.system(limit.notice)))
        is_known = self.limit is not None and self.limit.reason == limit.reason
        return state if is_known else state.noted(f"limit reached: {limit.reason}")

    def history_full(self) -> "RunState":
        """The server lets the run write little more: the next turn is the last."""
        return self.limited(finalize(self.policy, "history"))

    # Wait.

    def slept(self, duration: timedelta, now: datetime, *, is_over: bool) -> "RunState":
        """A sleep has ended; the notice tells it to a planner that decides by the transcript."""
        seconds = f"{duration.total_seconds():g} s"
        text = f"Waited {seconds}." if is_over else f"The wait of {seconds} was cut short."
        state = changed(self, new=(Message.system(text),))
        return state.limited(state.time_is_up) if state.active.is_used_up(now) else state

    def waiting(self) -> "RunState":
        """The run sleeps, or waits for the answer to a planner's question."""
        return changed(self, phase="waiting")

    def answered(self, plan: PlanOutcome, answer: Clarified | None) -> "RunState":
        """A planner's question was answered, which begins a new user turn, or has expired."""
        assert plan.await_
        state = changed(self, unseen=self.planned_from if plan.asked_by_policy else None)
        if answer is None:
            nobody = Message.system(f"Nobody answered within {plan.await_.expires_after}.")
            return changed(state, new=(reply(plan, nobody),))
        if answer.declined:
            why = f": {answer.text}" if answer.text else "."
            told = Message.system(f"The question was declined{why}")
        else:
            told = Message.user(answer.text)
        return changed(state, new=(reply(plan, told),)).turn_begun()

    def turn_begun(self) -> "RunState":
        """A person has spoken: rounds count anew, and what is asked for again is no loop."""
        limit = None if self.limit and self.limit.reason == "max_tool_rounds" else self.limit
        return changed(
            self,
            turn=self.turn + 1,
            totals=changed(self.totals, turn_rounds=0),
            safeguards=self.safeguards.new_turn(),
            limit=limit,
        )

    def steered(self, given: Paused | Resumed, now: datetime) -> tuple["RunState", bool]:
        """The state after a pause or resume, and whether the run heeds it."""
        if is_overtaken(given, self.heeded):
            return self, False
        state = changed(self, heeded=given.number or self.heeded)
        if isinstance(given, Resumed) and self.paused is None:
            return state, False
        paused = given if isinstance(given, Paused) else None
        state = changed(state, paused=paused, active=self.active.stopped(now, paused=paused is not None))
        if isinstance(given, Resumed) and given.messages:
            said = (*self.said, *(Message.user(text) for text in given.messages))
            state = changed(state, said=said).turn_begun()
        return state, True

    # Note.

    def noted(self, *notes: str) -> "RunState":
        """The status tells these notes too."""
        return changed(self, notes=(*self.notes, *notes)[-MAX_NOTES:]) if notes else self

    def unnoted(self, note: str) -> "RunState":
        """A note is taken back; an equal one that was made apart stays."""
        return changed(self, notes=tuple(each for each in self.notes if each is not note))

    # End.

    def unanswered(self, why: ToolError) -> "RunState":
        """The last turn gave no answer, for this reason."""
        return changed(self, unanswered_for=why)

    def ended(self) -> "RunState":
        """The run is over: nothing is waited for any more."""
        return changed(self, phase="", paused=None, waits=changed(self.waits, open={}))

    def finished(self) -> "RunState":
        """The run has its answer."""
        return changed(self, phase="", new=())


def call_status(result: ToolResult) -> CallStatus:
    """A call's place in the tree of calls once it is answered."""
    code = result.error.code if result.error else None
    state = "done" if result.ok else code if code in ("denied", "not_executed") else "failed"
    return CallStatus(
        tool_call_id=result.tool_call_id,
        name=result.name,
        state=state or "failed",
        error=str(result.error)[:200] if result.error else None,
        run_link=result.run_link,
    )
