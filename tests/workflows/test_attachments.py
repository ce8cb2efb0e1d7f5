"""Attachments: stored once, carried as claims, read by the tools, flows and people of their own run."""

import hashlib
from datetime import timedelta
from typing import NoReturn

import pytest
import temporalio.client
from pydantic import BaseModel
from temporalio.client import DescribeWorkflowInput, Interceptor, OutboundInterceptor
from temporalio.service import RPCError, RPCStatusCode

from sojourn import (
    Agent,
    AgentTool,
    App,
    Attachment,
    AttachmentLimits,
    Case,
    Client,
    InvalidInput,
    Message,
    PlanResult,
    Principal,
    RunPolicy,
    ToolCallMeta,
    Toolset,
    Turn,
    flow,
)
from sojourn.attachments import Attachments, comparable, fork_origins
from sojourn.contracts.message import ImagePart
from sojourn.core.awaits.envelope import Rejection
from sojourn.core.run.inbox import Inbox, read_send
from sojourn.errors import ArtifactNotFound, RunNotFound, StorageUnavailable
from tests.encrypted.keys import FernetCodec
from tests.storage.away import AwayStorage

files = Toolset("desk.files")


@files.tool(read_only=True)
async def measure(file: Attachment) -> str:
    """Return what the file is."""
    content = await file.read()
    return f"{file.name} {file.media_type} {len(content)} {hashlib.sha256(content).hexdigest()[:8]}"


@files.tool(read_only=True)
def measure_blocking(file: Attachment) -> int:
    """Return the size of the file, read in a thread."""
    return len(file.read_blocking())


@files.tool(read_only=True, attachments=True)
async def name_all(meta: ToolCallMeta) -> list[str]:
    """Return the names of all files."""
    return [file.name for file in meta.attachments]


@files.tool(confirmation="Delete {file}?")
async def delete(file: Attachment) -> str:
    """Delete a file."""
    return file.name


class Inspection(BaseModel):
    file: Attachment


async def plan(turn: Turn) -> PlanResult:
    """Call the tool that the last message of a person names, with the newest file or the id it gives."""
    if turn.messages[-1].role == "tool":
        result = turn.tool_results[0]
        hint = result.retry_hint.message if result.retry_hint else ""
        return PlanResult.final(str(result.result if result.ok else f"{result.error} {hint}"))
    word, _, id = turn.messages[-1].text.partition(" ")
    newest = [file.id for message in turn.messages for file in message.attachments][-1:]
    tool = {each.id.rsplit(".", 1)[-1]: each for each in files.tools.values()}[word]
    payload = {} if word == "name_all" else {"file": id or newest[0]}
    return PlanResult.calls(tool.call().model_copy(update={"payload": payload}))


@pytest.fixture
def storage(tmp_path):
    return AwayStorage(tmp_path / "storage")


@pytest.fixture
def served(serve, storage):
    async def start(**connecting) -> Client:
        app = App(
            agents=[
                Agent("desk.clerk", planner=plan, uses=[files], policy=RunPolicy(interrupts_allowed=True))
            ],
            storage=storage,
        )
        return await serve(app, storage=storage, **connecting)

    return start


def written(folder, name: str, size: int):
    path = folder / name
    path.write_bytes(hashlib.sha256(name.encode()).digest() * (size // 32))
    return path


def digest_of(path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:8]


async def test_large_files_are_read_by_tools_and_stay_out_of_the_history(served, traces, tmp_path):
    """A photo of 12 MB and a PDF of 20 MB: the tool gets every byte, and the history has less than 10 kB for the message."""
    client = await served()
    photo = written(tmp_path, "photo.jpg", 12_000_000)
    scan = written(tmp_path, "scan.pdf", 20_000_000)
    run = await client.start("desk.clerk", "measure", attachments=[photo, scan])
    output = await run.result()
    expected = hashlib.sha256(scan.read_bytes()).hexdigest()[:8]
    assert output.text == f"scan.pdf application/pdf 20000000 {expected}"
    history = await traces(run).history()
    first = history[0]
    assert first.ByteSize() < 10_000
    assert sum(event.ByteSize() for event in history) < 30_000


async def test_a_synchronous_tool_reads_a_file(served, tmp_path):
    """A tool that runs in a thread reads the content with `read_blocking`."""
    client = await served()
    path = written(tmp_path, "a.bin", 3_200_000)
    output = await client.execute("desk.clerk", "measure_blocking", attachments=[path])
    assert output.text == "3200000"


async def test_a_conversation_has_the_files_of_its_messages(served, tmp_path):
    """`meta.attachments` has those of earlier turns too, and an upload is sent by what `attach` returned."""
    client = await served()
    session = client.session("desk.clerk", "files-1")
    first = await session.send("name_all", attachments=[written(tmp_path, "a.txt", 640)])
    assert (await first.result()).text == "['a.txt']"
    upload = await client.attach(written(tmp_path, "b.txt", 640))
    second = await session.send("name_all", attachments=[upload])
    assert (await second.result()).text == "['a.txt', 'b.txt']"


async def test_an_unknown_id_is_answered_with_those_there_are(served, tmp_path):
    """A model that makes up an id gets an error that lists the conversation's."""
    client = await served()
    output = await client.execute(
        "desk.clerk", "measure att_0123456789abcdef", attachments=[written(tmp_path, "a.txt", 640)]
    )
    assert "no attachment has this id" in output.text
    assert "(a.txt)" in output.text


async def test_an_approver_sees_the_files_that_the_arguments_name(served, tmp_path):
    """The wait has the file's record, its question the file's name, and the decision covers it, since the id stands for the content."""
    client = await served()
    run = await client.start("desk.clerk", "delete", attachments=[written(tmp_path, "a.txt", 640)])
    (wait,) = await run.until_waiting()
    assert [file.name for file in wait.attachments] == ["a.txt"]
    assert wait.prompt == "Delete a.txt?"
    await run.approve(wait.id, payload_digest=wait.payload_digest)
    assert (await run.result()).text == "a.txt"


async def test_inline_data_goes_to_storage(served, traces):
    """A picture sent as base64 is stored too, so that it does not count for the message's size."""
    client = await served()
    data = "QUJD" * 500_000
    image = ImagePart(type="image", media_type="image/png", data=data)
    message = Message(role="user", parts=[*Message.user("measure").parts, image])
    session = client.session("desk.clerk", "inline-1")
    turn = await session.send(message, message_id="m1")
    assert (await turn.result()).text.startswith("image.png image/png 1500000")
    assert sum(event.ByteSize() for event in await traces(session.run).history()) < 30_000
    (kept,) = [each for each in await session.transcript() if each.attachments]
    assert comparable(kept) == comparable(message)
    again = await session.send(message, message_id="m1")
    assert again.is_repeated


async def test_a_flow_passes_files_to_tools(serve, storage, tmp_path):
    """`case.attachments` has the files of the turn, and a tool that gets one reads it."""

    @flow
    def sort(case: Case) -> str:
        return ", ".join(case.call(measure, file=file) for file in case.attachments)

    client = await serve(
        App(
            agents=[
                Agent("desk.sorter", planner=sort, uses=[files], policy=RunPolicy(interrupts_allowed=True))
            ],
            storage=storage,
        ),
        storage=storage,
    )
    paths = [written(tmp_path, "a.txt", 640), written(tmp_path, "b.pdf", 3_200)]
    output = await client.execute("desk.sorter", "sort them", attachments=paths)
    assert "a.txt text/plain 640" in output.text
    assert "b.pdf application/pdf 3200" in output.text


async def test_a_child_run_reads_a_file_that_its_call_names(serve, storage, tmp_path):
    """An agent tool with an attachment: its run has the file, as part of its first message."""
    clerk = Agent("desk.clerk", planner=plan, uses=[files], policy=RunPolicy(interrupts_allowed=True))

    async def ask(turn: Turn) -> PlanResult:
        if turn.messages[-1].role == "tool":
            return PlanResult.final(str(turn.tool_results[0].result))
        return PlanResult.calls(tool.call(file=turn.messages[-1].attachments[0].id))

    exported = clerk.export(
        "desk.clerks", tools=[AgentTool("inspect", args=Inspection, user=lambda _: "measure")]
    )
    tool = exported["inspect"]
    chief = Agent("desk.chief", planner=ask, uses=[exported])
    client = await serve(App(agents=[chief, clerk], storage=storage), storage=storage)
    output = await client.execute("desk.chief", "go", attachments=[written(tmp_path, "a.txt", 640)])
    assert output.text.startswith("a.txt text/plain 640")


async def test_only_its_own_run_reads_a_file(served, storage, tmp_path):
    """A claim of another run is refused, as if there were no such file."""
    client = await served()
    own = await client.start("desk.clerk", "measure", attachments=[written(tmp_path, "a.txt", 640)])
    await own.result()
    (record,) = (await own.transcript())[0].attachments
    stored = Attachments(client.temporal, storage)
    assert b"".join([chunk async for chunk in stored.read(record, {own.id})])
    with pytest.raises(ArtifactNotFound):
        async for _ in stored.read(record, {"another-run"}):
            pass


async def test_an_upload_is_its_owners(served, tmp_path):
    """Another tenant, or another person of the tenant, cannot send an upload; neither can a claim of other data."""
    client = await served()
    ana = Principal(subject="ana", tenant="a")
    upload = await client.attach(written(tmp_path, "a.txt", 640), principal=ana)
    for other in (Principal(subject="ana", tenant="b"), Principal(subject="ben", tenant="a"), None):
        with pytest.raises(InvalidInput, match="no such upload of yours"):
            await client.start("desk.clerk", "measure", principal=other, attachments=[upload.reference])
    run = await client.start("desk.clerk", "measure", principal=ana, attachments=[upload.reference])
    assert (await run.result()).text.startswith("a.txt")
    (record,) = (await run.transcript())[0].attachments
    with pytest.raises(InvalidInput):  # the claim of a run's file is no upload
        await client.start(
            "desk.clerk", "measure", principal=ana, attachments=[upload.model_copy(update=dict(record))]
        )


async def test_a_refusal_says_why(served, tmp_path):
    """Too large, of a type that is not accepted, too many, missing, and no storage."""
    limits = AttachmentLimits(max_bytes=1_000, max_count=1, media_types=["image/*"])
    client = await served(attachment_limits=limits)
    large, text = written(tmp_path, "a.png", 2_000), written(tmp_path, "a.txt", 640)
    for given, why in (
        ([large], "a.png has more than 1,000 bytes"),
        ([text], "files of type text/plain are not accepted, but image/"),
        ([text, text], "at most 1"),
        ([tmp_path / "none.png"], "none.png cannot be read: No such file"),
        (["upl_x"], "is not the reference of an upload"),
    ):
        with pytest.raises(InvalidInput, match=why):
            await client.start("desk.clerk", "measure", attachments=given)


async def test_an_encrypted_file_is_ciphertext_in_storage(served, tmp_path):
    """With a codec nothing of the file stands in clear in the storage, and the tool reads it."""
    client = await served(codec=FernetCodec())
    path = tmp_path / "secret.txt"
    path.write_text("the very secret text " * 100)
    output = await client.execute("desk.clerk", "measure", attachments=[path])
    assert output.text.startswith("secret.txt text/plain 2100")
    stored = b"".join(each.read_bytes() for each in (tmp_path / "storage").rglob("*") if each.is_file())
    assert b"secret" not in stored


async def test_a_message_with_a_bad_record_is_refused(served):
    """A program that writes a record by hand cannot give it a path, or an id of another form."""
    client = await served()
    session = client.session("desk.clerk", "bad-1")
    base = {"id": "att_0123456789abcdef", "name": "a", "media_type": "a/b", "size": 1, "sha256": "0" * 64}
    for change in ({"id": "../x"}, {"name": "../a"}, {"media_type": "a b"}, {"size": -1}, {"sha256": "1"}):
        part = {"type": "document", "media_type": "a/b", "attachment": {**base, **change}}
        message = Message.model_validate({"role": "user", "parts": [part]})
        with pytest.raises(InvalidInput, match="no such upload of yours"):
            await session.send(message)
        read = read_send([{"parts": [part]}], Inbox())  # of a program that asks the run itself
        assert isinstance(read, Rejection)
        assert "attachment" in read.reason


@pytest.mark.parametrize("error", [ConnectionError, RuntimeError])
async def test_a_call_is_attempted_again_once_the_storage_is_back(
    served, storage, tmp_path, monkeypatch, error
):
    """A storage that is away for a moment is no missing file, whatever its driver raises; a program that sends one meanwhile reads why it cannot."""
    storage.error = error
    monkeypatch.setattr(StorageUnavailable, "retry_after", timedelta(milliseconds=50))
    client = await served()
    path = written(tmp_path, "a.txt", 640)
    storage.failing_writes = 1
    with pytest.raises(StorageUnavailable, match=f"the storage of files is not available: {error.__name__}"):
        await client.attach(path)
    storage.failing_reads = 2
    run = await client.start("desk.clerk", "measure", attachments=[path])
    assert (await run.result()).text.startswith("a.txt text/plain 640")
    assert storage.failing_reads == 0


class _Silent(Interceptor):
    """A server that does not say what a run is."""

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        class Silent(OutboundInterceptor):
            async def describe_workflow(self, input: DescribeWorkflowInput) -> NoReturn:
                raise RPCError("", RPCStatusCode.UNAVAILABLE, b"")

        return Silent(next)


async def test_a_server_that_is_away_is_no_failed_call(served):
    """The tool of a fork asks it whose the files are, and is attempted again."""
    config = (await served()).temporal.config()
    silent = temporalio.client.Client(**{**config, "interceptors": [_Silent()]})
    with pytest.raises(StorageUnavailable):
        await fork_origins(silent, "fork")()


@pytest.mark.parametrize("session_id", ["", "files-daily"])
async def test_a_schedule_sends_its_files_each_time(served, tmp_path, until, session_id):
    """A run that it starts, and a conversation that it writes to, read a file of more than a message's size."""
    client = await served()
    path = written(tmp_path, "a.txt", 640_000)
    daily = await client.schedule(
        "desk.clerk", "measure", every=timedelta(days=1), session_id=session_id, attachments=[path]
    )
    try:
        await daily.trigger()

        async def answer() -> str | None:
            if session_id:
                runs = [client.session("desk.clerk", session_id).run]
            else:
                runs = [client.get_run(each.id) for each in (await daily.status()).last]
            try:
                texts = [message.text for run in runs for message in await run.transcript()]
            except RunNotFound:
                return None
            return next((text for text in texts if text.startswith("a.txt")), None)

        assert await until(answer) == f"a.txt text/plain 640000 {digest_of(path)}"
    finally:
        await daily.delete()
