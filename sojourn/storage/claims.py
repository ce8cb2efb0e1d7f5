"""Store data with a driver, and return a claim for a run's history to keep."""

from dataclasses import dataclass

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    DataConverter,
    PayloadCodec,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
    WorkflowSerializationContext,
)

__all__ = ["StoredContext", "codec_for", "load", "load_bytes", "store", "store_bytes"]

_JSON = b"json/plain"


async def store(
    driver: StorageDriver, data: bytes, context: StorageDriverStoreContext, codec: PayloadCodec | None = None
) -> dict[str, str]:
    """Store JSON, encrypted by the codec if there is one, and return its claim."""
    return await store_bytes(driver, data, context, codec, encoding=_JSON)


async def store_bytes(
    driver: StorageDriver,
    data: bytes,
    context: StorageDriverStoreContext,
    codec: PayloadCodec | None,
    *,
    encoding: bytes,
) -> dict[str, str]:
    """Store data as `store` does, marked with its encoding."""
    payloads = [Payload(metadata={"encoding": encoding}, data=data)]
    (claim,) = await driver.store(context, await codec.encode(payloads) if codec else payloads)
    return {"driver": driver.name(), **claim.claim_data}


async def load(driver: StorageDriver, claim: dict[str, str], codec: PayloadCodec | None = None) -> bytes:
    """Return the JSON that a claim refers to. Raises as `load_bytes`."""
    return await load_bytes(driver, claim, codec, encoding=_JSON)


async def load_bytes(
    driver: StorageDriver, claim: dict[str, str], codec: PayloadCodec | None, *, encoding: bytes
) -> bytes:
    """Return the data that a claim refers to.

    Raises:
        ValueError: Another driver stored the data, it has another encoding, or it is encrypted and the codec does not decrypt it.
    """
    if claim.get("driver") != driver.name():
        raise ValueError(f"the data was stored by driver {claim.get('driver')!r}, not {driver.name()!r}")
    data = {name: value for name, value in claim.items() if name != "driver"}
    payloads = await driver.retrieve(StorageDriverRetrieveContext(), [StorageDriverClaim(data)])
    (payload,) = await codec.decode(payloads) if codec else payloads
    if payload.metadata.get("encoding") != encoding:
        raise ValueError("the data is of another kind, or encrypted with keys that are not here")
    return payload.data


@dataclass(frozen=True)
class StoredContext(WorkflowSerializationContext):
    """The context of data that is stored for a run.

    Forks read it too, and find in the data whose it is.
    """

    tenant: str | None = None
    """The tenant, empty for none, or None if the run says it. There may be no run yet."""


def codec_for(
    converter: DataConverter, namespace: str, run_id: str, *, tenant: str | None = None
) -> PayloadCodec | None:
    """Return the codec that encrypts a run's stored data, or None."""
    context = StoredContext(namespace=namespace, workflow_id=run_id, tenant=tenant)
    return converter.with_context(context).payload_codec
