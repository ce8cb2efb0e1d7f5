"""`--file` of `sojourn run`, `send` and `chat` on real runs: a tool reads the bytes, and a file that cannot be sent is named."""

import hashlib
import json
import uuid
from pathlib import Path

import pytest

from sojourn import Agent, App, Attachment, PlanResult, RunPolicy, ToolCallMeta, Toolset, Turn

tools = Toolset("files.tools")


@tools.tool(read_only=True)
async def digest(file: Attachment) -> str:
    """Return a file's name, size and digest."""
    content = await file.read()
    return f"{file.name} {len(content)} {hashlib.sha256(content).hexdigest()[:12]}"


@tools.tool(destructive=True, confirmation="Delete {file}?")
async def delete(file: Attachment) -> str:
    """Delete a file."""
    return f"deleted {file.name}"


@tools.tool(read_only=True)
async def draw(meta: ToolCallMeta) -> list[Attachment]:
    """Make two files of one name."""
    return [await meta.attach("../chart.csv", "text/csv", text) for text in (b"a;b\n", b"c;d\n")]


async def plan(turn: Turn) -> PlanResult:
    """Read the files of the last message, delete them, or make some, as it says."""
    if turn.messages[-1].text == "draw":
        return PlanResult.calls(draw.call())
    if turn.messages[-1].role == "tool":
        return PlanResult.final("; ".join(str(result.result) for result in turn.tool_results))
    tool = delete if turn.messages[-1].text == "delete" else digest
    calls = [tool.call(file=file.id) for file in turn.messages[-1].attachments]
    return PlanResult.calls(*calls) if calls else PlanResult.final("no files")


@pytest.fixture
async def sojourn(serve, command, temporal_address):
    """Run a command on the server and queue of an agent that reads files."""
    policy = RunPolicy(interrupts_allowed=True)
    client = await serve(App(agents=[Agent("files.clerk", planner=plan, uses=[tools], policy=policy)]))
    env = {"TEMPORAL_ADDRESS": temporal_address, "SOJOURN_TASK_QUEUE": client.task_queue}

    async def run(*arguments: str, **options):
        return await command(*arguments, env=env, **options)

    return run


def write(folder: Path, name: str, size: int) -> tuple[Path, str]:
    """Write a file, and return its path and what the tool says of it."""
    content = hashlib.sha256(name.encode()).digest() * (size // 32)
    path = folder / name
    path.write_bytes(content)
    return path, f"{name} {len(content)} {hashlib.sha256(content).hexdigest()[:12]}"


async def test_a_tool_reads_the_files_of_a_command(sojourn, tmp_path):
    """`run`, `send` and `chat` send every byte; `chat` sends the files with its first line only."""
    one, told_one = write(tmp_path, "a b.bin", 3_200_000)
    two, told_two = write(tmp_path, "c.txt", 640)
    files = ("--file", str(one), "--file", str(two))
    done = await sojourn("run", "files.clerk", "read", *files)
    assert (done.code, f"= {told_one}; {told_two}" in done.out) == (0, True), done.err
    session = f"files.clerk@{uuid.uuid4().hex[:8]}"
    done = await sojourn("send", session, "read", *files, "--wait")
    assert (done.code, f"{told_one}; {told_two}" in done.out) == (0, True), done.err
    done = await sojourn("chat", "files.clerk", *files, input="read\nagain\n")
    assert done.code == 0, done.err
    assert done.out.index(told_two) < done.out.index("no files")


@pytest.mark.parametrize(
    "arguments", [("run", "files.clerk"), ("send", "files.clerk@s")], ids=["run", "send"]
)
async def test_a_file_that_is_too_large_is_refused(sojourn, tmp_path, arguments):
    """The command exits with 2 and says the limit, and nothing is started."""
    large = tmp_path / "large.bin"
    with large.open("wb") as file:
        file.truncate(25_000_001)
    done = await sojourn(*arguments, "read", "--file", str(large), "--json")
    told = json.loads(done.err)
    assert (done.code, told["exit_code"]) == (2, 2), done.err
    assert "large.bin has more than 25,000,000 bytes" in told["message"]


async def test_a_chat_says_that_a_file_is_too_large(sojourn, tmp_path):
    """`chat` from a pipe ends at its first line, which was not sent."""
    large = tmp_path / "large.bin"
    with large.open("wb") as file:
        file.truncate(25_000_001)
    done = await sojourn("chat", "files.clerk", "--file", str(large), input="read\nagain\n")
    assert (done.code, done.out) == (2, ""), done.err
    assert "large.bin has more than 25,000,000 bytes" in done.err


@pytest.mark.parametrize(
    "arguments", [("run", "files.clerk", "read"), ("send", "files.clerk@s", "read"), ("chat", "files.clerk")]
)
async def test_a_file_that_cannot_be_read_is_refused_at_once(command, tmp_path, arguments):
    """A missing file and a folder: the command exits with 2 and names it, before it connects."""
    missing = await command(*arguments, "--file", "none.txt")
    assert (missing.code, "file 'none.txt' does not exist" in missing.err) == (2, True), missing.err
    folder = await command(*arguments, "--file", str(tmp_path))
    assert (folder.code, "is a directory" in folder.err) == (2, True), folder.err


async def test_an_approver_reads_which_file_a_call_names(sojourn, tmp_path):
    """`run` and `approve` print the name, type and size beside the id."""
    path, _ = write(tmp_path, "old.txt", 640)
    run_id = f"delete-{uuid.uuid4().hex[:8]}"
    done = await sojourn("run", "files.clerk", "delete", "--file", str(path), "--run-id", run_id)
    assert done.code == 4, done.err
    assert ': "old.txt" (text/plain, 640 bytes)' in done.out
    (line,) = [line for line in done.out.splitlines() if "sojourn approve" in line]
    done = await sojourn("approve", run_id, line.split()[-1], "--yes")
    assert (done.code, ': "old.txt" (text/plain, 640 bytes)' in done.out) == (0, True), done.err


async def test_the_files_that_tools_made_are_saved(sojourn, tmp_path):
    """`run` and `result` write them to a folder, each under a name that is free there; `-v` names them."""
    run_id = f"draw-{uuid.uuid4().hex[:8]}"
    folder = tmp_path / "new" / "charts"
    done = await sojourn("run", "files.clerk", "draw", "--run-id", run_id, "-v", "--save-files", str(folder))
    assert (done.code, "+ file chart.csv (text/csv, 4 bytes): att_" in done.out) == (0, True), done.err
    done = await sojourn("result", run_id, "--save-files", str(folder))
    assert (done.code, f"saved {folder}/chart-3.csv (text/csv, 4 bytes)" in done.err) == (0, True), done.err
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "chart.csv": "a;b\n",
        "chart-2.csv": "c;d\n",
        "chart-3.csv": "a;b\n",
        "chart-4.csv": "c;d\n",
    }
    done = await sojourn("send", f"files.clerk@{run_id}", "draw", "--wait")
    done = await sojourn("result", f"files.clerk@{run_id}", "--save-files", str(tmp_path / "turn"))
    assert (done.code, (tmp_path / "turn" / "chart.csv").read_text()) == (0, "a;b\n"), done.err
    done = await sojourn("run", "files.clerk", "draw", "--detach", "--save-files", str(folder))
    assert (done.code, "sojourn result RUN --save-files" in done.err) == (2, True), done.err
