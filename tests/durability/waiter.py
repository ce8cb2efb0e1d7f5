"""Waiter: a run that waits for one answer, and the ways to send the answer."""

import asyncio
import json
import subprocess
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sojourn import Run
from sojourn.contracts import Await

from .until import until


@dataclass(frozen=True)
class Waiter:
    """A run that waits for an answer; its number makes the answer differ from that of every other run."""

    number: int
    agent: str
    run: Run
    wait: Await

    @classmethod
    async def found(cls, number: int, agent: str, run: Run) -> "Waiter":
        """Wait until a run waits, and return its waiter."""

        async def its_waits() -> list[Await]:
            return (await run.status()).awaits

        (wait,) = await until(f"{run.id} waits", its_waits)
        return cls(number, agent, run, wait)

    @property
    def is_approved(self) -> bool:
        """Whether the decision on the call is to approve."""
        return self.number % 2 == 0

    @property
    def end(self) -> str:
        """The text of the run's output if its own answer was used once."""
        slip = f"slip-{self.number}"
        if self.agent == "asker":
            return f"{slip}; answer-{self.number}; wrote answer-{self.number}"
        if self.agent == "payer":
            return f"{slip}; paid {slip}" if self.is_approved else f"{slip}; denied: reason-{self.number}"
        return f"{slip}; {{'count': {self.number}}}"

    @property
    def executed(self) -> list[str]:
        """The points that the run's tools record."""
        if self.agent == "asker":
            return [f"waits.asker.write-answer-{self.number}"]
        return [f"pay-slip-{self.number}"] if self.agent == "payer" and self.is_approved else []

    def update(self) -> Coroutine[Any, Any, str]:
        """Answer by an update, as a client does."""
        if self.agent == "asker":
            return self.run.answer(self.wait.id, f"answer-{self.number}")
        if self.agent == "payer" and self.is_approved:
            return self.run.approve(self.wait.id)
        if self.agent == "payer":
            return self.run.deny(self.wait.id, f"reason-{self.number}")
        return self.run.provide_tool_results(self.wait.id, [self._result])

    @property
    def _result(self) -> dict[str, Any]:
        return {"tool_call_id": "fetch", "result": {"count": self.number}}

    @property
    def _bound(self) -> dict[str, Any]:
        return {"payload_digest": self.wait.payload_digest}

    @property
    def _signal(self) -> tuple[str, dict[str, Any]]:
        """Name and input of the signal with the same answer."""
        if self.agent == "asker":
            return "provide_clarification", {"answer": f"answer-{self.number}"}
        if self.agent == "payer" and self.is_approved:
            return "provide_confirmation", {"approved": True, **self._bound}
        if self.agent == "payer":
            return "provide_confirmation", {
                "approved": False,
                "reason": f"reason-{self.number}",
                **self._bound,
            }
        return "provide_tool_results", {"results": [self._result]}

    async def signal(self, temporal: Path, address: str) -> None:
        """Answer by `temporal workflow signal`."""
        name, content = self._signal
        command = [
            *(str(temporal), "workflow", "signal", "--address", address, "--workflow-id", self.run.id),
            *("--name", name, "--input", json.dumps({"id": self.wait.id, **content})),
        ]
        await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
