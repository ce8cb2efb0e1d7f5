"""An app to talk with: its conversations go on after 20 events, and the activities that write to its storage can be held."""

from durable_app import STAGE, recorded
from temporalio import activity

import workflows.history_budget
from sojourn import Agent, App, PlanResult, Turn
from sojourn.storage import FolderStorage

workflows.history_budget.CONTINUE_EVENTS = 20


class HeldStorage(FolderStorage):
    """A folder that records which activity writes to it, and waits while that one is held."""

    async def store(self, context, payloads):
        """Store the payloads, once the activity is let go."""
        info = activity.info()
        async with recorded(info.activity_type, attempt=info.attempt):
            return await super().store(context, payloads)


async def plan(turn: Turn) -> PlanResult:
    """Answer with the number of messages read so far."""
    return PlanResult.final(str(sum(message.role == "user" for message in turn.messages)))


app = App(agents=[Agent("storing.agent", planner=plan)], storage=HeldStorage(STAGE / "storage"), archive=True)
