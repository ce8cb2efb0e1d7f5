"""An MCP server like that of the SDK's guide: resolvers elicit input, and only this process accepts its state."""

from typing import Annotated, Literal

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resolve import AcceptedElicitation, Elicit, ElicitationResult, ListRoots, Resolve
from mcp_types import ListRootsResult
from pydantic import BaseModel, Field

server = MCPServer("booking", log_level="WARNING")


class Seat(BaseModel):
    row: int = Field(ge=1, le=40)
    place: Literal["aisle", "window"] = Field(description="Where to sit")
    meals: list[Literal["fish", "pasta"]] = []
    note: str | None = None


def ask_seat(flight: str) -> Elicit[Seat]:
    """Where to sit."""
    return Elicit(f"Where will you sit on {flight}?", Seat)


def roots() -> ListRoots:
    """The folders of the client."""
    return ListRoots()


@server.tool()
def book(flight: str, seat: Annotated[ElicitationResult[Seat], Resolve(ask_seat)]) -> str:
    """Book a seat."""
    if not isinstance(seat, AcceptedElicitation):
        return f"no seat on {flight}: {seat.action}"
    return f"{flight}: row {seat.data.row}, {seat.data.place}, {seat.data.meals}, {seat.data.note}"


@server.tool()
def folders(given: Annotated[ListRootsResult, Resolve(roots)]) -> int:
    """How many folders the client has."""
    return len(given.roots)


if __name__ == "__main__":
    server.run()
