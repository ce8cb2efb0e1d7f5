"""The data converter of every client and worker: pydantic JSON, without defaults.

`temporalio.contrib.pydantic` can leave out unset fields, but not defaults; with defaults
the history of a run is 1.6 times that of bare activities, without them 1.25. The SDK makes
a converter for every activation and activity, so everything expensive is at module level.

Temporal's `DataConverter` looks up a payload that refers to external storage before any codec or payload
converter of Sojourn sees it, and one that cannot be looked up fails the whole workflow task, for ever. There
is no public hook between: this file overrides two methods of the SDK that are not public, and nothing else in
Sojourn does. `tests/encrypted/test_guarded.py` fails when the SDK calls others.
"""

import copy
import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeGuard

from pydantic import TypeAdapter
from pydantic_core import SchemaSerializer
from pydantic_core.core_schema import any_schema
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.common import RawValue
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    EncodingPayloadConverter,
    ExternalStorage,
    JSONPlainPayloadConverter,
    PayloadCodec,
    SerializationContext,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
    WithSerializationContext,
)

from sojourn.contracts.tool_error import ToolError
from sojourn.converter.codec import GuardedCodec, UnreadableError, is_clear, open_singly, reason_of
from sojourn.converter.failures import FAILURE_BOUNDS, LARGEST, ShortFailureConverter, may_be_held
from sojourn.values.undecodable import CLEAR_TEXT, OrUndecodable, Undecodable

__all__ = ["GuardedDataConverter", "SojournPayloadConverter", "data_converter"]

_PROBE = Payload(metadata={"encoding": b"json/plain"}, data=b'"sojourn"')
_NOT_THERE = "it refers to external storage, and what it names is not there"


@dataclass(frozen=True)
class GuardedDataConverter(DataConverter):
    ignores_context: bool = field(default=False, init=False, repr=False, compare=False)
    encrypted_only: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        codec: PayloadCodec | None = self.payload_codec
        if isinstance(codec, GuardedCodec):
            codec = codec.codec
        if codec is not None:
            object.__setattr__(self, "payload_codec", GuardedCodec(codec, encrypted_only=self.encrypted_only))
        object.__setattr__(self, "ignores_context", self._is_without_context())

    def with_context(self, context: SerializationContext) -> Self:
        """Return the converter with the context of a workflow or activity.

        Returns itself at once if no part uses a context: the SDK calls this some twenty times per call.
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
        """Encode an attempt's failure, shortened if the server would drop its message."""
        await super().encode_failure(exception, failure)
        if not may_be_held(failure):
            return
        for bounds in FAILURE_BOUNDS:
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
            return await open_singly(payloads, open_, self._works, _NOT_THERE)

    async def _external_retrieve_payload_sequence(self, payloads: Sequence[Payload]) -> list[Payload]:
        open_ = super()._external_retrieve_payload_sequence
        try:
            return await open_(payloads)
        except Exception:  # noqa: BLE001
            return await open_singly(payloads, open_, self._works, _NOT_THERE)

    async def _works(self) -> None:
        if isinstance(self.payload_codec, GuardedCodec):
            await self.payload_codec.works()
        storage: ExternalStorage | None = self.external_storage
        for driver in storage.drivers if storage else ():
            claims = await driver.store(StorageDriverStoreContext(), [_PROBE])
            await driver.retrieve(StorageDriverRetrieveContext(), claims)


_ENCODER = SchemaSerializer(any_schema())
_METADATA = {"encoding": b"json/plain"}


@functools.lru_cache(maxsize=1024)
def _adapter(type_hint: Any) -> TypeAdapter[Any]:
    return TypeAdapter(type_hint)


class _JSONConverter(EncodingPayloadConverter):
    @property
    def encoding(self) -> str:
        return "json/plain"

    def to_payload(self, value: Any) -> Payload | None:
        return Payload(metadata=_METADATA, data=_ENCODER.to_json(value, exclude_defaults=True))

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        return _adapter(Any if type_hint is None else type_hint).validate_json(payload.data)


_JSON = _JSONConverter()
_CONVERTERS = tuple(
    _JSON if isinstance(converter, JSONPlainPayloadConverter) else converter
    for converter in DefaultPayloadConverter.default_encoding_payload_converters
)


def _is_or_unread(hint: object) -> TypeGuard[OrUndecodable]:
    return type(hint).__name__ == OrUndecodable.__name__


class SojournPayloadConverter(CompositePayloadConverter):
    """JSON by pydantic, everything else as in Temporal's default converter."""

    _only: ClassVar[Self | None] = None

    def __new__(cls) -> Self:
        """Return the one converter, which the SDK makes for every activation."""
        made = cls.__dict__.get("_only")
        if made is None:
            made = cls._only = super().__new__(cls)
            CompositePayloadConverter.__init__(made, *_CONVERTERS)
        return made

    def __init__(self) -> None:
        """Do nothing, since `__new__` has made the converter."""

    def from_payloads(self, payloads: Sequence[Payload], type_hints: list[type] | None = None) -> list[Any]:
        """Decode payloads, with or without type hints.

        A start or signal by hand may carry any payload, and a workflow whose arguments cannot be decoded
        fails its task for ever. So without type hints, such a payload stays raw or becomes an
        `Undecodable`, and so does the result of an activity that is completed by hand: its type hint is a
        single `OrUndecodable`.

        Raises:
            UnreadableError: There is a type hint, and its payload is encrypted or stored elsewhere.
        """
        if not type_hints:
            return [self._or_raw(payload) for payload in payloads]
        for payload, hint in zip(payloads, type_hints, strict=False):
            reason = reason_of(payload) or self._unknown(payload)
            if reason and hint is not RawValue:
                raise UnreadableError(reason)
            if _is_or_unread(hint):
                return [self._or_unread(payload, hint)]
        return super().from_payloads(payloads, type_hints)

    def _or_raw(self, payload: Payload) -> Any:
        if reason := reason_of(payload):
            return Undecodable(reason)
        try:
            value = super().from_payloads([payload])[0]
        except (ValueError, KeyError, RuntimeError):
            return RawValue(payload)
        return Undecodable(CLEAR_TEXT, is_clear=True, value=value) if is_clear(payload) else value

    def _or_unread(self, payload: Payload, hint: OrUndecodable) -> Any:
        try:
            value = super().from_payloads([payload], [hint.of])[0]
        except (ValueError, KeyError, RuntimeError) as error:
            return hint.mark_unread(ToolError.from_error(error).message[:300])
        return (
            value
            if isinstance(value, hint.of)
            else hint.mark_unread(f"it is {type(value).__name__}, not JSON")
        )

    def _unknown(self, payload: Payload) -> str | None:
        """Return why a payload's encoding is unknown here, usually encrypted, or None."""
        encoding = payload.metadata.get("encoding", b"")
        if encoding in self.converters:
            return None
        return f"its encoding is {encoding.decode(errors='replace')[:80]!r}, which no converter or codec here knows"


data_converter = GuardedDataConverter(payload_converter_class=SojournPayloadConverter)
"""The data converter for any Temporal client that starts, signals or queries an `AgentRun`."""
