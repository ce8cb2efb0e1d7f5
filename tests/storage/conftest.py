"""Servers of S3 and of Google Cloud Storage, each on a port of loopback."""

import urllib.request
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aioboto3
import pytest
from gcp_storage_emulator.server import create_server
from moto.server import ThreadedMotoServer

from sojourn.storage.gcs import GCSStorage
from sojourn.storage.s3 import S3Storage


class S3Server:
    """A server of S3 that can be away; it keeps its objects meanwhile."""

    def __init__(self) -> None:
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        host, self._port = self._server.get_host_and_port()
        self.url = f"http://{host}:{self._port}"

    def stop(self) -> None:
        """Answer no request."""
        self._server.stop()

    def start(self) -> None:
        """Serve again, at the same address."""
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=self._port, verbose=False)
        self._server.start()

    def let_in(self, count: str) -> None:
        """Let so many requests in without a look at their credentials: `0`, or `inf`."""
        request = urllib.request.Request(
            f"{self.url}/moto-api/reset-auth", count.encode(), {"Content-Type": "text/plain"}
        )
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200


class Bucket:
    """A bucket of the test, and a client of S3 that sees its objects."""

    def __init__(self, client: Any, server: S3Server) -> None:
        self._client = client
        self.server = server
        self.name = f"team-{uuid.uuid4().hex[:8]}"
        self.storage = S3Storage(self.name, endpoint_url=server.url)

    async def make(self) -> None:
        """Make the bucket."""
        await self._client.create_bucket(Bucket=self.name)

    async def keys(self) -> list[str]:
        """List the keys of its objects."""
        listed = await self._client.list_objects_v2(Bucket=self.name)
        return [each["Key"] for each in listed.get("Contents", [])]

    async def delete(self, key: str) -> None:
        """Delete an object."""
        await self._client.delete_object(Bucket=self.name, Key=key)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """A server of S3."""
    server = S3Server()
    yield server
    server.stop()


@pytest.fixture
def s3_env(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials of S3, as a team sets them."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "swordfish")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


@pytest.fixture
async def bucket(s3_server: S3Server, s3_env: None) -> AsyncIterator[Bucket]:
    """A new bucket of S3."""
    async with aioboto3.Session().client("s3", endpoint_url=s3_server.url) as client:
        bucket = Bucket(client, s3_server)
        await bucket.make()
        yield bucket


@pytest.fixture
def gcs_bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[GCSStorage]:
    """A storage in a bucket of a server of Google Cloud Storage."""
    server = create_server("127.0.0.1", 0, in_memory=True, default_bucket="team")
    server.start()
    port = server._api._httpd.socket.getsockname()[1]
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
    yield GCSStorage("team")
    server.stop()
