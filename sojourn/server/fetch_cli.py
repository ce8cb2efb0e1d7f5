"""Fetch a `temporal` command into the user's cache, once.

Two ways, the quicker first: the SDK's own downloader, and a build with Go. Both
work in a scratch folder and move the finished binary into place in one step, so
that processes that fetch at the same time never see half a file.
"""

import asyncio
import os
import shutil
import tempfile
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from platformdirs import user_cache_path

from sojourn.errors import ServerNotFound

__all__ = ["GO_MODULE", "FetchFailed", "Progress", "cached_cli", "download", "go_install"]

Progress = Callable[[str], None]
"""Is told, a line at a time, what a long step is doing."""

GO_MODULE = "github.com/temporalio/cli/cmd/temporal@v1.5.1"
"""The newest release that `go install` can build: later ones have replace directives."""

_DOWNLOAD_TIMEOUT = timedelta(minutes=10)


class FetchFailed(ServerNotFound):
    """This way gave no binary; the text says why."""


def cached_cli() -> Path:
    """Where a fetched binary is kept."""
    return user_cache_path("sojourn", appauthor=False) / "temporal"


async def download(on_progress: Progress) -> Path:
    """Let the SDK download the release it knows to work; fails at once without a network.

    Raises:
        FetchFailed: The download cannot be reached, or brought no binary.
    """
    # Heavy, and needed only here.
    from temporalio.testing import WorkflowEnvironment  # noqa: PLC0415

    on_progress("downloading the Temporal CLI (about 45 MB, once)")
    with _scratch() as scratch:
        try:
            # The SDK downloads only in order to start a server: this one serves nobody.
            async with asyncio.timeout(_DOWNLOAD_TIMEOUT.total_seconds()):
                environment = await WorkflowEnvironment.start_local(  # pyright: ignore[reportUnknownMemberType]
                    download_dest_dir=str(scratch)
                )
                await environment.shutdown()
        except (RuntimeError, TimeoutError) as fault:
            if not any(scratch.iterdir()):
                raise FetchFailed(str(fault) or "timed out") from fault
        return _keep(scratch)


async def go_install(on_progress: Progress) -> Path:
    """Build the command with the Go toolchain: about five minutes on two cores.

    Raises:
        FetchFailed: Go is not installed, or the build failed.
    """
    go = shutil.which("go")
    if go is None:
        raise FetchFailed("Go is not installed")
    on_progress(f"building the Temporal CLI with Go (minutes, once): go install {GO_MODULE}")
    with _scratch() as scratch:
        build = await asyncio.create_subprocess_exec(
            go,
            *("install", "-v", GO_MODULE),
            env={**os.environ, "GOBIN": str(scratch)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
        )
        last = ""
        try:
            assert build.stdout is not None
            async for line in build.stdout:
                last = line.decode(errors="replace").rstrip() or last
                on_progress(last)
            code = await build.wait()
        finally:
            if build.returncode is None:
                build.kill()
                await build.wait()
        if code != 0:
            raise FetchFailed(f"the build ended with status {code}: {last}")
        return _keep(scratch)


@contextmanager
def _scratch() -> Generator[Path]:
    """Yield a folder that is gone afterwards, on the cache's own file system."""
    home = cached_cli().parent
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home, prefix="fetch-") as scratch:
        yield Path(scratch)


def _keep(scratch: Path) -> Path:
    """Move the one binary that a fetch left into the cache."""
    binaries = [path for path in scratch.iterdir() if path.is_file() and os.access(path, os.X_OK)]
    if len(binaries) != 1:
        raise FetchFailed(f"expected one binary, found {len(binaries)}")
    return binaries[0].replace(cached_cli())
