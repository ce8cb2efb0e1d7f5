"""Live text: what a planner says while it says it, to whoever wants to see it.

Nothing of it is in the history, and nothing is done where nobody asks: a planner writes to `current_deltas()`, a
`LiveTransport` carries it, and `run.events(deltas=True)` tells it.
"""

from sojourn.live.deltas import Deltas, current_deltas
from sojourn.live.local import LocalTransport
from sojourn.live.transport import Delta, LiveTransport

__all__ = ["Delta", "Deltas", "LiveTransport", "LocalTransport", "current_deltas"]
