"""Files that tools make: stored once, named by the result, and read by later calls, runs above, forks and programs."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from sojourn import (
    Agent,
    AgentTool,
    App,
    Attachment,
    AttachmentLimits,
    PlanResult,
    ToolCallMeta,
    Toolset,
    Turn,
)
from sojourn.storage import FolderStorage

files = Toolset("desk.made")

LARGE = hashlib.sha256(b"report").digest() * 100_000
"""3.2 MB."""


class Report(BaseModel):
    pages: int
    file: Attachment


@files.tool(read_only=True)
async def report(meta: ToolCallMeta) -> Report:
    """Write a report as it comes."""

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(LARGE), 70_000):
            yield LARGE[at : at + 70_000]

    return Report(pages=7, file=await meta.attach("report.pdf", "", pieces()))


@files.tool(read_only=True)
def chart(meta: ToolCallMeta, path: str) -> list[Attachment]:
    """Draw the file of a path, and a small one, in a thread."""
    small = meta.attach_blocking("small.csv", "text/csv", b"a;b\n")
    return [meta.attach_blocking("chart.png", "image/png", Path(path)), small]


@files.tool(read_only=True)
async def flood(meta: ToolCallMeta, count: int = 1, size: int = 1) -> str:
    """Make too many files, or too large ones."""
    for number in range(count):
        await meta.attach(f"{number}.bin", "", [bytes(size)])
    return "made"


@files.tool(read_only=True)
async def burst(meta: ToolCallMeta) -> str:
    """Make too many files at once."""
    await asyncio.gather(*(meta.attach(f"{at}.bin", "", bytearray(b"%d" % at)) for at in range(30)))
    return "made"


@files.tool(read_only=True)
async def measure(file: Attachment) -> str:
    """Return what a file is."""
    content = await file.read()
    return f"{file.name} {file.media_type} {len(content)} {hashlib.sha256(content).hexdigest()[:8]}"


class Asked(BaseModel):
    pass


async def plan(turn: Turn) -> PlanResult:
    """Make a file, and measure the newest file that a call has made."""
    if turn.messages[-1].role == "user":
        word, _, text = turn.messages[-1].text.partition(" ")
        tool = {each.id.rsplit(".", 1)[-1]: each for each in files.tools.values()}[word]
        names = {"chart": ["path"], "flood": ["count", "size"]}.get(word, [])
        values = [int(each) if each.isdecimal() else each for each in text.split()]
        return PlanResult.calls(tool.call(**dict(zip(names, values, strict=False))))
    (result,) = turn.tool_results
    made = [artifact.attachment for artifact in result.artifacts if artifact.attachment]
    if made and turn.messages[-3].role == "user":
        return PlanResult.calls(measure.call(file=made[0].id))
    return PlanResult.final(str(result.result if result.ok else result.error))


@pytest.fixture
async def client(serve, tmp_path):
    clerk = Agent("desk.maker", planner=plan, uses=[files])
    exported = clerk.export("desk.makers", tools=[AgentTool("ask", args=Asked, user=lambda _: "report")])

    async def ask(turn: Turn) -> PlanResult:
        """Have the other agent make a file, and measure it."""
        if turn.messages[-1].role == "user":
            return PlanResult.calls(exported["ask"].call())
        (result,) = turn.tool_results
        made = [artifact.attachment for artifact in result.artifacts if artifact.attachment]
        if made:
            return PlanResult.calls(measure.call(file=made[0].id))
        return PlanResult.final(str(result.result if result.ok else result.error))

    chief = Agent("desk.chief", planner=ask, uses=[exported, files])
    storage = FolderStorage(tmp_path / "storage")
    app = App(agents=[clerk, chief], storage=storage, attachments=AttachmentLimits(max_bytes=4_000_000))
    return await serve(app, storage=storage)


def told(name: str, kind: str, content: bytes) -> str:
    return f"{name} {kind} {len(content)} {hashlib.sha256(content).hexdigest()[:8]}"


async def test_a_later_call_reads_the_file_of_an_earlier_one(client, traces):
    """The result has the id in its field, the output an artifact, the program the content, and the history a record."""
    run = await client.start("desk.maker", "report")
    output = await run.result()
    assert output.text == told("report.pdf", "application/pdf", LARGE)
    (artifact,) = output.artifacts
    assert (artifact.kind, artifact.size, artifact.data) == ("file", len(LARGE), None)
    (result,) = (await run.transcript())[2].tool_results
    assert result.result == {"pages": 7, "file": artifact.attachment.id}
    (file,) = await run.attachments()
    assert (file.id, file.name, await file.read()) == (artifact.attachment.id, "report.pdf", LARGE)
    assert sum(event.ByteSize() for event in await traces(run).history()) < 30_000


async def test_a_synchronous_tool_makes_files(client, tmp_path):
    """From a path and from bytes, each an artifact of its own kind, with the type that its name suggests or is given."""
    path = tmp_path / "drawn.bin"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(9_000))
    run = await client.start("desk.maker", f"chart {path}")
    output = await run.result()
    assert output.text.startswith("small.csv text/csv 4 ")
    made = {artifact.kind: artifact.attachment for artifact in output.artifacts}
    assert [(kind, file.name, file.size) for kind, file in made.items()] == [
        ("file", "small.csv", 4),
        ("file_2", "chart.png", 9_008),
    ]
    assert [await file.read() for file in await run.attachments()] == [b"a;b\n", path.read_bytes()]


async def test_the_run_above_reads_the_file_of_a_child_run(client):
    """The parent's tool gets it by the id that the child run's artifact has."""
    run = await client.start("desk.chief", "go")
    assert (await run.result()).text == told("report.pdf", "application/pdf", LARGE)
    (file,) = await run.attachments()
    assert await file.read() == LARGE


async def test_a_fork_reads_the_files_of_its_origin(client):
    """A fork has the file in its transcript, its tool reads it, and so does a program, also in a fork of the fork."""
    run = await client.start("desk.maker", "report")
    await run.result()
    ends = [event async for event in run.events() if event.type == "tool_end"]
    fork = await run.client.fork(run.id, at=ends[0].event_id)
    assert (await fork.result()).text == told("report.pdf", "application/pdf", LARGE)
    again = await run.client.fork(fork.id)
    (file,) = await again.attachments()
    assert await file.read() == LARGE


async def test_a_fork_of_a_fork_reads_what_came_between(client, tmp_path):
    """The tool of the second fork gets a file that the first one made."""
    path = tmp_path / "drawn.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(9_000))
    run = await client.start("desk.maker", "report")
    await run.result()
    fork = await client.fork(run.id, message=f"chart {path}")
    await fork.result()
    ends = [event async for event in fork.events() if event.type == "tool_end" and event.artifacts]
    again = await client.fork(fork.id, at=ends[0].event_id)
    assert (await again.result()).text == told("small.csv", "text/csv", b"a;b\n")
    assert LARGE in [await file.read() for file in await again.attachments()]


async def test_files_that_a_call_makes_at_once_are_counted(client):
    """A call that stores thirty files at the same time makes no more than one that stores them one by one."""
    run = await client.start("desk.maker", "burst")
    assert "a call makes at most 20 files" in (await run.result()).text


@pytest.mark.parametrize(
    ("asked", "why"),
    [("flood 21", "a call makes at most 20 files"), ("flood 1 4000001", "has more than 4,000,000 bytes")],
)
async def test_too_many_and_too_large_files_are_refused(client, asked, why):
    """The tool's call fails, and its result has no files."""
    run = await client.start("desk.maker", asked)
    output = await run.result()
    assert why in output.text
    assert await run.attachments() == []
