"""ASGI helpers: read a request's body, watch for a disconnect, send a response."""

from typing import Any

from tests.models.standin.request import Request


async def read_content(receive: Any) -> bytes:
    """Return the body of a request."""
    content, more = b"", True
    while more:
        message = await receive()
        content += message.get("body", b"")
        more = message.get("more_body", False)
    return content


async def watch(receive: Any, request: Request) -> None:
    """Set `request.left` when the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
    request.left.set()


async def respond(send: Any, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
    """Send a complete response."""
    await send(start(status, [*headers, ("content-length", str(len(content)))]))
    await send({"type": "http.response.body", "body": content})


def start(status: int, headers: list[tuple[str, str]]) -> dict[str, Any]:
    """Return the message that starts a response."""
    encoded = [(name.lower().encode(), value.encode()) for name, value in headers]
    return {"type": "http.response.start", "status": status, "headers": encoded}


def request_id(request: Request) -> dict[str, str]:
    """Return the header with the provider's id of the request."""
    name = "request-id" if request.protocol == "anthropic" else "x-request-id"
    return {name: f"req_{request.number}"}


def place(part: float | None, count: int) -> int | None:
    """Return the number of the chunk at a fraction of a response; after the first chunk for any fraction above 0."""
    if part is None:
        return None
    return max(1, int(part * count)) if part else 0
