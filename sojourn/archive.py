"""Keep older events and messages of a long run in external storage.

Retention may delete the executions of a run while the run continues, so their events are archived. Each part holds the
events since the part before, and the claim of that part: a reader with the last claim reads all parts. A transcript's first
messages are stored once, as segments. A part and a segment hold the id of their run, and only that run reads them: a claim
that a client sends from outside opens nothing of another run.
"""

import asyncio
import lzma
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter
from temporalio.client import Client
from temporalio.converter import StorageDriver, StorageDriverStoreContext, StorageDriverWorkflowInfo

from sojourn.contracts.event import Event
from sojourn.contracts.message import Message
from sojourn.contracts.wire_names import AGENT_RUN
from sojourn.core.run.transcript import Claim
from sojourn.storage import codec_for, load, store
from sojourn.values.undecodable import inflate
from sojourn.values.wire import decode_messages, encode

__all__ = [
    "Part",
    "compress",
    "decompress",
    "load_part",
    "load_segments",
    "of_run",
    "read_events",
    "store_part",
    "store_segment",
]


@dataclass(frozen=True)
class _Segment:
    run_id: str
    messages: str
    """A JSON array of messages, compressed, in Base64."""


_SEGMENT = TypeAdapter(_Segment)

MAX_SEGMENT_BYTES = 100_000_000
"""Largest segment, in bytes of JSON. An execution has a history of at most 50 MB, which a codec may compress."""

_PRESET = 1
"""Preset of LZMA. A third smaller than zlib, for 9 MB of memory and 5 ms per megabyte of input."""


async def store_segment(client: Client, driver: StorageDriver, run_id: str, messages: bytes) -> Claim:
    """Store messages of a run, and return their claim."""
    if len(messages) > MAX_SEGMENT_BYTES:
        raise ValueError(
            f"the messages have {len(messages):,} bytes, and a segment has at most {MAX_SEGMENT_BYTES:,}"
        )
    codec = codec_for(client.data_converter, client.namespace, run_id)
    segment = _Segment(run_id, await compress(messages))
    return await store(driver, _SEGMENT.dump_json(segment), of_run(client, run_id), codec)


async def compress(data: bytes) -> str:
    return b64encode(await asyncio.to_thread(lzma.compress, data, preset=_PRESET)).decode()


def decompress(text: str, most: int) -> bytes:
    return inflate(b64decode(text), most)


def of_run(client: Client, run_id: str) -> StorageDriverStoreContext:
    return StorageDriverStoreContext(
        target=StorageDriverWorkflowInfo(namespace=client.namespace, id=run_id, type=AGENT_RUN)
    )


async def load_segments(
    client: Client, driver: StorageDriver | None, run_id: str, claims: Sequence[Claim]
) -> list[Message]:
    """Load messages of a run. Raises errors of the driver and the codec too."""
    if claims and driver is None:
        raise LookupError(
            "the beginning of its transcript is in external storage, and none is set here: App(storage=...), "
            "Client.connect(storage=...), --app MODULE:APP"
        )
    codec = codec_for(client.data_converter, client.namespace, run_id)
    messages: list[Message] = []
    # Equal segments have equal claims, such as those of a run that only sleeps.
    known: dict[bytes, list[Message]] = {}
    for claim in claims:
        assert driver is not None
        name = encode(claim)
        if name not in known:
            known[name] = await asyncio.to_thread(_read, await load(driver, claim, codec), run_id)
        messages += known[name]
    return messages


def _read(data: bytes, run_id: str) -> list[Message]:
    segment = _SEGMENT.validate_json(data)
    if segment.run_id != run_id:
        raise ValueError(f"the segment is of run {segment.run_id}, not of {run_id}")
    return decode_messages(decompress(segment.messages, MAX_SEGMENT_BYTES))


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
        return _EVENTS.validate_json(decompress(self.archive, MAX_PART_BYTES))


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
    part = Part(run_id, chain, before, await compress(data))
    codec = codec_for(client.data_converter, client.namespace, run_id)
    return await store(driver, _PART.dump_json(part), of_run(client, run_id), codec)


async def load_part(client: Client, driver: StorageDriver, run_id: str, claim: Claim) -> Part:
    """Load a part of a run's archive. Raises errors of the driver and the codec too."""
    codec = codec_for(client.data_converter, client.namespace, run_id)
    part = _PART.validate_json(await load(driver, claim, codec))
    if part.run_id != run_id:
        raise ValueError(f"the archive is of run {part.run_id}, not of {run_id}")
    return part


async def read_events(client: Client, driver: StorageDriver, run_id: str, last: Part) -> AsyncIterator[Event]:
    """Yield the events of a run's archive, in order."""
    parts = [last]
    while parts[-1].before and len(parts) < MAX_PARTS:
        parts.append(await load_part(client, driver, run_id, parts[-1].before))
    for part in reversed(parts):
        for event in await asyncio.to_thread(part.events):
            yield event
