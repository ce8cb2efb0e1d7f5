"""Pictures: the data of the pictures that tools returned. The transcript has only their references.

The worker that executed a call keeps its pictures for a while. Any other worker reads them from the run's history, or from the
external storage that the history names.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Any

import structlog
from temporalio import activity
from temporalio.converter import StorageDriver

from sojourn.client.stored_artifact import artifact_at
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.run.ids import artifact_ref
from sojourn.logs.exceptions import described

__all__ = ["PICTURES", "Pictures"]

_log = structlog.get_logger("sojourn.planner")


class Pictures:
    """A bounded cache of pictures by reference.

    Args:
        max_bytes: Most bytes kept, of base64.
    """

    def __init__(self, max_bytes: int = 50_000_000) -> None:
        self._kept: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._max_bytes = max_bytes
        self._bytes = 0

    def keep(self, run_id: str, call_id: str, result: ToolResult) -> None:
        """Keep the pictures of a call's result."""
        for artifact in result.artifacts:
            if artifact.media_type and artifact.data is not None:
                self._keep(artifact_ref(run_id, call_id, artifact.kind), artifact.data, artifact.size)

    async def read(self, ref: str, runs: Collection[str], storage: Callable[[], StorageDriver | None]) -> Any:
        """Return the data of a picture. It is None for a picture of another run, and for one that cannot be read now, which is logged.

        Args:
            ref: The artifact's reference. Messages that a client sent may hold any.
            runs: The runs whose pictures may be read: the run itself, and the one from which it was forked.
            storage: Returns where the data is if it was too large for the history.
        """
        if ref.partition("#")[0] not in runs:
            return None
        if ref in self._kept:
            self._kept.move_to_end(ref)
            return self._kept[ref][0]
        try:
            found = await artifact_at(activity.client(), storage(), ref)
        except Exception as error:  # noqa: BLE001 - the model goes on without the picture
            _log.warning("picture_unreadable", artifact=ref, raised=described(error))
            return None
        self._keep(ref, found.data, found.size)
        return found.data

    def _keep(self, ref: str, data: Any, size: int) -> None:
        if ref in self._kept or size > self._max_bytes:
            return
        self._kept[ref] = data, size
        self._bytes += size
        while self._bytes > self._max_bytes:
            _, (_, dropped) = self._kept.popitem(last=False)
            self._bytes -= dropped


PICTURES = Pictures()
"""Those of this process."""
