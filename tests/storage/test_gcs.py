"""GCSStorage: payloads in a bucket of Google Cloud Storage."""

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.converter import StorageDriverClaim, StorageDriverRetrieveContext, StorageDriverStoreContext

from sojourn.storage.gcs import GCSStorage
from tests.workflows.test_endless import shorter
from tests.workflows.test_stored_transcripts import answer_of, long_app

__all__ = ["shorter"]


async def test_the_transcript_of_a_long_run(shorter, serve, gcs_bucket):
    """Planners and readers get the messages of all executions."""
    client = await serve(long_app(8, gcs_bucket), storage=gcs_bucket)
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == answer_of(8)
    assert len(await run.transcript()) == 18


async def test_what_is_missing(gcs_bucket):
    """The errors name the bucket or the object, and say what to do."""
    with pytest.raises(FileNotFoundError, match="there is no bucket 'none': create it"):
        await GCSStorage("none").store(StorageDriverStoreContext(), [Payload(data=b"x")])
    claim = StorageDriverClaim({"bucket": "team", "object_name": "gone", "hash_algorithm": "sha256"})
    with pytest.raises(FileNotFoundError, match=r"object_name=gone.*the object was deleted"):
        await gcs_bucket.retrieve(StorageDriverRetrieveContext(), [claim])


async def test_an_outage(gcs_bucket, monkeypatch):
    """A server that is away is a ConnectionError."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")
    with pytest.raises(ConnectionError, match="Cannot connect to host"):
        await gcs_bucket.store(StorageDriverStoreContext(), [Payload(data=b"x")])
