"""The `temporal` command: the order in which it is searched, its download, and the error when there is none."""

import os
import sys
import sysconfig
from pathlib import Path

import pytest
from temporalio.testing import WorkflowEnvironment

from sojourn.errors import ServerNotFound
from sojourn.server import find_cli, temporal_cli


def write_program(path: Path, script: str) -> Path:
    """Write an executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def write_cli(path: Path, version: str) -> Path:
    """Write a stand-in for the Temporal CLI."""
    return write_program(path, f"echo 'temporal version {version} (Server 1.32.0, UI 2.54.1)'")


async def no_network(**_options: object) -> None:
    """Fail as the SDK's downloader does."""
    raise RuntimeError("failed to download: no network here")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A folder in place of the machine's, with no `temporal` command and no network."""
    bare = tmp_path / "machine"
    for folder in ("venv", "path", "cache"):
        (bare / folder).mkdir(parents=True)
    monkeypatch.delenv("SOJOURN_TEMPORAL_CLI", raising=False)
    monkeypatch.setenv("PATH", str(bare / "path"))
    monkeypatch.setattr(sys, "executable", str(bare / "venv" / "python"))
    monkeypatch.setattr(sysconfig, "get_path", lambda _name: str(bare / "venv"))
    monkeypatch.setattr(temporal_cli, "user_cache_path", lambda *_, **__: bare / "cache")
    monkeypatch.setattr(WorkflowEnvironment, "start_local", no_network)
    return bare


@pytest.mark.usefixtures("processes")
async def test_nearest_wins(machine, monkeypatch):
    """The order of the search is `SOJOURN_TEMPORAL_CLI`, the Python environment, PATH, the cache."""
    expected = [
        ("cache", write_cli(machine / "cache" / "temporal", "1.0.4")),
        ("PATH", write_cli(machine / "path" / "temporal", "1.0.3")),
        ("environment", write_cli(machine / "venv" / "temporal", "1.0.2")),
    ]
    monkeypatch.setenv("SOJOURN_TEMPORAL_CLI", str(write_cli(machine / "mine", "1.0.1")))
    named = await find_cli(fetch=False)
    assert (named.source, named.path, named.version) == ("SOJOURN_TEMPORAL_CLI", machine / "mine", "1.0.1")
    monkeypatch.delenv("SOJOURN_TEMPORAL_CLI")
    while expected:
        source, path = expected.pop()
        found = await find_cli(fetch=False)
        assert (found.source, found.path) == (source, path)
        path.unlink()


@pytest.mark.usefixtures("processes")
async def test_named_may_be_a_command(machine, monkeypatch):
    """SOJOURN_TEMPORAL_CLI may be a bare name, which is looked up on PATH."""
    path = write_cli(machine / "path" / "temporal-next", "2.0.0")
    monkeypatch.setenv("SOJOURN_TEMPORAL_CLI", "temporal-next")
    assert (await find_cli(fetch=False)).path == path


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("script", [None, "echo 'a time machine'", "exit 1"])
async def test_named_but_broken(machine, monkeypatch, script):
    """A broken `SOJOURN_TEMPORAL_CLI` is an error, even if there is another command."""
    write_cli(machine / "path" / "temporal", "1.0.0")
    mine = machine / "mine"
    if script is not None:
        write_program(mine, script)
    monkeypatch.setenv("SOJOURN_TEMPORAL_CLI", str(mine))
    with pytest.raises(ServerNotFound, match=f"SOJOURN_TEMPORAL_CLI names {mine}"):
        await find_cli()


@pytest.mark.usefixtures("processes")
async def test_namesake_is_passed_over(machine):
    """Another program called `temporal` does not hide a Temporal CLI that is found later."""
    write_program(machine / "venv" / "temporal", "echo 'temporal version'")
    there = write_cli(machine / "cache" / "temporal", "1.0.0")
    assert (await find_cli(fetch=False)).path == there


@pytest.mark.usefixtures("processes")
async def test_none_lists_every_way(machine):
    """Without a command the error lists every way to get one, and what was wrong with each place."""
    namesake = write_program(machine / "path" / "temporal", "exit 1")
    with pytest.raises(ServerNotFound) as raised:
        await find_cli()
    for way in (
        "sojourn[server]",
        "PATH",
        "SOJOURN_TEMPORAL_CLI",
        "downloaded",
        "TEMPORAL_ADDRESS",
    ):
        assert way in str(raised.value)
    for fault in (f"{namesake} is no", "no network here"):
        assert fault in str(raised.value)


@pytest.mark.parametrize("blocked", ["cache", "cache/temporal"])
async def test_a_cache_that_cannot_be_written(machine, monkeypatch, blocked):
    """A cache that cannot be made or written is one more thing that was tried; the error still lists every way."""

    async def start_local(*, download_dest_dir: str) -> None:
        write_cli(Path(download_dest_dir, "temporal-sdk-python-1.35.0"), "1.9.9")
        raise RuntimeError("failed to start")

    monkeypatch.setattr(WorkflowEnvironment, "start_local", start_local)
    if blocked == "cache":
        (machine / "cache").rmdir()
        (machine / "cache").write_text("a file, so that there can be no folder")
    else:
        (machine / "cache" / "temporal").mkdir()
    with pytest.raises(ServerNotFound) as raised:
        await find_cli()
    assert f"download: {machine / 'cache'} cannot be written (" in str(raised.value)
    assert "TEMPORAL_ADDRESS" in str(raised.value)


async def test_a_cache_that_cannot_be_read(machine, monkeypatch):
    """A cache in a folder that may not be entered is passed over."""

    def stat(_path: Path, **_options: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", stat)
        with pytest.raises(ServerNotFound, match="no `temporal` command"):
            await find_cli(fetch=False)


async def test_no_fetch_touches_no_network(machine, monkeypatch):
    """With `fetch=False` nothing is downloaded."""
    downloads: list[object] = []
    monkeypatch.setattr(WorkflowEnvironment, "start_local", lambda **options: downloads.append(options))
    with pytest.raises(ServerNotFound):
        await find_cli(fetch=False)
    assert downloads == []


@pytest.mark.usefixtures("processes")
async def test_download_is_kept(machine, monkeypatch):
    """The downloaded command is kept in the cache, and found there the next time."""

    class Environment:
        async def shutdown(self) -> None:
            """Do nothing."""

    async def start_local(*, download_dest_dir: str) -> Environment:
        write_cli(Path(download_dest_dir, "temporal-sdk-python-1.35.0"), "1.9.9")
        return Environment()

    monkeypatch.setattr(WorkflowEnvironment, "start_local", start_local)
    progress: list[str] = []
    fetched = await find_cli(on_progress=progress.append)
    assert (fetched.source, fetched.path) == ("download", machine / "cache" / "temporal")
    assert progress
    assert (await find_cli(fetch=False)).source == "cache"
    assert os.listdir(machine / "cache") == ["temporal"]
