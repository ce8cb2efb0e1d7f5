"""The words of errors: a command speaks of options and commands, not of Python."""

import asyncio
import re
import uuid

PYTHON = re.compile(r"=True|=False|\w\(\)|Client\.|attach=|wait_for_worker|\brun_id\b|Traceback")
"""What only a program can use."""


async def test_no_error_of_a_command_has_words_of_the_python_api(served, tmp_path):
    """What goes wrong with runs, ids, workers, answers and files is told without Python."""
    ended, waiting = await served.start("add"), await served.waiting("wipes", 2)
    asking = await served.waiting("ask")
    await ended.result()
    nobody = f"nobody-{uuid.uuid4().hex[:8]}"
    (tmp_path / "odd.json").write_text("{}")
    by_run = ("watch", "show", "result", "export", "approve", "deny", "provide", "resume", "cancel")
    lines = [
        *((name, nobody) for name in by_run),
        ("answer", nobody, "x"),
        ("pause", nobody, "x"),
        *((name, ended.id) for name in ("approve", "deny", "provide", "resume", "cancel")),
        ("answer", ended.id, "x"),
        ("pause", ended.id, "x"),
        ("approve", waiting.id, "--yes"),
        ("answer", waiting.id, "x"),
        ("result", asking.id),
        ("resume", asking.id),
        ("approve", asking.id),
        ("provide", asking.id, "odd.json"),
        ("watch", asking.id, "--after", "x"),
        ("run", "desk.clerk", "add", "--run-id", ended.id),
        ("run", "desk.clerk", "add", "--run-id", "an id"),
        ("run", "desk.clerk", "add", "--session", "it's"),
        ("run", "desk.clerk", "add", *(word for k in range(30) for word in ("--label", f"n{k}=v"))),
        ("run", "clerk", "add"),
        ("run", "desk.clerk", "add", "--task-queue", nobody),
        ("list", "--namespace", nobody),
        ("cost", "--by", "planet"),
        ("show", ended.id, "--codec", "nowhere:codec"),
    ]
    gate = asyncio.Semaphore(4)

    async def run(line):
        async with gate:
            return await served.sojourn(*line, cwd=tmp_path)

    for line, done in zip(lines, await asyncio.gather(*map(run, lines)), strict=True):
        assert done.code not in (0, None), (line, done)
        assert done.err.startswith("sojourn: "), (line, done)
        assert not PYTHON.search(done.err), (line, done.err)
