"""Current state: the one `RunState` of a run, which the parts of its workflow read and replace.

A transition is applied at once: nothing is awaited between reading the state and replacing it.
"""

from sojourn.contracts.tasks import PlanOutcome
from sojourn.core.run.state import RunState
from sojourn.core.values.undecodable import Undecodable

from .versions import VERSION


class CurrentState:
    """Holds the state of one run."""

    def __init__(self, state: RunState) -> None:
        self.state = state
        self.version = 0
        """The version of the workflow's code that began the execution; 0 until its first plan tells."""

    def follow(self, plan: PlanOutcome | Undecodable) -> None:
        """Follow the changes up to the version that a plan tells, if this code has it."""
        if isinstance(plan, PlanOutcome) and 0 < plan.version <= VERSION:
            self.version = plan.version
