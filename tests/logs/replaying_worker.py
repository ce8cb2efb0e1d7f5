"""A worker without a workflow cache: every workflow task replays its run's history."""

import asyncio
import os

from logging_app import app

from sojourn import Client, Worker
from sojourn.logs import configure_logs


async def main() -> None:
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"], task_queue=os.environ["SOJOURN_TASK_QUEUE"])
    async with Worker(app, client, max_cached_runs=0):
        print('{"event": "worker_ready"}', file=__import__("sys").stderr, flush=True)
        await asyncio.Event().wait()


configure_logs()
asyncio.run(main())
