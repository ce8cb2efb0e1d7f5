"""A codec that is safe against bad payloads, and payloads that did not open.

A codec raises when a payload was not written with its keys, and Temporal fails the whole workflow task for
it, for ever. `GuardedCodec` replaces such a payload by a marked one, after the codec has proved that it
works: while a key service is unavailable the task fails, and Temporal attempts it again. The converter then
decides by its caller: with a type hint, Sojourn wrote the payload, and it is an error; without, any client
may have sent it.
"""

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, Self, runtime_checkable

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    DataConverter,
    PayloadCodec,
    SerializationContext,
    WithSerializationContext,
)

from sojourn.errors import DefinitionError
from sojourn.target import load_target

__all__ = [
    "LOST_KEY",
    "CodecFailedError",
    "GuardedCodec",
    "NoKeyError",
    "TenantCodec",
    "TenantLookup",
    "UnreadableError",
    "admit_run",
    "clear",
    "codec_of_tenant",
    "converter_of_run",
    "converter_of_schedule",
    "forget_run",
    "is_clear",
    "load_codec",
    "mark_unread",
    "open_singly",
    "reason_of",
    "use_tenant_lookup",
]

_ENCODING = b"sojourn/unread"
_REASON = "reason"
_CLEAR = "sojourn-clear-text"

LOST_KEY = "its key"
"""Begins the reason of a payload whose key is known to be gone, so that another codec would not help."""


class UnreadableError(ValueError):
    """A payload that Sojourn wrote cannot be decoded here, for this reason."""


class CodecFailedError(UnreadableError):
    """The codec, or the external storage, does not work now."""


class NoKeyError(CodecFailedError):
    """There is no key to write with for this tenant."""


def mark_unread(reason: str) -> Payload:
    """Return the marked payload in place of one that cannot be opened."""
    return Payload(metadata={"encoding": _ENCODING, _REASON: reason.encode(errors="replace")})


def reason_of(payload: Payload) -> str | None:
    if payload.metadata.get("encoding") != _ENCODING:
        return None
    return payload.metadata.get(_REASON, b"").decode(errors="replace")[:300] or "it cannot be read"


def clear(payload: Payload) -> Payload:
    """Return a copy of a payload, marked as clear text."""
    marked = Payload()
    marked.CopyFrom(payload)
    marked.metadata[_CLEAR] = b"true"
    return marked


def is_clear(payload: Payload) -> bool:
    """Return whether a payload is clear text that should have been encrypted."""
    return _CLEAR in payload.metadata


_PROBE = Payload(metadata={"encoding": b"json/plain"}, data=b'"sojourn"')
Open = Callable[[Sequence[Payload]], Awaitable[list[Payload]]]


async def open_singly(
    payloads: Sequence[Payload], open_: Open, works: Callable[[], Awaitable[object]], why: str
) -> list[Payload]:
    """Open payloads one by one, after opening them together failed.

    A payload that cannot be opened is replaced by a marked one. `works` raises while none can be.

    Raises:
        CodecFailedError: No payload can be opened now.
    """
    return [await _one(payload, open_, works, why) for payload in payloads]


async def _one(payload: Payload, open_: Open, works: Callable[[], Awaitable[object]], why: str) -> Payload:
    try:
        (found,) = await open_([payload])
    except Exception as error:  # noqa: BLE001
        try:
            await works()
        except Exception as away:  # noqa: BLE001
            raise CodecFailedError(f"what opens payloads does not work: {_name_of(away)}") from error
    else:
        return found
    try:  # the codec may have recovered only just now
        (found,) = await open_([payload])
    except CodecFailedError:  # perhaps of one key only, while others work
        raise
    except Exception as error:  # noqa: BLE001
        return mark_unread(f"{why} ({type(error).__name__})")
    return found


def _name_of(error: Exception) -> str:
    """Return the type of an error, or the text of one of our own, without payloads."""
    return str(error) if isinstance(error, DefinitionError | CodecFailedError) else type(error).__name__


class GuardedCodec(PayloadCodec, WithSerializationContext):
    """A codec whose `decode` raises only while the codec itself does not work.

    With `encrypted_only`, payloads that the codec finds in clear text are marked.
    """

    def __init__(self, codec: PayloadCodec, *, encrypted_only: bool = False) -> None:
        self.codec = codec
        self.encrypted_only = encrypted_only

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        try:
            return await self.codec.encode(payloads)
        except CodecFailedError:
            raise
        except Exception as error:
            raise CodecFailedError(f"the codec could not write a payload: {_name_of(error)}") from error

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        try:
            found = await self._decode(payloads)
        except Exception:  # noqa: BLE001 - a codec may raise anything; the payloads are tried one by one
            found = await open_singly(payloads, self._decode, self.works, "it cannot be decrypted here")
        if not self.encrypted_only or len(found) != len(payloads):
            return found
        return [
            clear(after) if after == before else after for before, after in zip(payloads, found, strict=True)
        ]

    async def works(self) -> None:
        await self._decode(await self.codec.encode([_PROBE]))

    def with_context(self, context: SerializationContext) -> Self:
        """Return the codec with the context, or itself if it does not support one."""
        if not isinstance(self.codec, WithSerializationContext):
            return self
        return type(self)(self.codec.with_context(context), encrypted_only=self.encrypted_only)  # pyright: ignore[reportArgumentType] - the SDK's return type is the class itself

    async def _decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        found: list[Any] = list(await self.codec.decode(payloads))
        if not all(isinstance(payload, Payload) for payload in found):
            raise TypeError("a codec gives payloads")
        return found


TenantLookup = Callable[[str], Awaitable[str | None]]
"""Returns the tenant of a run, empty for none, or None if there is no such run."""


@runtime_checkable
class TenantCodec(Protocol):
    """A codec that seals each payload for its run, with a key of the run's tenant."""

    async def admit(self, run_id: str, tenant: str) -> None:
        """Note the tenant of a run that is about to start.

        Raises:
            InvalidInput: The id says another tenant, or the tenant's keys were erased.
        """
        ...

    def forget(self, run_id: str) -> None:
        """Forget the tenant of a run that did not start."""
        ...

    def use_lookup(self, lookup: TenantLookup) -> None:
        """Ask this for the tenant of a run that nothing here has read."""
        ...

    def of_run(self, run_id: str) -> PayloadCodec:
        """Return the codec of a run's own payloads."""
        ...

    def of_schedule(self, schedule_id: str, tenant: str) -> PayloadCodec:
        """Return the codec of what a schedule starts its runs with.

        Raises:
            InvalidInput: The id says another tenant, or the tenant's keys were erased.
        """
        ...

    def of_tenant(self, tenant: str) -> PayloadCodec:
        """Return a codec for any run of a tenant.

        It leaves what the keys of other tenants sealed as it is.
        """
        ...


def _tenant_codec(converter: DataConverter) -> TenantCodec | None:
    codec = converter.payload_codec
    codec = codec.codec if isinstance(codec, GuardedCodec) else codec
    return codec if isinstance(codec, TenantCodec) else None


async def admit_run(converter: DataConverter, run_id: str, tenant: str) -> None:
    """Tell a codec that seals by tenant the tenant of a run that is about to start."""
    if (codec := _tenant_codec(converter)) is not None:
        await codec.admit(run_id, tenant)


def forget_run(converter: DataConverter, run_id: str) -> None:
    """Tell a codec that seals by tenant that a run did not start."""
    if (codec := _tenant_codec(converter)) is not None:
        codec.forget(run_id)


def use_tenant_lookup(converter: DataConverter, lookup: TenantLookup) -> None:
    """Give a codec that seals by tenant a way to look up a run's tenant."""
    if (codec := _tenant_codec(converter)) is not None:
        codec.use_lookup(lookup)


def converter_of_run(converter: DataConverter, run_id: str) -> DataConverter:
    """Return the converter of a run, which refuses what was sealed for other runs.

    It is the same converter if its codec does not tell runs apart.
    """
    codec = _tenant_codec(converter) if run_id else None
    return converter if codec is None else dataclasses.replace(converter, payload_codec=codec.of_run(run_id))


def converter_of_schedule(converter: DataConverter, schedule_id: str, tenant: str) -> DataConverter:
    """Return the converter of what a schedule starts its runs with.

    It is the same converter if its codec does not tell runs apart.
    """
    codec = _tenant_codec(converter)
    if codec is None:
        return converter
    return dataclasses.replace(converter, payload_codec=codec.of_schedule(schedule_id, tenant))


def codec_of_tenant(converter: DataConverter, tenant: str) -> PayloadCodec | None:
    """Return a codec that opens only what a tenant's key sealed, or None.

    A codec that does not tell tenants apart is only for principals without one.
    """
    codec = _tenant_codec(converter)
    if codec is not None:
        return GuardedCodec(codec.of_tenant(tenant))
    found = converter.payload_codec
    # Without the marks of clear text, which Temporal's tools would send back.
    return None if tenant else GuardedCodec(found.codec) if isinstance(found, GuardedCodec) else found


def load_codec(target: str) -> PayloadCodec:
    """Load the `PayloadCodec`, or the function that makes one, at `MODULE:CODEC`."""
    found = load_target(target, "codec")
    if callable(found):
        try:
            found = found()
        except Exception as error:
            raise DefinitionError(f"{target}: the codec cannot be made: {type(error).__name__}") from error
    if not isinstance(found, PayloadCodec):
        fault = "there is no such codec" if found is None else f"it is of type {type(found).__name__}"
        raise DefinitionError(f"{target}: {fault}; name a PayloadCodec, or a function that returns one")
    return found
