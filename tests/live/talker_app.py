"""An app whose planner writes its answer as deltas, and pauses between two pieces while a file exists."""

import asyncio
import os
from pathlib import Path

from sojourn import Agent, App, PlanResult
from sojourn.live import current_deltas

HOLD = Path(os.environ.get("TALKER_HOLD", "hold"))


async def talk(turn) -> PlanResult:
    """Answer in two pieces."""
    deltas = current_deltas()
    assert deltas
    await deltas.text("The site is ")
    while HOLD.exists():
        await asyncio.sleep(0.02)
    await deltas.text("dark.")
    return PlanResult.final("The site is dark.")


app = App(agents=[Agent("test.talker", planner=talk)])
