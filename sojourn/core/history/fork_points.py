"""The points of a run's history at which it can be forked: where nothing is in flight, or where a call has been answered."""

from dataclasses import dataclass, field

from sojourn.contracts.event import Event
from sojourn.contracts.message import Message
from sojourn.contracts.tasks import PlanOutcome, PlanTask
from sojourn.core.history.effects_made import EffectsMade
from sojourn.core.history.fold import Fold
from sojourn.core.history.fold_step import StepSoFar
from sojourn.core.history.record import HistoryRecord
from sojourn.core.history.transcript import TranscriptProjection
from sojourn.core.run.continuation import Continuation
from sojourn.core.run.state import RunState

__all__ = ["ForkPoint", "ForkPoints"]


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """What a run knew at one moment."""

    event_id: str
    """The last event up to this point."""
    state: RunState
    transcript: tuple[Message, ...]
    """The messages before those that are new to the next plan."""
    waits_for: PlanOutcome | None = None
    """The plan whose question or sleep the run waited for."""
    step: StepSoFar | None = None
    """The step of which some calls were answered, where the point is not between a step and a plan."""
    steps: int = 0
    """Number of steps that were read up to this point, that step included."""


@dataclass(slots=True)
class ForkPoints:
    """Takes a run's history records in order, each with its events, and keeps the newest point of each kind.

    Args:
        fold: The fold that has made the events.
    """

    fold: Fold
    last: ForkPoint | None = None
    """The newest point from which a run can go on."""
    answered: ForkPoint | None = None
    """After the final answer: only a further message goes on from there."""
    asked: ForkPoint | None = None
    """Where the planner asked its last question."""
    step: ForkPoint | None = None
    """The last step, with the answers that its calls have."""
    calls: dict[str, str] = field(default_factory=dict[str, str])
    """The call that each wait for an approval is about, by the id of the wait."""
    transcript: TranscriptProjection = field(init=False)
    effects: EffectsMade = field(init=False)
    """The calls with an effect, also those after the points."""
    _plan: PlanOutcome | None = None
    """The last plan with calls."""
    _is_in_step: bool = False
    """Whether no plan has begun since."""
    _results: int = 0
    _event_id: str = ""

    def __post_init__(self) -> None:
        self.transcript = TranscriptProjection(self.fold)
        self.effects = EffectsMade(self.fold)

    def feed(self, record: HistoryRecord, events: list[Event]) -> None:
        """Take in the next record."""
        self.effects.feed(events)
        self.transcript.feed(record, events)
        self._event_id = events[-1].event_id if events else self._event_id or self.fold.place_of(record)
        for event in events:
            if event.type == "await_confirmation":
                self.calls[event.confirmation.id] = event.confirmation.tool_call_id
        if record.kind == "run_completed" and self.answered:
            self.answered = self._point()
        elif record.kind.startswith("run_"):
            return
        elif isinstance(record.value, PlanTask):
            self._is_in_step = False
        elif isinstance(record.value, PlanOutcome) and record.value.final and not self.fold.state.phase:
            self.answered = self._point()
        else:
            self._take_point(record)

    def _take_point(self, record: HistoryRecord) -> None:
        state, step = self.fold.state, self.fold.step
        if step.plan.calls and step.plan is not self._plan:
            self._plan, self._results, self._is_in_step = step.plan, 0, True
            self.step = self._point(step=step)
        if self.fold.waits_for:
            if self.last is None or self.last.waits_for is not self.fold.waits_for:
                self.last = self._point(waits_for=self.fold.waits_for)
            if self.fold.waits_for.await_:
                self.asked = self.last
        elif state.is_idle or (isinstance(record.value, Continuation) and record.value.forked):
            self.last = self._point()
        elif state.new:
            if self._is_in_step:
                self.step = self._point(step=step)
            self.last = self._point()
        elif self._is_in_step and len(step.results) > self._results:
            self._results, self.step = len(step.results), self._point(step=step)
            self.last = self.step

    def _point(self, *, waits_for: PlanOutcome | None = None, step: StepSoFar | None = None) -> ForkPoint:
        messages = tuple(self.transcript.messages)
        return ForkPoint(self._event_id, self.fold.state, messages, waits_for, step, self.effects.steps)
