"""About: what a run was started with, which does not change while it runs."""

import asyncio

from temporalio.client import Client
from temporalio.service import RPCError

from sojourn.client.labels import labels_of_run
from sojourn.client.memo import message_of
from sojourn.connection.rpc_errors import translated
from sojourn.console.views.about_run import AboutRun

__all__ = ["about_run"]


async def about_run(client: Client, run_id: str) -> AboutRun:
    """What a run was started with.

    Raises:
        RunNotFound: There is no such run.
        ServerUnavailable: The server does not answer.
    """
    try:
        described, labels = await asyncio.gather(
            client.get_workflow_handle(run_id).describe(), labels_of_run(client, run_id)
        )
    except RPCError as error:
        raise translated(error, run_id) from error
    return AboutRun(await message_of(described), labels, described.run_id)
