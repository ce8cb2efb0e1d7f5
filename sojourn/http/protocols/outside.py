"""Outside: what is told of a run that waits only for results of calls outside, which no chat and no tool can give."""

from sojourn.http.protocols.waits import is_blocked, open_waits
from sojourn.http.service import Service

__all__ = ["told_of_outside"]


async def told_of_outside(service: Service, run_id: str) -> str:
    """Which calls outside a run and its child runs wait for, and who gives their results how; empty where something else goes on.

    Raises:
        RunNotFound: There is no such run.
        SojournError: Its status cannot be read.
    """
    status = await service.client.get_run(run_id).status()
    waits = [each for each in open_waits(status) if each.call]
    if not waits or not is_blocked(status):
        return ""
    told = [
        f"`{each.call.tool}` is the call `{each.call.tool_call_id}` of `{each.wait.id}`, by `POST /v1/runs/{each.run_id}/tool-results`"
        for each in waits
        if each.call
    ]
    return f"The agent waits for results from outside: {'; '.join(told)}."
