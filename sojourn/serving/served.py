"""The part of an app that a worker needs: `App`, which imports the worker."""

from typing import Any, Protocol

__all__ = ["Served"]


class Served(Protocol):
    @property
    def name(self) -> str | None: ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def list_agents(self) -> list[str]: ...

    def agent(self, agent_id: str) -> Any: ...
