"""Task queue: where a run of an agent starts when nobody names its queue: where workers say that they serve the agent."""

import asyncio
import difflib
import time

from temporalio.client import Client

from sojourn.client.backoff import backoff
from sojourn.connection.announced import Announced, announced
from sojourn.errors import InvalidInput, NoWorker

__all__ = ["WORKER_GRACE", "no_worker", "queue_of", "queues_serving"]

WORKER_GRACE = 2.0
"""Seconds in which a worker that is just starting may appear."""

_LONGEST_DELAY = 0.1
_MAX_NAMED = 5


async def queues_serving(client: Client, agent_id: str) -> list[str]:
    """Return the task queues whose workers serve an agent, by name.

    Raises:
        RPCError: The server does not answer.
    """
    return _queues(await announced(client), agent_id)


async def queue_of(client: Client, agent_id: str, run_id: str, *, patient: bool = False) -> str:
    """Return the task queue whose workers serve an agent; a worker that is just starting may take 2 s.

    Where none does, it is the one whose workers did so up to 75 s ago.

    Args:
        client: The Temporal client.
        agent_id: The agent.
        run_id: The run that is to start, for the errors.
        patient: Whether to wait for a worker without end.

    Raises:
        NoWorker: No worker serves the agent.
        InvalidInput: Workers of several task queues serve it.
        RPCError: The server does not answer.
    """
    deadline, delays = time.monotonic() + WORKER_GRACE, backoff(_LONGEST_DELAY)
    while True:
        workers = await announced(client)
        queues = _queues(workers, agent_id)
        if queues or (not patient and time.monotonic() > deadline):
            break
        await asyncio.sleep(next(delays))
    # Its worker was stopped or killed a moment ago, as in a deploy: the run waits for the next one.
    if not queues and len(lately := _queues(await announced(client, lately=True), agent_id)) == 1:
        return lately[0]
    if len(queues) > 1:
        raise InvalidInput(
            f"agent_id: workers of several task queues serve {agent_id}: {', '.join(queues)}; "
            f"name the one that is meant with task_queue={queues[0]!r}",
            run_id=run_id,
        )
    if not queues:
        raise NoWorker(_nobody(workers, agent_id), run_id=run_id)
    return queues[0]


def _queues(workers: list[Announced], agent_id: str) -> list[str]:
    return sorted({worker.task_queue for worker in workers if agent_id in worker.agents})


def _nobody(workers: list[Announced], agent_id: str) -> str:
    """Say that nobody serves an agent, what is served instead, and how to start a worker."""
    served = sorted({agent for worker in workers for agent in worker.agents})
    close = difflib.get_close_matches(agent_id, served, n=3)
    if close:
        return f"no worker serves agent {agent_id!r}; did you mean {' or '.join(close)}?"
    start = "start one with `sojourn worker MODULE:APP`"
    if not served:
        return f"no worker serves agent {agent_id!r}, or any other; {start}"
    more = f" and {len(served) - _MAX_NAMED} more" if len(served) > _MAX_NAMED else ""
    return f"no worker serves agent {agent_id!r}; those that run serve {', '.join(served[:_MAX_NAMED])}{more}; {start}"


def no_worker(queue: str) -> str:
    """The text of the error where no worker polls a task queue."""
    return (
        f"no worker polls task queue {queue!r}; start one with "
        f"`sojourn worker MODULE:APP --task-queue {queue}`, or pass wait_for_worker=True"
    )
