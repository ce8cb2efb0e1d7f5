"""An app with a quota, whose runs work for some seconds, for workers that are killed."""

import asyncio
import os

from sojourn import Agent, App, PlanResult, TenantQuota, Tenants, Turn


async def plan(turn: Turn) -> PlanResult:
    """Work for the seconds that the message says."""
    await asyncio.sleep(float(turn.messages[0].text))
    return PlanResult.final("done")


quota = TenantQuota(
    runs=int(os.environ.get("QUOTA_RUNS", "0")) or None,
    starts_per_minute=int(os.environ.get("QUOTA_STARTS", "0")) or None,
)
app = App(
    agents=[Agent("durable.quota", planner=plan)],
    name=os.environ.get("QUOTA_APP", "quotas"),
    tenants=Tenants(default=quota),
)
