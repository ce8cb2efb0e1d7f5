"""Served: what a worker asks of what it serves; `App` is that, and knows of workers only to start one."""

from typing import Any, Protocol

__all__ = ["Served"]


class Served(Protocol):
    """The agents of a deployment, opened when a worker starts and closed when it ends."""

    async def open(self) -> None:
        """Open the remote toolsets and the live transport."""
        ...

    async def close(self) -> None:
        """Close what was opened."""
        ...

    def list_agents(self) -> list[str]:
        """The agents' ids."""
        ...

    def agent(self, agent_id: str) -> Any:
        """The `Agent` of this id, or None."""
        ...
