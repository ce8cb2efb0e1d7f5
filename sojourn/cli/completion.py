"""Completion of run ids in the shell: the newest ones, or nothing, within a moment."""

import asyncio

__all__ = ["complete_runs"]

PATIENCE = 2.0
"""Seconds that a server may take."""

MAX_LOOKED_AT = 1_000

MAX_OFFERED = 100


def complete_runs(incomplete: str) -> list[str]:
    """Run ids that begin so."""
    from sojourn.client.client import Client

    async def found() -> list[str]:
        client, run_ids = await Client.connect(), list[str]()
        async for run in client.list_runs(limit=MAX_LOOKED_AT):
            if run.run_id.startswith(incomplete):
                run_ids.append(run.run_id)
        return run_ids[:MAX_OFFERED]

    try:
        return asyncio.run(asyncio.wait_for(found(), PATIENCE))
    except Exception:  # noqa: BLE001 - a prompt is no place for an error
        return []
