"""The small change of ASGI: read a request's body, notice that its client goes, send an answer."""

from typing import Any

from tests.models.standin.request import Request


async def read_content(receive: Any) -> bytes:
    """The body of a request."""
    content, more = b"", True
    while more:
        message = await receive()
        content += message.get("body", b"")
        more = message.get("more_body", False)
    return content


async def watch(receive: Any, request: Request) -> None:
    """Note that the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    request.left.set()


async def respond(send: Any, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
    """Send a whole answer."""
    await send(start(status, [*headers, ("content-length", str(len(content)))]))
    await send({"type": "http.response.body", "body": content})


def start(status: int, headers: list[tuple[str, str]]) -> dict[str, Any]:
    """The head of an answer."""
    encoded = [(name.lower().encode(), value.encode()) for name, value in headers]
    return {"type": "http.response.start", "status": status, "headers": encoded}


def request_id(request: Request) -> dict[str, str]:
    """The header that names the request at the provider."""
    name = "request-id" if request.protocol == "anthropic" else "x-request-id"
    return {name: f"req_{request.number}"}


def place(part: float | None, count: int) -> int | None:
    """The chunk before which something happens; a part above 0 leaves the first chunk out."""
    if part is None:
        return None
    return max(1, int(part * count)) if part else 0
