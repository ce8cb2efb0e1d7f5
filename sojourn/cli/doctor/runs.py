"""The open runs of a task queue: which of them are stuck, and why."""

from itertools import islice

from temporalio.service import RPCError

from sojourn.cli.doctor.check import Check
from sojourn.cli.plain import plain
from sojourn.cli.stuck import stuck_runs
from sojourn.client.client import Client, quoted

__all__ = ["check_runs"]

LOOKED_AT = 100
"""Open runs that are asked about, the newest."""

_SHOWN = 3


async def check_runs(client: Client) -> Check:
    """Whether the newest open runs go on, or wait for somebody; visibility tells of them about a second late."""
    name = f"runs on {client.task_queue}"
    query = f"WorkflowType = 'AgentRun' AND ExecutionStatus = 'Running' AND TaskQueue = {quoted(client.task_queue)}"
    try:
        runs = [run.id async for run in client.temporal.list_workflows(query, limit=LOOKED_AT)]
    except RPCError as error:
        return Check(name, None, f"could not be looked at: {plain(error.message)}")
    stuck = await stuck_runs(client, runs)
    newest = f"the newest {LOOKED_AT} open" if len(runs) == LOOKED_AT else f"{len(runs)} open"
    if not stuck:
        return Check(name, True, f"{newest}, none is stuck")
    told = [f"{plain(run_id)} ({plain(why['reason'], 300)})" for run_id, why in islice(stuck.items(), _SHOWN)]
    more = f" and {len(stuck) - _SHOWN} more" if len(stuck) > _SHOWN else ""
    return Check(
        name, False, f"{newest}, {len(stuck)} stuck: {'; '.join(told)}{more}", "sojourn list --stuck"
    )
