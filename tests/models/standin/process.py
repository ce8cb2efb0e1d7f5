"""A stand-in in another process, controlled by the process that has started it."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import httpx2

from tests.models.standin.reply import SCRIPT, Answer, as_answer
from tests.models.standin.wire import environment

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-m", "tests.models.standin"]

WrittenScript = Sequence[Answer | str] | dict[str, Any]
"""Answers, or a task by name: `{"task": "counts", "tool": "orders__find", "times": 3}`."""


class StandinProcess:
    """A stand-in that does not end with a process that a test kills: `with StandinProcess(script) as standin`."""

    def __init__(self, script: WrittenScript = ()) -> None:
        self._script = script

    def __enter__(self) -> Self:
        """Start the process, and wait until it serves."""
        command = [*COMMAND, json.dumps(write(self._script))]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}"
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.communicate()

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with which the SDKs of another process use this stand-in."""
        return environment(self.url)

    def load(self, script: WrittenScript) -> None:
        """Replace the script; the next request gets its first answer."""
        self._post("script", write(script))

    def release(self) -> None:
        """Continue every answer that is on hold."""
        self._post("release", None)

    @property
    def state(self) -> dict[str, Any]:
        """The state of the stand-in, see `admin`."""
        return httpx2.get(f"{self.url}/admin/state").raise_for_status().json()

    def _post(self, path: str, content: Any) -> None:
        httpx2.post(f"{self.url}/admin/{path}", json=content).raise_for_status()


def write(script: WrittenScript) -> Any:
    """Return a script as JSON."""
    if isinstance(script, dict):
        return script
    return SCRIPT.dump_python([as_answer(answer) for answer in script], mode="json")
