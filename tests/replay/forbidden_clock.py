"""A workflow that reads the clock, which the sandbox must refuse."""

import time
from typing import Any

from temporalio import workflow


@workflow.defn(name="AgentRun")
class LooksAtTheClock:
    """Reads the time of day."""

    @workflow.run
    async def run(self, *_given: Any) -> None:
        """Read the clock."""
        time.time()
