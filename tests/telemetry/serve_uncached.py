"""A worker without a workflow cache: every workflow task replays its run's history."""

import asyncio
import signal

from traced_app import app

from sojourn import Client, Worker


async def main():
    """Serve until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with Worker(app, await Client.connect(), max_cached_runs=0):
        print("worker_ready", flush=True)
        await stop.wait()


asyncio.run(main())
