"""Encrypted runs: readable with the key only, and not blocked by payloads that cannot be decrypted."""

import uuid

import pytest
from cryptography.fernet import Fernet
from temporalio.api.common.v1 import Payload
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowUpdateFailedError
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from sojourn import (
    Agent,
    App,
    AwaitClarification,
    Client,
    PlanResult,
    RunFailed,
    RunPolicy,
    Toolset,
)
from sojourn.connection.connect import converter_with
from sojourn.errors import DefinitionError, RunUnreadable
from sojourn.storage import FolderStorage, load
from sojourn.testing.scripted import ScriptedPlanner
from sojourn.worker import shell
from tests.encrypted.keys import ENCODING, FernetCodec

SECRET = "the-vault-code-is-4711"
ANSWER = "provide_clarification"

books = Toolset("vault.books", description="Books")


@books.tool
async def read_book(title: str) -> str:
    """Read."""
    return f"{title}: {SECRET}"


@books.tool
async def burn(title: str) -> str:
    """Fail with a secret in the text."""
    raise RuntimeError(f"{title} burnt, {SECRET}")


def planner():
    return ScriptedPlanner(
        [
            PlanResult.calls(read_book.call(title=SECRET), burn.call(title=SECRET)),
            PlanResult.ask(AwaitClarification(id="q", question=f"{SECRET}?")),
            lambda turn: PlanResult.final(turn.messages[-1].text),
        ]
    )


async def waiting_run(serve, status_when, **connecting):
    client = await serve(
        planner=planner(), uses=(books,), policy=RunPolicy(interrupts_allowed=True), **connecting
    )
    run = await client.start("test.agent", f"open {SECRET}")
    await status_when(run, lambda status: status.awaits)
    return run


def garbage(data: bytes = b"garbage") -> RawValue:
    return RawValue(Payload(metadata={"encoding": ENCODING}, data=data))


async def test_with_the_key_all_is_readable_and_without_it_nothing(
    serve, status_when, traces, temporal_address
):
    """No payload, memo, summary or error on the server has clear text; a client with the key reads all of it (SR-115)."""
    codec = FernetCodec()
    run = await waiting_run(serve, status_when, codec=codec)
    blind = (await Client.connect(temporal_address)).get_run(run.id)
    for asked in (blind.status(), blind.transcript(), collected(blind)):
        with pytest.raises(RunUnreadable, match="--codec"):
            await asked
    await run.answer("q", f"{SECRET}!")
    assert (await run.result()).text == f"{SECRET}!"
    with pytest.raises(RunUnreadable):
        await blind.result()
    ends = {event.result.name: event.result for event in await collected(run) if event.type == "tool_end"}
    assert ends[read_book.id].result == f"{SECRET}: {SECRET}"
    assert SECRET in str(ends[burn.id].error)
    kept = b"".join(event.SerializeToString() for event in await traces(run).history())
    described = await blind._handle.describe()
    assert SECRET.encode() not in kept + described.raw_description.SerializeToString()
    listed = [found.run_id async for found in blind.client.list_runs(agent_id="test.agent", limit=50)]
    assert isinstance(listed, list)


async def collected(run):
    return [event async for event in run.events(follow=False)]


async def test_an_error_that_ends_a_run_is_encrypted_too(serve, traces):
    """The error of a failed run is ciphertext on the server, and readable with the key."""

    async def broken(turn):
        raise ApplicationError(f"no {SECRET}", non_retryable=True)

    client = await serve(planner=broken, codec=FernetCodec(), policy=RunPolicy())
    run = await client.start("test.agent", "go")
    with pytest.raises(RunFailed, match=SECRET):
        await run.result()
    assert SECRET in str((await run.status()).failure)
    kept = b"".join(event.SerializeToString() for event in await traces(run).history())
    assert SECRET.encode() not in kept


@pytest.mark.parametrize("only", [False, True], ids=["clear text taken", "encrypted only"])
async def test_garbage_and_clear_text_are_refused_with_a_note(
    serve, status_when, traces, temporal_address, only
):
    """Ciphertext that cannot be decrypted is refused, with a note; clear text is accepted, unless `encrypted_only` is set."""
    run = await waiting_run(serve, status_when, codec=FernetCodec(), encrypted_only=only)
    plain = (await TemporalClient.connect(temporal_address)).get_workflow_handle(run.id)
    for name in (ANSWER, "provide_confirmation", "pause", "resume", "stop_asking", "explode"):
        await plain.signal(name, garbage())
    for name in (ANSWER, "pause"):
        with pytest.raises(WorkflowUpdateFailedError):
            await plain.execute_update(name, garbage())
    status = await status_when(run, lambda status: len(status.notes) >= 5)
    assert sum("cannot be decrypted here" in note for note in status.notes) == 5
    clear = {"id": "q", "answer": "in the clear"}
    await plain.signal(ANSWER, clear)
    if only:
        await status_when(run, lambda status: "not encrypted" in status.notes[-1])
        with pytest.raises(WorkflowUpdateFailedError):
            await plain.execute_update(ANSWER, clear)
        assert (await run.status()).status == "waiting"
        await run.answer("q", "in cipher")
    assert (await run.result()).text == ("in cipher" if only else "in the clear")
    await traces(run).check()
    answered = [event for event in await collected(run) if event.type == "await_answered"]
    assert len(answered) == 1


async def test_a_start_in_clear_text_or_garbage_fails_at_once(serve, temporal_address, traces):
    """With `encrypted_only` a run started in clear text, as by Temporal's CLI, or with garbage fails at once; its events can be read."""
    client = await serve(
        planner=ScriptedPlanner([PlanResult.final("done")]), codec=FernetCodec(), encrypted_only=True
    )
    plain = await TemporalClient.connect(temporal_address)
    good = {
        "agent_id": "test.agent",
        "messages": [{"role": "user", "parts": [{"type": "text", "text": "go"}]}],
    }
    for given, why in ((good, "not encrypted"), (garbage(), "decrypted")):
        run_id = uuid.uuid4().hex
        await plain.start_workflow(
            "AgentRun", given, id=run_id, task_queue=client.task_queue, memo={"m": garbage()}
        )
        with pytest.raises(RunFailed, match=why):
            await client.get_run(run_id).result()
        await traces(client.get_run(run_id)).check()
        *_, failed, _ = await collected(client.get_run(run_id))
        assert failed.type == "run_failed"
        assert why in failed.text
    assert (await client.execute("test.agent", "go")).text == "done"


async def test_a_run_that_failed_for_its_opening_is_readable_without_the_key(serve, temporal_address):
    """A run whose input its workers could not decrypt fails with an error in clear text, so its events and status can be read."""
    client = await serve(planner=ScriptedPlanner([PlanResult.final("done")]))
    sealed = await Client.connect(temporal_address, task_queue=client.task_queue, codec=FernetCodec())
    run = client.get_run((await sealed.start("test.agent", SECRET)).id)
    with pytest.raises(RunFailed):
        await run.result()
    assert [event.type for event in await collected(run)][-2:] == ["run_failed", "run_stream_end"]
    assert (await run.status()).status == "failed"


async def test_a_replay_refuses_the_same_messages_when_keys_and_settings_change(serve, status_when, traces):
    """A replay accepts and refuses the same messages as the run did, whichever keys and settings it has."""
    first, second = Fernet.generate_key(), Fernet.generate_key()
    codec = FernetCodec(first)
    run = await waiting_run(serve, status_when, codec=codec)
    other = FernetCodec(second)
    (early,) = await other.encode(
        [Payload(metadata={"encoding": b"json/plain"}, data=b'{"id": "q", "answer": "early"}')]
    )
    await traces(run).handle.signal(ANSWER, RawValue(early))  # the worker's codec does not have this key yet
    await status_when(run, lambda status: status.notes)
    clear = await TemporalClient.connect(run.client.temporal.service_client.config.target_host)
    await clear.get_workflow_handle(run.id).signal(ANSWER, {"id": "q", "answer": "clear"})
    assert (await run.result()).text == "clear"
    history = await run._handle.fetch_history()
    for keys, only in (([first], False), ([first, second], False), ([first, second], True)):
        converter = converter_with(FernetCodec(*keys), encrypted_only=only)
        app = App(agents=[Agent("test.agent", planner=planner())])
        replayer = Replayer(
            workflows=list(shell(app).workflows),
            workflow_runner=UnsandboxedWorkflowRunner(),
            data_converter=converter,
        )
        await replayer.replay_workflow(history)
    lost = Replayer(
        workflows=list(shell(app).workflows),
        workflow_runner=UnsandboxedWorkflowRunner(),
        data_converter=converter_with(FernetCodec(second)),
    )
    with pytest.raises(
        RuntimeError
    ):  # the workflow task fails until the key is back, and marks no payload as unreadable
        await lost.replay_workflow(history)


async def test_a_key_service_that_is_away_loses_no_message(
    serve, status_when, traces, until, temporal_address
):
    """While the key service is unavailable the workflow task fails; it is attempted again, and a valid answer is accepted."""
    key = Fernet.generate_key()
    codec = FernetCodec(key)
    run = await waiting_run(serve, status_when, codec=codec)
    client = await Client.connect(temporal_address, codec=FernetCodec(key))
    codec.away = True
    signal = client.temporal.get_workflow_handle(run.id)
    await signal.signal(ANSWER, {"id": "q", "answer": "real"})

    async def failing():
        return (await signal.describe()).raw_description.pending_workflow_task.attempt > 1

    await until(failing)
    codec.away = False
    assert (await client.get_run(run.id).result()).text == "real"


async def test_a_codec_that_cannot_be_loaded_is_a_definition_error(monkeypatch):
    """A missing codec, an object that is no codec, and a wrong `SOJOURN_ENCRYPTED_ONLY` are a `DefinitionError` of `connect`."""
    for target in ("nowhere:codec", "tests.encrypted.keys:nothing", "tests.encrypted.keys:ENCODING", "x"):
        monkeypatch.setenv("SOJOURN_CODEC", target)
        with pytest.raises(DefinitionError):
            await Client.connect()
    monkeypatch.delenv("SOJOURN_CODEC")
    with pytest.raises(DefinitionError, match="no codec"):
        await Client.connect(encrypted_only=True)
    monkeypatch.setenv("SOJOURN_ENCRYPTED_ONLY", "perhaps")
    with pytest.raises(DefinitionError, match="must be 1 or 0"):
        await Client.connect()


async def test_external_storage_is_encrypted_too(serve, tmp_path):
    """External storage has ciphertext: a client with the key reads it, and without the key loading raises."""
    tools = Toolset("vault.shelf")

    @tools.tool
    async def fetch() -> str:
        """Fetch more than a history holds."""
        return SECRET * 100_000

    planner = ScriptedPlanner([PlanResult.calls(fetch.call()), PlanResult.final("done")])
    storage = FolderStorage(tmp_path)
    app = App(agents=[Agent("vault.agent", planner=planner, uses=[tools])], storage=storage)
    client = await serve(app, codec=FernetCodec(), storage=storage)
    run = await client.start("vault.agent", "go")
    await run.result()
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert SECRET.encode() not in file.read_bytes()
    (ref,) = [artifact.ref for artifact in (await run.result()).artifacts]
    assert (await client.artifact(ref)).data == SECRET * 100_000
    (artifact,) = [
        artifact
        async for event in run.events(follow=False)
        if event.type == "tool_end"
        for artifact in event.result.artifacts
    ]
    with pytest.raises(ValueError, match="encrypted with keys that are not here"):
        await load(storage, artifact.claim)
