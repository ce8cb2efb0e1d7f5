"""Store the older events of a long run in external storage.

Retention may delete the executions of a run while the run continues, so their events are archived.
Each part holds the events of the executions since the part before, and the claim of that part: a
reader with the last claim reads all parts. A part holds the id of its run, and only that run reads
it.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter
from temporalio.client import Client
from temporalio.converter import StorageDriver

from sojourn.contracts.event import Event
from sojourn.core.run.transcript import Claim
from sojourn.segments import compressed, decompressed, of_run
from sojourn.storage import codec_for, load, store

__all__ = ["Part", "archived_events", "load_part", "store_part"]

MAX_PARTS = 1_000
"""Most parts that are read of one run."""

MAX_PART_BYTES = 100_000_000
"""Largest part, in bytes of JSON: the events of one execution, or of several if an earlier part could not be stored."""

_EVENTS: TypeAdapter[list[Event]] = TypeAdapter(list[Event])


@dataclass(frozen=True)
class Part:
    run_id: str
    chain: int
    """The first number of the event ids of the execution that follows."""
    before: Claim | None
    """The claim of the part before."""
    archive: str
    """A JSON array of events, compressed, in Base64."""

    def events(self) -> list[Event]:
        return _EVENTS.validate_json(decompressed(self.archive, MAX_PART_BYTES))


_PART = TypeAdapter(Part)


async def store_part(
    client: Client,
    driver: StorageDriver,
    run_id: str,
    events: Sequence[Event],
    *,
    chain: int,
    before: Claim | None,
) -> Claim:
    """Store the next part of a run's archive, and return its claim."""
    data = _EVENTS.dump_json([*events], exclude_defaults=True)
    if len(data) > MAX_PART_BYTES:
        raise ValueError(f"the events have {len(data):,} bytes, and a part has at most {MAX_PART_BYTES:,}")
    part = Part(run_id, chain, before, await compressed(data))
    codec = codec_for(client.data_converter, client.namespace, run_id)
    return await store(driver, _PART.dump_json(part), of_run(client, run_id), codec)


async def load_part(client: Client, driver: StorageDriver, run_id: str, claim: Claim) -> Part:
    """Load a part of a run's archive. Raises errors of the driver and the codec too."""
    codec = codec_for(client.data_converter, client.namespace, run_id)
    part = _PART.validate_json(await load(driver, claim, codec))
    if part.run_id != run_id:
        raise ValueError(f"the archive is of run {part.run_id}, not of {run_id}")
    return part


async def archived_events(
    client: Client, driver: StorageDriver, run_id: str, last: Part
) -> AsyncIterator[Event]:
    """Yield the events of a run's archive, in order."""
    parts = [last]
    while parts[-1].before and len(parts) < MAX_PARTS:
        parts.append(await load_part(client, driver, run_id, parts[-1].before))
    for part in reversed(parts):
        for event in await asyncio.to_thread(part.events):
            yield event
