"""`sojourn bulk` on real runs: what a list prints is what it takes, and each run is changed once."""

import asyncio
import json
import os
from typing import Any

import pytest

from sojourn.errors import RunFailed


@pytest.fixture
async def runs(served, tmp_path):
    """A failed run, an open one, and a file of both with one that does not exist."""
    failed, asks = await served.start("fail"), await served.waiting("ask")
    with pytest.raises(RunFailed):
        await failed.result()
    path = tmp_path / "runs.jsonl"
    path.write_text(
        f"{json.dumps({'run_id': failed.id, 'status': 'failed'})}\n{asks.id}\n\nnowhere\n{asks.id}\n"
    )
    return failed, asks, str(path)


async def test_runs_are_retried_once_and_others_left_alone(served, until, runs):
    """The second time a run's fork is named, and no other one starts; what is open or unknown is an error of its own."""
    failed, asks, path = runs
    first = await served.sojourn("bulk", "retry", path, "--yes", "--by", "ana", "--json")
    assert first.code == 1
    retried, is_open, unknown = first.objects
    assert retried == {
        "run_id": failed.id,
        "done": "retried",
        "by": "ana",
        "new_run_id": retried["new_run_id"],
    }
    assert (is_open["run_id"], is_open["code"]) == (asks.id, "invalid_input")
    assert (unknown["run_id"], unknown["code"]) == ("nowhere", "run_not_found")

    async def forks() -> list[str]:
        return [run.run_id async for run in served.client.list_runs(fork_of=failed.id)]

    assert await until(forks) == [retried["new_run_id"]]
    again = await served.sojourn("bulk", "retry", path, "--yes")
    assert f"retried: {failed.id}, by " in again.out
    assert f"; {retried['new_run_id']} goes on from it already\n" in again.out
    assert f"left alone: {asks.id}: run {asks.id} did not fail, it is waiting\n" in again.out
    assert await forks() == [retried["new_run_id"]]


async def test_other_forks_are_no_retries_and_two_at_once_start_one(served, until, tmp_path):
    """Neither one from before the end nor one with a change. The id of the new run depends on nothing else, so that no list is needed."""
    run = await served.waiting("ask")
    earlier = await served.client.fork(run.id)
    await run.cancel()
    await served.status_when(run, lambda status: status.closed_at)

    async def forks() -> list[str]:
        return [fork.run_id async for fork in served.client.list_runs(fork_of=run.id)]

    changed = await served.client.fork(run.id, answer="something else")

    async def are_listed() -> bool:
        return len(await forks()) == 2

    await until(are_listed)
    path = tmp_path / "runs.jsonl"
    path.write_text(run.id)
    done = await asyncio.gather(
        *(served.sojourn("bulk", "retry", str(path), "--yes", "--json") for _ in range(2))
    )
    (first,), (second,) = (each.objects for each in done)
    assert first["new_run_id"] == second["new_run_id"]
    assert first["new_run_id"] not in (changed.id, earlier.id)
    assert sorted(each.get("already", False) for each in (first, second)) == [False, True]


async def test_a_dry_run_counts_and_a_terminal_is_asked(served, runs):
    """Nothing changes without a yes, and without a terminal `--yes` is needed; the reason is recorded."""
    failed, asks, path = runs
    dry = await served.sojourn("bulk", "cancel", path, "--dry-run")
    assert (dry.code, dry.err) == (0, "")
    assert dry.out.splitlines() == [
        f"{failed.id}: failed, is left as it is",
        f"{asks.id}: waiting",
        "nowhere: not found, is left as it is",
        "cancel: 1 of 3 runs",
    ]
    counted = await served.sojourn("bulk", "cancel", path, "--dry-run", "--json")
    assert [each["applies"] for each in counted.objects] == [False, True, False]
    agreed = await served.sojourn("bulk", "cancel", path, "--dry-run", "--yes")
    assert (agreed.code, agreed.out) == (0, dry.out)
    for options in ((), ("--json",)):
        unasked = await served.sojourn("bulk", "cancel", path, *options)
        assert (unasked.code, unasked.out, "--yes" in unasked.err) == (2, "", True)

    async def asked_at_a_terminal(word: str) -> Any:
        ours, theirs = os.openpty()
        try:
            os.write(ours, f"{word}\n".encode())
            return await served.sojourn(
                "bulk", "cancel", path, "--why", "enough", "--by", "ana", stdin=theirs
            )
        finally:
            os.close(ours)
            os.close(theirs)

    for word, code in (("n", 0), ("y", 1)):
        assert (await asks.status()).is_open
        asked = await asked_at_a_terminal(word)
        assert ("Cancel 1 run? [y/n]" in asked.out, asked.code) == (True, code), asked
    status = await served.status_when(asks, lambda status: status.closed_at)
    assert (status.status, "enough (by ana)" in status.failure) == ("canceled", True)
    none = await asked_at_a_terminal("")
    assert ("cancel: 0 of 3 runs\n" in none.out, none.code) == (True, 1)


async def test_a_file_that_names_no_run_is_bad_usage(served, tmp_path):
    """Nothing is done for the lines before a fault."""
    path = tmp_path / "runs.jsonl"
    for text, why in (
        ("\n", "names no run"),
        ('{"status": "failed"}\n', "without a run_id"),
        ("r\n{", "without a run_id"),
    ):
        path.write_text(text)
        done = await served.sojourn("bulk", "retry", str(path), "--yes")
        assert (done.code, why in done.err) == (2, True), done.err
    path.write_text("r\n")
    assert (await served.sojourn("bulk", "retry", str(path), "--why", "x")).code == 2
