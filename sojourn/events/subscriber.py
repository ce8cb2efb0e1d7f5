"""Call an object's method for each kind of event."""

import inspect
from collections.abc import AsyncIterable
from typing import Any

from sojourn.contracts.event import Event

__all__ = ["EventHandler", "subscribe"]


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
