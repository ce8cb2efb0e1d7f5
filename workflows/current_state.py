"""Current state: the one `RunState` of a run, which the parts of its workflow read and replace.

A transition is applied at once: nothing is awaited between reading the state and replacing it.
"""

from sojourn.core.run.state import RunState


class CurrentState:
    """Holds the state of one run."""

    def __init__(self, state: RunState) -> None:
        self.state = state
