"""S3Storage: large results and transcripts in a bucket, as a team keeps them, and what a storage that fails says."""

import importlib
import uuid

import pytest
from temporalio.converter import (
    StorageDriverClaim,
    StorageDriverRetrieveContext,
)

from sojourn import Agent, App, Client, PlanResult, Toolset, WithArtifacts
from sojourn.attachments import CHUNK_BYTES
from sojourn.checks.application import check_storage
from sojourn.core.run.continuation import KEY
from sojourn.errors import ArtifactNotFound, RunUnreadable
from sojourn.storage.s3 import S3Storage
from sojourn.testing import ScriptedPlanner
from sojourn.values.wire import MAX_ARTIFACT_BYTES, MAX_RESULT_BYTES
from tests.workflows.test_endless import flood, shorter
from tests.workflows.test_stored_transcripts import answer_of, arguments, long_app

__all__ = ["shorter"]

tools = Toolset("bulk.tools")


@tools.tool(read_only=True)
async def dump() -> str:
    """Return more than a history holds."""
    return "x" * (MAX_RESULT_BYTES + 1)


@tools.tool(read_only=True, artifacts={"table": str})
async def chart() -> WithArtifacts[str]:
    """Return an artifact that is larger than a history holds."""
    return WithArtifacts("drawn", table="y" * (MAX_ARTIFACT_BYTES + 1))


def bulk_app(storage: S3Storage, *names: str) -> App:
    calls = [tools.tools[name].call() for name in names]
    planner = ScriptedPlanner([PlanResult.calls(*calls), PlanResult.final("done")])
    return App(agents=[Agent("test.agent", planner=planner, uses=[tools])], storage=storage)


async def results(run) -> list:
    await run.result()
    return [event.result for event in [each async for each in run.events()] if event.type == "tool_end"]


async def refused(serve, storage: S3Storage) -> str:
    """The error of a call whose result the storage did not take; the run ends well."""
    client = await serve(bulk_app(storage, "dump"))
    (result,) = await results(await client.start("test.agent", "go"))
    return result.error.message


async def test_large_results_and_artifacts(serve, bucket):
    """What is too large for a history is an object below the prefix of its run, and readers get it whole."""
    client = await serve(bulk_app(bucket.storage, "dump", "chart"), storage=bucket.storage)
    run = await client.start("test.agent", "go")
    dumped, charted = sorted(await results(run), key=lambda result: result.name, reverse=True)
    assert (await run.artifact(dumped.result["artifact"])).data == "x" * (MAX_RESULT_BYTES + 1)
    (artifact,) = charted.artifacts
    assert (await run.artifact(artifact.ref)).data == "y" * (MAX_ARTIFACT_BYTES + 1)
    keys = await bucket.keys()
    assert len(keys) == 2
    assert all(f"/wi/{run.id}/" in key for key in keys)


async def test_the_transcript_of_a_long_run(shorter, serve, bucket):
    """Each execution of a long run leaves one object with its messages; planners and readers get them all."""
    client = await serve(long_app(16, bucket.storage), storage=bucket.storage)
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == answer_of(16)
    continued = await arguments(client, run.id)
    assert len(continued) >= 3
    assert len(await bucket.keys()) == len(continued)
    transcript = await run.transcript()
    assert [m.tool_results[0].result for m in transcript if m.role == "tool"] == answer_of(16).split(",")


async def test_an_outage_while_a_run_reads(shorter, serve, bucket):
    """A plan that cannot read the transcript says which server is away, and is attempted again until it is back."""
    client = await serve(long_app(8, bucket.storage, ask_at=6))
    run = await client.start("test.agent", "go")
    (wait,) = await run.until_waiting()
    await flood(run, 20)  # the run goes on, and no worker has its transcript in memory
    bucket.server.stop()
    try:
        await run.answer(wait, "yes")
        async for event in run.events():
            if event.type == "tool_retry":
                assert f"bucket={bucket.name}" in event.error
                assert f'Could not connect to the endpoint URL: "{bucket.server.url}' in event.error
                break
    finally:
        bucket.server.start()
    assert (await run.result()).text == answer_of(8)


async def test_an_outage_while_a_run_goes_on(shorter, serve, bucket, monkeypatch):
    """A long run goes on without the server, and carries the messages itself."""
    monkeypatch.setattr(importlib.import_module("workflows.continue_as_new"), "STORE_ATTEMPTS", 1)
    client = await serve(long_app(10, bucket.storage), storage=bucket.storage)
    bucket.server.stop()
    try:
        run = await client.start("test.agent", "go")
        assert (await run.result()).text == answer_of(10)
        kinds = [event.type async for event in run.events()]
        assert kinds.count("run_continued") >= 1
        assert len(await run.transcript()) == 22
    finally:
        bucket.server.start()


async def test_a_result_during_an_outage(serve, bucket):
    """A call whose result cannot be stored is answered with what is away; the run goes on."""
    bucket.server.stop()
    try:
        why = await refused(serve, bucket.storage)
    finally:
        bucket.server.start()
    assert "external storage did not take it" in why
    assert "Could not connect to the endpoint URL" in why


async def test_a_missing_bucket(serve, bucket):
    """The error names the bucket, and says to create it."""
    missing = S3Storage("no-such-bucket", endpoint_url=bucket.server.url)
    assert "there is no bucket 'no-such-bucket': create it" in await refused(serve, missing)


async def test_wrong_credentials(serve, bucket):
    """The error says that S3 lets nobody in, and what to set; it holds no secret."""
    bucket.server.let_in("0")
    try:
        why = await refused(serve, bucket.storage)
    finally:
        bucket.server.let_in("inf")
    assert "Forbidden" in why
    assert "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in why
    assert "swordfish" not in why


async def test_no_credentials(serve, bucket, monkeypatch, tmp_path):
    """Without credentials no request is sent, and the error says what to set."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    storage = S3Storage(bucket.name, endpoint_url=bucket.server.url)
    assert "Unable to locate credentials: set AWS_ACCESS_KEY_ID" in await refused(serve, storage)


async def test_a_deleted_result(serve, bucket):
    """The error names the reference with its run, the key, and what to do."""
    client: Client = await serve(bulk_app(bucket.storage, "dump"), storage=bucket.storage)
    run = await client.start("test.agent", "go")
    (result,) = await results(run)
    (key,) = await bucket.keys()
    await bucket.delete(key)
    with pytest.raises(ArtifactNotFound) as caught:
        await run.artifact(result.result["artifact"])
    text = str(caught.value)
    assert text.startswith(f"{run.id}#")
    assert f"key={key}" in text
    assert "was deleted: keep objects for as long as the runs that wrote them" in text


async def test_a_deleted_transcript(shorter, serve, bucket):
    """The error names the run, the key, and what to do; events, status and answer need no storage."""
    client = await serve(long_app(8, bucket.storage), storage=bucket.storage)
    run = await client.start("test.agent", "go")
    await run.result()
    key = (await arguments(client, run.id))[0]["transcript"][0][1]["key"]
    await bucket.delete(key)
    with pytest.raises(RunUnreadable) as caught:
        await run.transcript()
    text = str(caught.value)
    assert f"of run {run.id} cannot be read from external storage" in text
    assert f"key={key}" in text
    assert "was deleted: keep objects" in text
    assert (await run.status()).status == "completed"


async def test_two_runs_with_equal_messages(shorter, serve, bucket):
    """Runs with equal messages have objects of their own, and the claims of one open nothing for another."""
    client = await serve(long_app(8, bucket.storage), storage=bucket.storage)
    one, two = [await client.start("test.agent", "go") for _ in range(2)]
    for run in (one, two):
        assert (await run.result()).text == answer_of(8)
    keys = {
        run.id: {claim["key"] for _, claim in (await arguments(client, run.id))[-1]["transcript"]}
        for run in (one, two)
    }
    assert not keys[one.id] & keys[two.id]
    state = (await arguments(client, one.id))[-1]
    handle = await client.temporal.start_workflow(
        "AgentRun", {KEY: state}, id=f"odd-{uuid.uuid4().hex}", task_queue=client.task_queue
    )
    other = client.get_run(handle.id)
    with pytest.raises(RunUnreadable, match=f"is of run {one.id}, not of {handle.id}"):
        await other.transcript()
    await other.cancel()


@pytest.mark.parametrize("data", [{}, {"sha256": "a" * 64}, {"bucket": "another", "key": "secret"}])
async def test_a_claim_of_another_storage(bucket, data):
    """A claim of another bucket, or of another kind of storage, is refused before a request."""
    with pytest.raises(ValueError, match="the claim is not one of bucket"):
        await bucket.storage.retrieve(StorageDriverRetrieveContext(), [StorageDriverClaim(data)])


async def test_doctor_tries_the_storage(bucket):
    """The check stores an object and reads it, the same each time; where that fails it says why and what to do."""
    planner = ScriptedPlanner([])
    app = App(agents=[Agent("test.agent", planner=planner)], storage=bucket.storage)
    assert [(await check_storage(app)).ok for _ in range(2)] == [True, True]
    assert len(await bucket.keys()) == 1
    app.storage = S3Storage("no-such-bucket", endpoint_url=bucket.server.url)
    check = await check_storage(app)
    assert check.ok is False
    assert "there is no bucket 'no-such-bucket': create it" in check.found
    app.storage = None
    assert (await check_storage(app)).ok is None


async def test_a_file_is_stored_and_read_by_one_client(serve, bucket, monkeypatch):
    """A file of three chunks opens a client to be stored, and one to be read."""
    client = await serve(bulk_app(bucket.storage), storage=bucket.storage)
    opened, open_driver = [], S3Storage.open_driver
    monkeypatch.setattr(S3Storage, "open_driver", lambda self: opened.append(1) or open_driver(self))
    content = bytes(2 * CHUNK_BYTES + 5)

    async def pieces():
        yield content

    file = await client.attachments.store(pieces(), name="a.bin", run_id="r")
    assert opened == [1]
    assert b"".join([chunk async for chunk in client.attachments.read(file, {"r"})]) == content
    assert opened == [1, 1]
