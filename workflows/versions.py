"""Versions: which changes of the workflow's code an execution follows.

`workflow.patched` answers wrongly after a local activity whose workflow task was split by a query: the SDK delivers the
result in the next task, a replay delivers it in the one before, and the replay asks before it reaches the marker. So the
first plan of an execution records the version of the code that began it: the workflow sends `VERSION` with the plan's task,
and the activity returns it. A change up to that version is followed without a marker; a later one is a patch.
"""

from collections.abc import Mapping
from typing import Any

from temporalio import workflow

from sojourn.contracts.wire_names import PATCHES

__all__ = ["VERSION", "patched", "tells_doubt"]

VERSION = 4
"""The present version. Changes after it are patches, until a release raises it."""


def patched(change: str) -> bool:
    """Whether the execution follows a change: its version has the change, or its history a marker.

    Args:
        change: The id of the change, one of `PATCHES`.
    """
    run: Any = workflow.instance()
    return run.current.version >= PATCHES[change] or workflow.patched(change)


def tells_doubt(doubts: Mapping[str, Any]) -> bool:
    """Whether the error of a run or a turn says that one of its calls may have taken effect.

    Args:
        doubts: What is open about its calls, by call.
    """
    return bool(doubts) and patched("error-tells-doubt")
