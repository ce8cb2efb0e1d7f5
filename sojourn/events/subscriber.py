"""Call an object's method for each kind of event."""

import inspect
from collections.abc import AsyncIterable
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from sojourn.contracts.event import BaseEvent, Event

__all__ = ["EventHandler", "event_line", "parse_event", "subscribe"]

_EVENT: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="type")])


class EventHandler:
    """The methods that `subscribe` calls: `on_` with an event's type, sync or async.

    ```python
    class Bounded(EventHandler):
        def on_tool_end(self, event: ToolEndEvent) -> None:
            if event.bounds and event.bounds.truncated:
                print(event.tool_name, event.bounds.returned, event.bounds.total)
    ```
    """

    def on_event(self, event: Event) -> Any:
        """Take an event of a kind that has no method of its own."""


async def subscribe(events: AsyncIterable[Event], handler: EventHandler) -> None:
    """Call the handler's method for each event, in order, until the last.

    Args:
        events: The events of `run.events(...)`.
        handler: Its `on_tool_end(event)` and the like are called; `on_event(event)` for the others. An error
            in a method ends the subscription, and nothing else.
    """
    async for event in events:
        made = getattr(handler, f"on_{event.type}", handler.on_event)(event)
        if inspect.isawaitable(made):
            await made


def event_line(event: BaseEvent) -> str:
    """Return an event as one line of JSON.

    The type comes first, and defaults are left out. An output in the event has `text`.
    """
    return event.model_dump_json(exclude_defaults=True, context={"reader": True})


def parse_event(data: str | bytes | dict[str, Any]) -> Event:
    """Read an event from its line.

    Raises:
        pydantic.ValidationError: The line is not an event.
    """
    return _EVENT.validate_python(data) if isinstance(data, dict) else _EVENT.validate_json(data)
