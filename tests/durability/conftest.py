"""Fixtures: stages, whose workers and services are real processes, none of which outlives the module.

Stages share the server of the session, and several may be used at once.
"""

import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import suppress

import psutil
import pytest

from sojourn import Client

from .sojourn_process import STARTED
from .stage import Stage

StageFactory = Callable[[], Awaitable[Stage]]


@pytest.fixture(scope="session", autouse=True)
def all_campaigns(campaigns: None) -> None:
    """Put every test of this folder into the layer `campaign`."""


@pytest.fixture(scope="module")
async def stages(temporal_address: str, tmp_path_factory) -> AsyncIterator[StageFactory]:
    """Make stages on the session's server; afterwards check that no process of theirs is left."""
    made: list[Stage] = []

    async def make(address: str = temporal_address) -> Stage:
        client = await Client.connect(address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
        made.append(Stage(tmp_path_factory.mktemp("stage"), client, address))
        return made[-1]

    yield make
    processes = [process for stage in made for process in (*stage.workers, *stage.services)]
    for process in processes:
        process.kill()
    for stage in made:
        for wire in stage.wires:
            await wire.close()
    STARTED.clear()
    sessions = {process.pid for process in processes}
    assert not [process for process in psutil.process_iter() if session_of(process) in sessions]


@pytest.fixture
async def stage(stages: StageFactory) -> Stage:
    """One stage for one test."""
    return await stages()


def session_of(process: psutil.Process) -> int | None:
    """The process session of a process; each that a stage started leads a session of its own."""
    with suppress(OSError):
        return os.getsid(process.pid)
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the last 15 lines of each process's log to the report of a failure."""
    report = yield
    if report.failed:
        for process in STARTED:
            if last := "\n".join(
                line for line in process.log().splitlines()[-15:] if "worker_ready" not in line
            ):
                report.sections.append((f"log of {process.name}, process {process.pid}", last))
    return report
