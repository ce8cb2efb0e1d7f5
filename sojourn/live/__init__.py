"""Live text: the answer of a planner while it grows, for whoever follows the run.

The package decides how the pieces of an answer are gathered, bounded and carried from a worker to subscribers; nothing of
them is in the history, and nothing is done where nobody asks. It knows the contracts, and Redis only in `redis`, loaded for
its address. Begin at `deltas`, where a planner writes: a `LiveTransport` carries what it wrote to `run.events(deltas=True)`.
"""

from sojourn.live.deltas import Deltas, current_deltas
from sojourn.live.local import LocalTransport
from sojourn.live.transport import Delta, LiveTransport

__all__ = ["Delta", "Deltas", "LiveTransport", "LocalTransport", "current_deltas"]
