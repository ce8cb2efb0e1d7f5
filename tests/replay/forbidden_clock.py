"""A workflow that does what no workflow may: the sandbox must find it."""

import time
from typing import Any

from temporalio import workflow


@workflow.defn(name="AgentRun")
class LooksAtTheClock:
    """Decides by the time of day."""

    @workflow.run
    async def run(self, *_given: Any) -> None:
        """Look."""
        time.time()
