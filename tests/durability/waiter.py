"""Waiter: a run that waits for one answer, and the ways to give it."""

import asyncio
import json
import subprocess
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sojourn import Await, Run

from .until import until


@dataclass(frozen=True)
class Waiter:
    """A run that waits, known by a number that its answer, and nobody else's, is made of."""

    number: int
    agent: str
    run: Run
    wait: Await

    @classmethod
    async def found(cls, number: int, agent: str, run: Run) -> "Waiter":
        """Wait until a run waits."""

        async def its_waits() -> list[Await]:
            return (await run.status()).awaits

        (wait,) = await until(f"{run.id} waits", its_waits)
        return cls(number, agent, run, wait)

    @property
    def is_approved(self) -> bool:
        """Whether a person who is asked says yes."""
        return self.number % 2 == 0

    @property
    def end(self) -> str:
        """What the run says when it was answered with its own answer, once."""
        slip = f"slip-{self.number}"
        if self.agent == "asker":
            return f"{slip}; answer-{self.number}; wrote answer-{self.number}"
        if self.agent == "payer":
            return f"{slip}; paid {slip}" if self.is_approved else f"{slip}; denied: reason-{self.number}"
        return f"{slip}; {{'count': {self.number}}}"

    @property
    def executed(self) -> list[str]:
        """What its tools write down."""
        if self.agent == "asker":
            return [f"waits.asker.write-answer-{self.number}"]
        return [f"pay-slip-{self.number}"] if self.agent == "payer" and self.is_approved else []

    def update(self) -> Coroutine[Any, Any, str]:
        """Answer as a client does."""
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
        """Name and content of the signal that says the same."""
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
        """Answer with Temporal's own command."""
        name, said = self._signal
        command = [
            *(str(temporal), "workflow", "signal", "--address", address, "--workflow-id", self.run.id),
            *("--name", name, "--input", json.dumps({"id": self.wait.id, **said})),
        ]
        await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
