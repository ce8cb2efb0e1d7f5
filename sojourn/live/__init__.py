"""Stream the answer of a planner, while it is generated, to followers of the run.

The package decides how the pieces of an answer are gathered, bounded and carried from a worker to
subscribers. The history holds none of the pieces, and without a subscriber nothing is sent. The
package imports the contracts, and Redis only in `redis`, which is loaded for an address of Redis.
Begin at `deltas`, to which a planner writes. A `LiveTransport` carries the deltas to
`run.events(deltas=True)`: `LocalTransport` within a process, `unix` by way of the `hub` of `sojourn dev`,
`redis` between machines.
"""

from sojourn.live.deltas import Deltas, current_deltas
from sojourn.live.transport import Delta, LiveTransport, LocalTransport

__all__ = ["Delta", "Deltas", "LiveTransport", "LocalTransport", "current_deltas"]
