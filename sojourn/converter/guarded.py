"""GuardedDataConverter: a data converter that is safe against bad payloads.

Temporal's `DataConverter` looks up a payload that refers to external storage before any codec or payload
converter of Sojourn sees it, and one that cannot be looked up fails the whole workflow task, for ever. There
is no public hook between: this file overrides two methods of the SDK that are not public, and nothing else in
Sojourn does. `tests/encrypted/test_guarded.py` fails when the SDK calls others.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    ExternalStorage,
    PayloadCodec,
    SerializationContext,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
    WithSerializationContext,
)

from sojourn.converter.codec import GuardedCodec, opened_singly
from sojourn.converter.short_failures import BOUNDS, LARGEST, ShortFailureConverter, may_be_held

__all__ = ["GuardedDataConverter"]

_PROBE = Payload(metadata={"encoding": b"json/plain"}, data=b'"sojourn"')
_NOT_THERE = "it refers to external storage, and what it names is not there"


@dataclass(frozen=True)
class GuardedDataConverter(DataConverter):
    """Temporal's data converter, for payloads that anybody may have sent."""

    ignores_context: bool = field(default=False, init=False, repr=False, compare=False)
    """Whether no part asks which workflow or activity a payload belongs to."""
    encrypted_only: bool = field(default=False, kw_only=True)
    """Whether messages that did not pass `payload_codec` are refused."""

    def __post_init__(self) -> None:
        """Wrap the codec in a `GuardedCodec`."""
        super().__post_init__()
        codec: PayloadCodec | None = self.payload_codec
        if isinstance(codec, GuardedCodec):
            codec = codec.codec
        if codec is not None:
            object.__setattr__(self, "payload_codec", GuardedCodec(codec, encrypted_only=self.encrypted_only))
        object.__setattr__(self, "ignores_context", self._is_without_context())

    def with_context(self, context: SerializationContext) -> Self:
        """The converter with the context of a workflow or activity; itself, at once, where no part uses it.

        The SDK asks some twenty times per call.
        """
        return self if self.ignores_context else super().with_context(context)

    def _is_without_context(self) -> bool:
        parts = (self.payload_codec, self.failure_converter, self.external_storage)
        if any(isinstance(part, WithSerializationContext) for part in parts):
            return False
        converter = self.payload_converter_class()
        return (
            isinstance(converter, CompositePayloadConverter)
            and type(converter).with_context is CompositePayloadConverter.with_context
            and not any(isinstance(one, WithSerializationContext) for one in converter.converters.values())
        )

    async def encode_failure(self, exception: BaseException, failure: Failure) -> None:
        """Convert and encode the failure of an attempt, shortened where the server would drop its message."""
        await super().encode_failure(exception, failure)
        if not may_be_held(failure):
            return
        for bounds in BOUNDS:
            if failure.ByteSize() <= LARGEST:
                return
            short = copy.copy(self)
            object.__setattr__(
                short, "failure_converter", ShortFailureConverter(self.failure_converter, bounds)
            )
            failure.Clear()
            await DataConverter.encode_failure(short, exception, failure)

    async def _decode_reference_payload_sequence(self, payloads: Sequence[Payload]) -> list[Payload]:
        open_ = super()._decode_reference_payload_sequence
        try:
            return await open_(payloads)
        except Exception:  # noqa: BLE001 - a codec or driver may raise anything; the payloads are tried one by one
            return await opened_singly(payloads, open_, self._works, _NOT_THERE)

    async def _external_retrieve_payload_sequence(self, payloads: Sequence[Payload]) -> list[Payload]:
        open_ = super()._external_retrieve_payload_sequence
        try:
            return await open_(payloads)
        except Exception:  # noqa: BLE001
            return await opened_singly(payloads, open_, self._works, _NOT_THERE)

    async def _works(self) -> None:
        """Raise what the codec or a driver raises for a payload of its own."""
        if isinstance(self.payload_codec, GuardedCodec):
            await self.payload_codec.works()
        storage: ExternalStorage | None = self.external_storage
        for driver in storage.drivers if storage else ():
            claims = await driver.store(StorageDriverStoreContext(), [_PROBE])
            await driver.retrieve(StorageDriverRetrieveContext(), claims)
