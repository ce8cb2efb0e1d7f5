"""The part of an app that a worker needs.

It is a protocol, because `App` implements it and imports the worker.
"""

from typing import Any, Protocol

__all__ = ["Served"]


class Served(Protocol):
    """The agents of a deployment, opened when a worker starts and closed when it ends."""

    @property
    def name(self) -> str | None:
        """The app's name, or None."""
        ...

    async def open(self) -> None:
        """Open the remote toolsets and the live transport."""
        ...

    async def close(self) -> None:
        """Close the opened resources."""
        ...

    def list_agents(self) -> list[str]:
        """Return the ids of the agents."""
        ...

    def agent(self, agent_id: str) -> Any:
        """Return the `Agent` of this id, or None."""
        ...
