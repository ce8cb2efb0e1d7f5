"""Results: a reply as the result of a tool, its artifacts as resources, and its events as progress."""

from typing import Any, cast
from urllib.parse import quote, unquote

from mcp_types import CallToolResult, ContentBlock, ResourceLink, TextContent

from sojourn.contracts.event import Event, PlanStartedEvent, ToolStartEvent, ToolUpdateEvent
from sojourn.http.protocols.marks import without_tokens
from sojourn.http.protocols.reading import Reading

__all__ = ["ARTIFACTS", "progress_of", "ref_of", "result_of"]

ARTIFACTS = "sojourn://artifacts/"
"""What the addresses of artifacts begin with; a reference follows."""


def result_of(reading: Reading) -> CallToolResult:
    """The result of a reply that has ended: its answer, or why there is none."""
    meta = {"sojourn/run_id": reading.place.run_id}
    if reading.output is None:
        return failed(without_tokens(str(reading.error)), **meta)
    output = reading.output
    links = [
        ResourceLink(
            type="resource_link",
            name=artifact.kind,
            uri=ARTIFACTS + quote(artifact.ref, safe=""),
            mime_type="application/json",
        )
        for artifact in output.artifacts
        if artifact.ref
    ]
    result: object = output.result
    structured = cast("dict[str, Any]", result) if isinstance(result, dict) else None
    content: list[ContentBlock] = [TextContent(type="text", text=without_tokens(output.text)), *links]
    return CallToolResult(content=content, structured_content=structured, _meta=meta)


def failed(text: str, **meta: Any) -> CallToolResult:
    """The result of a call that has none."""
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True, _meta=meta or None)


def ref_of(uri: str) -> str | None:
    """The reference of an artifact's address; None where it is another one's."""
    return unquote(uri.removeprefix(ARTIFACTS)) if uri.startswith(ARTIFACTS) else None


def progress_of(event: Event) -> str | None:
    """What an event tells of the progress; None where it is none."""
    if isinstance(event, PlanStartedEvent):
        return f"{event.agent_id} plans"
    if isinstance(event, ToolStartEvent):
        return str(event.call.name)
    if isinstance(event, ToolUpdateEvent):
        return f"{event.tool_name}: {event.note}" if event.note else None
    return None
