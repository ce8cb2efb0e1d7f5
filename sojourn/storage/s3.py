"""Store payloads in S3, or in a server that speaks its protocol.

It needs `sojourn[s3]`.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any

from temporalio.contrib.aws.s3driver import S3StorageDriver
from temporalio.converter import StorageDriver

from sojourn.errors import DefinitionError
from sojourn.storage.bucket import BucketStorage

if find_spec("aioboto3") is None:
    raise DefinitionError("S3Storage needs aioboto3, which is not installed here: pip install 'sojourn[s3]'")

from aioboto3 import Session
from botocore.config import Config
from botocore.exceptions import ClientError, NoCredentialsError, PartialCredentialsError
from temporalio.contrib.aws.s3driver.aioboto3 import new_aioboto3_client

__all__ = ["S3Storage"]

_PATIENCE = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 3})
"""The SDK's own time-outs are a minute, and a tool's call waits for its result to be stored."""


class S3Storage(BucketStorage):
    """Keeps payloads in a bucket of S3.

    Credentials and region are those of the AWS SDK: variables such as `AWS_ACCESS_KEY_ID` and `AWS_REGION`, a profile, or the
    role of the machine. They need `s3:GetObject`, `s3:PutObject` and `s3:ListBucket`.

    Args:
        bucket: The name of the bucket, which exists.
        name: The driver's name, which tells the claims of several drivers apart.
        endpoint_url: The address of another server that speaks the protocol.
        config: Settings of the client, in addition to Sojourn's time-outs and attempts.
    """

    access = (
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role that has s3:GetObject, "
        "s3:PutObject and s3:ListBucket"
    )

    def __init__(
        self,
        bucket: str,
        *,
        name: str = "aws.s3driver",
        endpoint_url: str | None = None,
        config: Config | None = None,
    ) -> None:
        super().__init__(bucket, name=name)
        self._session: Any = Session()
        self._client: dict[str, Any] = {
            "endpoint_url": endpoint_url,
            "config": _PATIENCE.merge(config) if config else _PATIENCE,
        }

    @asynccontextmanager
    async def open_driver(self) -> AsyncGenerator[StorageDriver]:
        """Open a client of S3, and Temporal's driver with it."""
        async with self._session.client("s3", **self._client) as client:
            yield S3StorageDriver(new_aioboto3_client(client), self._bucket, driver_name=self._name)

    def status_of(self, error: BaseException | None) -> int | None:
        """Return the status that S3 answered with.

        401 if no request was sent because credentials are missing.
        """
        if isinstance(error, ClientError):
            return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return 401 if isinstance(error, (NoCredentialsError, PartialCredentialsError)) else None
