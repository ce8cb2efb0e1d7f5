"""A mutable holder of `Waits`, for tests that apply several transitions."""

from typing import Any

from sojourn.contracts.awaits import Await
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.awaits.kinds import Answer
from sojourn.core.awaits.waits import Released, Waits


class CurrentWaits:
    """Holds one immutable `Waits`; each transition replaces it, and all other attributes are read from it."""

    def __init__(self, *waits: Await) -> None:
        self.waits = Waits()
        for wait in waits:
            self.add(wait)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.waits, name)

    def add(self, wait: Await) -> Await:
        self.waits, opened = self.waits.opened(wait)
        return opened

    def close(self, await_id: str, answer: Answer | None = None) -> None:
        self.waits = self.waits.closed(await_id, answer)

    def take(self, answer: Answer) -> list[Answer]:
        self.waits, settled = self.waits.answered(answer)
        return settled

    def release(self, released: Released) -> list[Answer]:
        self.waits, settled = self.waits.released(released)
        return settled

    def checked(self, await_id: str, tool_call_id: str, result: ToolResult) -> bool:
        self.waits, is_final = self.waits.checked(await_id, tool_call_id, result)
        return is_final
