"""Store the first messages of a long run's transcript in external storage.

Each part is stored once. A segment holds the id of its run, and only that run reads it: a claim
that a client sends from outside opens no segment of another run.
"""

import asyncio
import lzma
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter
from temporalio.client import Client
from temporalio.converter import StorageDriver, StorageDriverStoreContext, StorageDriverWorkflowInfo

from sojourn.contracts.message import Message
from sojourn.contracts.wire_names import AGENT_RUN
from sojourn.core.run.transcript import Claim
from sojourn.storage import codec_for, load, store
from sojourn.values.undecodable import inflate
from sojourn.values.wire import decode_messages, encode

__all__ = ["compressed", "decompressed", "load_segments", "of_run", "store_segment"]


@dataclass(frozen=True)
class _Segment:
    run_id: str
    messages: str
    """A JSON array of messages, compressed, in Base64."""


_SEGMENT = TypeAdapter(_Segment)

MAX_SEGMENT_BYTES = 100_000_000
"""Largest segment, in bytes of JSON. An execution has a history of at most 50 MB, which a codec may compress."""

_PRESET = 1
"""Of LZMA: a third smaller than zlib, for 9 MB of memory and 5 ms a megabyte of what is compressed."""


async def store_segment(client: Client, driver: StorageDriver, run_id: str, messages: bytes) -> Claim:
    """Store messages of a run, and return their claim."""
    if len(messages) > MAX_SEGMENT_BYTES:
        raise ValueError(
            f"the messages have {len(messages):,} bytes, and a segment has at most {MAX_SEGMENT_BYTES:,}"
        )
    codec = codec_for(client.data_converter, client.namespace, run_id)
    segment = _Segment(run_id, await compressed(messages))
    return await store(driver, _SEGMENT.dump_json(segment), of_run(client, run_id), codec)


async def compressed(data: bytes) -> str:
    return b64encode(await asyncio.to_thread(lzma.compress, data, preset=_PRESET)).decode()


def decompressed(text: str, most: int) -> bytes:
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
    return decode_messages(decompressed(segment.messages, MAX_SEGMENT_BYTES))
