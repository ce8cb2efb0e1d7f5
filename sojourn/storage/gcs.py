"""Store payloads in Google Cloud Storage, with `sojourn[gcs]`."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.util import find_spec

from temporalio.contrib.gcp.gcsdriver import GCSStorageDriver
from temporalio.converter import StorageDriver

from sojourn.errors import DefinitionError
from sojourn.storage.bucket import BucketStorage

if find_spec("gcloud") is None or find_spec("gcloud.aio.storage") is None:
    raise DefinitionError(
        "GCSStorage needs gcloud-aio-storage, which is not installed here: pip install 'sojourn[gcs]'"
    )

from gcloud.aio.storage import Storage
from temporalio.contrib.gcp.gcsdriver.gcloud_aio import new_gcloud_aio_client

__all__ = ["GCSStorage"]


class GCSStorage(BucketStorage):
    """Keeps payloads in a bucket of Google Cloud Storage.

    Credentials are those of Google's SDKs: `GOOGLE_APPLICATION_CREDENTIALS`, or the service account
    of the machine. They need `storage.objects.get` and `storage.objects.create`.
    `STORAGE_EMULATOR_HOST` is the address of an emulator.

    Args:
        bucket: The name of the bucket, which exists.
        name: The driver's name, which tells the claims of several drivers apart.
    """

    access = (
        "set GOOGLE_APPLICATION_CREDENTIALS, or a service account that has storage.objects.get and "
        "storage.objects.create"
    )

    def __init__(self, bucket: str, *, name: str = "gcp.gcsdriver") -> None:
        super().__init__(bucket, name=name)

    @asynccontextmanager
    async def open_driver(self) -> AsyncGenerator[StorageDriver]:
        """Open a client of Google Cloud Storage, and Temporal's driver with it."""
        async with Storage() as client:
            yield GCSStorageDriver(new_gcloud_aio_client(client), self._bucket, driver_name=self._name)

    def status_of(self, error: BaseException | None) -> int | None:
        """Return the status that the service answered with."""
        status = getattr(error, "status", None)  # of aiohttp's error
        return status if isinstance(status, int) else None
