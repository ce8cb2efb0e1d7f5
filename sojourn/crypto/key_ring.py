"""Choose the keys of a ring that write and read, and open wrapped ones.

The file is read again when it has changed, so a rotation or an erasure needs no restart. A key service opens a key once in a
while, not for each payload: payloads are sealed by data keys that are derived from it.
"""

import asyncio
import time
from base64 import b64encode
from collections.abc import Sequence
from datetime import timedelta
from os import PathLike
from pathlib import Path
from typing import Protocol

from cachetools import LRUCache, TTLCache

from sojourn.contracts.tenant_ids import tenant_part
from sojourn.converter.codec import CodecFailedError
from sojourn.crypto.ring_file import SECRET_BYTES, RingKey, add_key, new_key, read_ring, writing_key
from sojourn.crypto.sealed import DataKey
from sojourn.errors import DefinitionError, InvalidInput
from sojourn.private import change_time
from sojourn.target import load_target

__all__ = ["KeyErasedError", "KeyRefusedError", "KeyRing", "KeyService", "load_ring"]

OPEN_SECONDS = 300
"""How long a key that a key service has opened is used without asking it again."""

SERVICE_SECONDS = 10.0
"""Longest wait for a key service."""

MAX_USES = 2**20
"""Most payloads that one data key seals. With random nonces of 96 bits, one repeats with a chance under 2^-57."""

MAX_AGE = 3600.0
"""Longest use of a data key for writing, in seconds."""


class KeyErasedError(InvalidInput):
    """The keys of a tenant were erased, and it has no new one."""


class KeyRefusedError(Exception):
    """A key service refuses a key for good, such as one that was deleted there."""


class KeyService(Protocol):
    """A service, such as a KMS, that keeps the key which wraps those of the ring."""

    async def wrap(self, secret: bytes, key_id: str) -> bytes:
        """Return the secret of a new key, wrapped."""
        ...

    async def unwrap(self, wrapped: bytes, key_id: str) -> bytes:
        """Return the secret of a key.

        Raises:
            KeyRefusedError: The service will never open it again. What it sealed becomes unreadable, as with a lost key. Any
                other exception means that the service does not answer now: what needs the key is attempted again.
        """
        ...


class _Writing:
    def __init__(self, key: DataKey) -> None:
        self.key = key
        self.uses = 0
        self.until = time.monotonic() + MAX_AGE


class KeyRing:
    """The keys of a file of `sojourn keyring`.

    Args:
        file: The file, which only its owner may read.
        service: Opens the keys that it has wrapped.
    """

    def __init__(self, file: str | PathLike[str], service: KeyService | None = None) -> None:
        self.file = Path(file)
        self.service = service
        self._seen: object = None
        self._keys: Sequence[RingKey] = ()
        self._by_id: dict[str, RingKey] = {}
        self._by_tenant: dict[str, list[RingKey]] = {}
        """The keys of each tenant, as it is in run ids: a ring may have those of thousands."""
        self._opening: dict[str, asyncio.Task[bytes]] = {}
        self._opened = TTLCache[str, bytes](maxsize=1024, ttl=OPEN_SECONDS)
        self._reading: LRUCache[tuple[str, bytes], tuple[bytes, DataKey]] = LRUCache(maxsize=1024)
        self._writing: dict[str, _Writing] = {}

    def require(self) -> None:
        """Check that the ring can be used.

        Raises:
            DefinitionError: The file cannot be read, others may read it, or it has no key for runs without a tenant.
        """
        self.all_keys()

    def all_keys(self) -> Sequence[RingKey]:
        """Return the keys of the file as it is now.

        Raises:
            DefinitionError: The file cannot be read, or has no key for runs without a tenant, such as one that is half written.
        """
        seen = change_time(self.file)
        if seen != self._seen or seen is None:
            keys = read_ring(self.file)
            if not any(key.tenant == "" and key.erased_at is None for key in keys):
                raise DefinitionError(
                    f"the key ring {self.file} has no key for runs without a tenant; run: sojourn keyring create --ring {self.file}"
                )
            self._keys, self._seen = keys, seen
            self._by_id = {key.key_id: key for key in self._keys}
            self._by_tenant = {}
            for key in self._keys:
                self._by_tenant.setdefault(key.part, []).append(key)
            self._opened.clear()
            self._reading.clear()
            self._writing.clear()
        return self._keys

    def writing_key(self, part: str) -> RingKey:
        """Return the key that seals what a tenant's runs store now.

        Args:
            part: The tenant as in run ids; empty for none.

        Raises:
            KeyErasedError: Its keys were erased.
        """
        owner = self.owner(part)
        own = self._by_tenant[owner]
        usable = [key for key in own if key.erased_at is None]
        if not usable:
            raise KeyErasedError(
                f"the keys of the tenant {own[-1].tenant!r} were erased, so its runs can store nothing; "
                f"`sojourn keyring create --tenant {own[-1].tenant}` makes a new key for new runs"
            )
        return writing_key(usable)

    def owner(self, part: str) -> str:
        """Return the tenant whose keys seal for a tenant.

        This is itself, or none if it has no key of its own, also no erased one.
        """
        self.all_keys()
        return part if part in self._by_tenant else ""

    def check(self, tenant: str) -> None:
        """Raise `KeyErasedError` if the keys of a tenant were erased."""
        self.writing_key(tenant_part(tenant))

    @property
    def has_tenants(self) -> bool:
        """Whether a tenant has a key of its own."""
        self.all_keys()
        return len(self._by_tenant) > 1

    def find(self, key_id: str | None) -> RingKey | None:
        """Return the key of an id, also an erased one, or None."""
        self.all_keys()
        return self._by_id.get(key_id or "")

    async def data_key(self, key: RingKey) -> DataKey:
        """Return the data key with which a key of the ring seals payloads now."""
        writing = self._writing.get(key.key_id)
        if writing is None or writing.uses >= MAX_USES or writing.until < time.monotonic():
            made = DataKey.new(await self._secret(key), key.key_id)
            writing = self._writing[key.key_id] = _Writing(made)
        elif key.wrapped:
            await self._secret(key)  # a key that its service opens no longer writes no more
        writing.uses += 1
        return writing.key

    async def reading_key(self, key: RingKey, salt: bytes) -> DataKey:
        """Return the data key of a salt, with which a key of the ring sealed payloads."""
        secret = await self._secret(key)
        known = self._reading.get((key.key_id, salt))
        if known is None or known[0] != secret:
            known = self._reading[key.key_id, salt] = (secret, DataKey(secret, key.key_id, salt))
        return known[1]

    async def make_key(
        self, tenant: str = "", *, rotate: bool = False, after: timedelta = timedelta()
    ) -> RingKey:
        """Add a key to the file, wrapped by the key service if there is one.

        Args:
            tenant: The tenant whose runs it seals; empty for those without one.
            rotate: Whether it is a further key of the tenant, and not the first one.
            after: How long it only reads before it writes.

        Raises:
            DefinitionError: The file is not a key ring.
            InvalidInput: The tenant has a key already, or with `rotate` none.
            OSError: The file cannot be written.
        """
        key = new_key(tenant, after=after)
        if self.service is not None:
            wrapped = await self.service.wrap(key.secret_bytes, key.key_id)
            key = key.model_copy(update={"secret": b64encode(wrapped).decode(), "wrapped": True})
        add_key(self.file, key, rotate=rotate)
        return key

    async def _secret(self, key: RingKey) -> bytes:
        if not key.wrapped:
            return key.secret_bytes
        opened = self._opened.get(key.key_id)
        if opened is not None:
            return opened
        opening = self._opening.get(key.key_id)
        if opening is None or opening.get_loop() is not asyncio.get_running_loop():
            opening = self._opening[key.key_id] = asyncio.create_task(self._open(key))
            opening.add_done_callback(lambda task: self._end_opening(key.key_id, task))
        return await asyncio.shield(opening)  # many payloads may wait for one answer

    def _end_opening(self, key_id: str, task: asyncio.Task[bytes]) -> None:
        if self._opening.get(key_id) is task:
            del self._opening[key_id]
        if not task.cancelled():
            task.exception()  # a canceled caller waits no more, and asyncio would log it

    async def _open(self, key: RingKey) -> bytes:
        if self.service is None:
            raise CodecFailedError(
                f"{key.key_id} is wrapped by a key service; name a ring that has it: SOJOURN_KEYRING=MODULE:RING"
            )
        try:
            async with asyncio.timeout(SERVICE_SECONDS):
                opened = await self.service.unwrap(key.secret_bytes, key.key_id)
        except KeyRefusedError:
            raise
        except Exception as error:
            raise CodecFailedError(
                f"the key service does not open {key.key_id}: {type(error).__name__}"
            ) from error
        if len(opened) != SECRET_BYTES:
            raise CodecFailedError(
                f"the key service gives {len(opened)} bytes for {key.key_id}, and a key has {SECRET_BYTES}"
            )
        self._opened[key.key_id] = opened
        return opened


def load_ring(target: str) -> KeyRing:
    """Return the ring of a setting: a file, or `MODULE:RING`.

    Raises:
        DefinitionError: There is no such file or ring, or it cannot be used.
    """
    module, colon, _ = target.partition(":")
    if not colon or "/" in module or Path(target).exists():
        return KeyRing(target)
    found = load_target(target, "ring")
    if callable(found):
        try:
            found = found()
        except Exception as error:
            raise DefinitionError(
                f"{target}: the key ring cannot be made: {type(error).__name__}: {error}"
            ) from error
    if not isinstance(found, KeyRing):
        raise DefinitionError(
            f"{target}: there is no such key ring; name a KeyRing, or a function that returns one"
        )
    return found
