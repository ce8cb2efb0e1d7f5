"""Layers: what a test needs beside Python, told by the fixtures that it uses, so that a part of the tests can be run.

A test of the layer `pure` needs nothing, one of `server` a Temporal server and workers in its own process. One of `process` starts
programs, one of `browser` a browser; one of `campaign` kills or counts programs for long. A test that starts a program and
does not say so, by the fixture `processes`, fails.
"""

import contextlib
import functools
import re
import sys
from collections.abc import Collection, Generator
from pathlib import Path
from typing import Any

__all__ = ["LAYERS", "MISPLACED", "STARTS", "is_program_free", "is_served", "layer_of", "watch", "watched"]

LAYERS = {
    "pure": "needs no server, no other program and no browser",
    "server": "needs a Temporal server",
    "process": "starts programs",
    "browser": "opens pages in a browser",
    "campaign": "kills or counts programs for long",
}

_PROGRAM_FREE = {
    "activities",
    "authoring",
    "client",
    "connection",
    "contracts",
    "core",
    "encrypted",
    "events",
    "flows",
    "models",
    "network",
    "replay",
    "serving",
    "storage",
    "testing",
    "toolsets",
    "typing",
    "workflows",
}
"""Folders of which `--rest` skips each file whose tests start no program; other folders have few such files."""

_SERVED = {
    *("serve", "temporal_address", "temporal_server", "status_when", "served", "world", "stage"),
    *("processes", "campaigns", "browser", "command", "shell"),
    *("visit", "desk", "console", "office", "door", "deployed"),
}
"""Names of fixtures that need a server, a program or a browser in every folder that has one of the name."""

_TEST = re.compile(r"^(?:async )?def test_\w+\(([^)]*)\)", re.MULTILINE)

MISPLACED: list[str] = []
"""The collected tests in files that `is_program_free` lets `--rest` skip, or `is_served` `--pure`, and that belong to these."""

_TOLD_BY = {
    "campaigns": "campaign",
    "browser": "browser",
    "processes": "process",
    "temporal_server": "server",
}
"""The layer by a fixture; the first that fits counts."""

STARTS = "tests.programs.start"
"""The audit event of a program that is forked instead of started."""

_STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", STARTS}

_refused = False


def layer_of(fixtures: Collection[str]) -> str:
    """The layer of a test that uses these fixtures."""
    return next((layer for name, layer in _TOLD_BY.items() if name in fixtures), "pure")


@functools.cache
def is_program_free(file: Path) -> bool:
    """Whether a file is in one of these folders, and names no fixture of tests that start programs."""
    path = file.relative_to(Path(__file__).parent)
    return path.parts[0] in _PROGRAM_FREE and not any(
        name in file.read_text() for name in _TOLD_BY if name != "temporal_server"
    )


@functools.cache
def is_served(file: Path) -> bool:
    """Whether each test of a file uses a fixture of these names, so that none of them is pure."""
    arguments = _TEST.findall(file.read_text())
    return bool(arguments) and all(_SERVED.intersection(re.findall(r"\w+", each)) for each in arguments)


def _refuse(event: str, _arguments: tuple[Any, ...]) -> None:
    if _refused and event in _STARTS:
        raise AssertionError(f"{event} by a test that uses no fixture `processes`: its layer is `process`")


def watch() -> None:
    """Begin to watch the programs that this process starts."""
    sys.addaudithook(_refuse)


@contextlib.contextmanager
def watched(*, refuses: bool) -> Generator[None]:
    """Refuse every program that is started meanwhile, or allow all."""
    global _refused  # noqa: PLW0603 - an audit hook cannot be removed, and has no other state
    before, _refused = _refused, refuses
    try:
        yield
    finally:
        _refused = before
