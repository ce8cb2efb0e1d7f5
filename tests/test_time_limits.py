"""A test that takes too long fails, whatever its event loop does when the alarm comes."""

import subprocess
import sys
from pathlib import Path

import pytest

HANGS = """
import asyncio
import time

import pytest


@pytest.mark.timeout(1)
async def test_hangs():
    async def work():  # the first alarm comes in its only step, and ends the task in place of the test
        end = time.monotonic() + 3
        while time.monotonic() < end:
            pass

    task = asyncio.create_task(work())
    await asyncio.Event().wait()
"""


@pytest.mark.usefixtures("processes")
def test_an_alarm_that_another_task_keeps_comes_again(tmp_path):
    """The second one ends the test, which waits for ever by then."""
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_timeout_set_timer\n")
    (tmp_path / "test_hangs.py").write_text(HANGS)
    command = [sys.executable, "-m", "pytest", "-q", "-o", "asyncio_mode=auto", str(tmp_path)]
    found = subprocess.run(
        command, cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=60, check=False
    )
    assert "1 failed" in found.stdout
    assert "Timeout (>1.0s) from pytest-timeout" in found.stdout
