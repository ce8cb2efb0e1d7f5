"""Store payloads as objects of a bucket, with one of Temporal's drivers.

Those drivers need an open client of the service, which belongs to one event loop. Here each operation opens
a client of its own, which takes up to 50 ms. So an app can be declared at import, any event loop can use
its storage, and nothing is left to close. `held_open` has one client for several operations, such as those of a file.
"""

from abc import abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

__all__ = ["BucketStorage", "held_open"]

_KEEP = "keep objects for as long as the runs that wrote them"


class BucketStorage(StorageDriver):
    access: str

    def __init__(self, bucket: str, *, name: str) -> None:
        self._bucket = bucket
        self._name = name

    def name(self) -> str:
        return self._name

    @abstractmethod
    def open_driver(self) -> AbstractAsyncContextManager[StorageDriver]: ...

    @abstractmethod
    def status_of(self, error: BaseException | None) -> int | None:
        """Return the HTTP status of the service's answer, or None."""

    @asynccontextmanager
    async def hold(self) -> AsyncGenerator[StorageDriver]:
        """Open a client, and yield this storage with it."""
        async with self.open_driver() as driver:
            yield _OpenBucket(self, driver)

    async def store(
        self, context: StorageDriverStoreContext, payloads: Sequence[Payload]
    ) -> list[StorageDriverClaim]:
        """Write the payloads below a prefix of their run, and return their claims.

        Raises:
            FileNotFoundError: There is no such bucket.
            PermissionError: The service refuses these credentials.
            ConnectionError: The service cannot be reached, or does not serve.
        """
        async with self.hold() as held:
            return await held.store(context, payloads)

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """Read the payloads.

        Raises the errors of `store`, and ValueError for a claim of another bucket or a changed object.
        """
        self.check_claims(claims)
        async with self.hold() as held:
            return await held.retrieve(context, claims)

    def check_claims(self, claims: Sequence[StorageDriverClaim]) -> None:
        """Raise ValueError for a claim of another bucket."""
        if any(claim.claim_data.get("bucket") != self._bucket for claim in claims):
            raise ValueError(f"the claim is not one of bucket {self._bucket!r}")

    def explain(self, error: RuntimeError, missing: str = "") -> OSError:
        """Return a driver's error, which names bucket and key, with what to do."""
        cause = error.__cause__
        status = self.status_of(cause)
        if status == 404:
            missing = missing or f"there is no bucket {self._bucket!r}: create it"
            return FileNotFoundError(f"{error}: {missing}")
        if status in {401, 403}:
            return PermissionError(f"{error}: {cause}: {self.access}")
        return ConnectionError(f"{error}: {cause}")


class _OpenBucket(StorageDriver):
    def __init__(self, storage: BucketStorage, driver: StorageDriver) -> None:
        self._storage = storage
        self._driver = driver

    def name(self) -> str:
        return self._storage.name()

    async def store(
        self, context: StorageDriverStoreContext, payloads: Sequence[Payload]
    ) -> list[StorageDriverClaim]:
        try:
            return await self._driver.store(context, payloads)
        except RuntimeError as error:
            raise self._storage.explain(error) from error.__cause__

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        self._storage.check_claims(claims)
        try:
            return await self._driver.retrieve(context, claims)
        except RuntimeError as error:
            raise self._storage.explain(error, f"the object was deleted: {_KEEP}") from error.__cause__


def held_open(driver: StorageDriver) -> AbstractAsyncContextManager[StorageDriver]:
    """Return a driver for several operations on this event loop.

    That of a bucket has one client for all of them.
    """
    return driver.hold() if isinstance(driver, BucketStorage) else nullcontext(driver)
