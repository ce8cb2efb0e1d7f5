"""A stand-in provider in a process of its own, controlled by its starter."""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Self

import httpx2

from sojourn.testing.providers import clients
from sojourn.testing.providers.request import Protocol
from sojourn.testing.providers.script import SCRIPT, ScriptedResponse, as_answer

__all__ = ["ProviderProcess", "WrittenScript"]

COMMAND = [sys.executable, "-m", "sojourn.testing.providers"]

WrittenScript = Sequence[ScriptedResponse | str] | dict[str, Any]
"""Answers, or a task by name: `{"task": "counts", "tool": "orders__find", "times": 3}`."""


class ProviderProcess:
    """A server that does not end with a process that a test kills.

    Use it as `with ProviderProcess(script) as provider`. It needs no event loop.
    """

    def __init__(self, script: WrittenScript = ()) -> None:
        self._script = script

    def __enter__(self) -> Self:
        command = [*COMMAND, "--script", json.dumps(_write(self._script))]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - own command
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            self.process.communicate()
            raise RuntimeError(f"the stand-in provider ended with {self.process.returncode} before it served")
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with which models by name use this server."""
        return clients.environment(self.url)

    def base_url(self, protocol: Protocol) -> str:
        """Return the base URL that a provider's SDK takes."""
        return clients.base_url(protocol, self.url)

    def load(self, script: WrittenScript) -> None:
        """Replace the script. The next request gets its first answer."""
        self._post("script", _write(script))

    def release(self) -> None:
        """Continue every answer that is on hold."""
        self._post("release", None)

    @property
    def state(self) -> dict[str, Any]:
        """The requests and the other records, see `ProviderServer.state`."""
        return httpx2.get(f"{self.url}/admin/state").raise_for_status().json()

    def _post(self, path: str, content: Any) -> None:
        httpx2.post(f"{self.url}/admin/{path}", json=content).raise_for_status()


def _write(script: WrittenScript) -> Any:
    if isinstance(script, dict):
        return script
    return SCRIPT.dump_python([as_answer(answer) for answer in script], mode="json")
