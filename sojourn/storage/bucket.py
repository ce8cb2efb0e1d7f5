"""Store payloads as objects of a bucket, with one of Temporal's drivers.

Those drivers need an open client of the service, which belongs to one event loop. Here each
operation opens a client of its own, which takes up to 50 ms. So an app can be declared at import,
any event loop can use its storage, and nothing is left to close.
"""

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

__all__ = ["BucketStorage"]

_KEEP = "keep objects for as long as the runs that wrote them are kept"


class BucketStorage(StorageDriver):
    """Keeps payloads in a bucket.

    Args:
        bucket: The name of the bucket, which exists.
        name: The driver's name, by which claims of several drivers differ.
    """

    access: str
    """What a person sets to be let in, and the permissions that it takes."""

    def __init__(self, bucket: str, *, name: str) -> None:
        self._bucket = bucket
        self._name = name

    def name(self) -> str:
        """Return the driver's name."""
        return self._name

    @abstractmethod
    def opened(self) -> AbstractAsyncContextManager[StorageDriver]:
        """Open a client of the service, and Temporal's driver with it."""

    @abstractmethod
    def status_of(self, error: BaseException | None) -> int | None:
        """Return the HTTP status that the service answered with, or None.

        None if the error of its client does not come from the service.
        """

    async def store(
        self, context: StorageDriverStoreContext, payloads: Sequence[Payload]
    ) -> list[StorageDriverClaim]:
        """Write the payloads as objects below a prefix of their run.

        Returns:
            The claims of the payloads.

        Raises:
            FileNotFoundError: There is no such bucket.
            PermissionError: The service refuses these credentials.
            ConnectionError: The service cannot be reached, or does not serve.
        """
        try:
            async with self.opened() as driver:
                return await driver.store(context, payloads)
        except RuntimeError as error:
            raise self._explained(
                error, f"there is no bucket {self._bucket!r}: create it"
            ) from error.__cause__

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """Read the payloads.

        Raises:
            FileNotFoundError: The object was deleted, or its bucket.
            PermissionError: The service refuses these credentials.
            ConnectionError: The service cannot be reached, or does not serve.
            ValueError: The claim is not one of this bucket, or the object was changed.
        """
        if any(claim.claim_data.get("bucket") != self._bucket for claim in claims):
            raise ValueError(f"the claim is not one of bucket {self._bucket!r}")
        try:
            async with self.opened() as driver:
                return await driver.retrieve(context, claims)
        except RuntimeError as error:
            raise self._explained(error, f"the object was deleted: {_KEEP}") from error.__cause__

    def _explained(self, error: RuntimeError, missing: str) -> OSError:
        """Return the error of a driver with its cause, and what to do.

        The text of the driver's error names bucket and key.
        """
        cause = error.__cause__
        status = self.status_of(cause)
        if status == 404:
            return FileNotFoundError(f"{error}: {missing}")
        if status in {401, 403}:
            return PermissionError(f"{error}: {cause}: {self.access}")
        return ConnectionError(f"{error}: {cause}")
