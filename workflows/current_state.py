"""The state of a run, and which changes of the workflow its execution follows.

`workflow.patched` answers wrongly after a local activity whose workflow task was split by a query: the SDK delivers the
result in the next task, a replay delivers it in the one before, and the replay asks before it reaches the marker. So the
first plan of an execution records the version of the code that began it: the workflow sends `VERSION` with the plan's task,
and the activity returns it. A change up to that version is followed without a marker; a later one is a patch.

A transition is applied at once: nothing is awaited between reading the state and replacing it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.wire_names import PATCHES
from sojourn.converter.failures import closing
from sojourn.core.run.state import RunState
from sojourn.values.undecodable import Undecodable

__all__ = ["VERSION", "patched", "tells_doubt"]

VERSION = 4
"""The present version. Changes after it are patches, until a release raises it."""


def patched(change: str) -> bool:
    """Check whether the execution follows a change."""
    run: Any = workflow.instance()
    return run.current.version >= PATCHES[change] or workflow.patched(change)


def tells_doubt(doubts: Mapping[str, Any]) -> bool:
    """Check whether the error of a run or a turn reports calls in doubt.

    A call is in doubt if it may have taken effect.
    """
    return bool(doubts) and patched("error-tells-doubt")


class CurrentState:
    def __init__(self, state: RunState) -> None:
        self._state = state
        self.version = 0
        """The version of the workflow's code that began the execution; 0 until its first plan tells."""
        self.on_release: Callable[[str, int], object] | None = None
        """Called with the tenant when the run gives a place up. A worker sets it, in a replay too. It must not change what the run does."""
        self.called = 0
        """The last place that a worker said the run has got."""

    @property
    def state(self) -> RunState:
        return self._state

    @state.setter
    def state(self, state: RunState) -> None:
        before, self._state = self._state, state
        if before.place and not state.place and self.on_release is not None:
            self.on_release(state.opening.tenant, before.place)

    def follow(self, plan: PlanOutcome | Undecodable) -> None:
        if isinstance(plan, PlanOutcome) and 0 < plan.version <= VERSION:
            self.version = plan.version

    def make_failure(self, error: ToolError) -> ApplicationError:
        """Return the failure with which the run ends, or its turn, because of an error."""
        doubtful = self.state.in_doubt(error) if tells_doubt(self.state.doubts) else error
        return closing(doubtful, self.state.spending(workflow.now()))
