"""A conversation's timeline, fed live for its page."""

import asyncio
from typing import ClassVar

from sojourn.console.conversing import MOST, conversation_timeline, read_part
from sojourn.console.views.markdown import prepare
from sojourn.console.views.talk import markdown_of, turns_before
from sojourn.console.watching import Watched
from sojourn.contracts.event import Event
from sojourn.contracts.ids import place_of
from sojourn.events import Cursor
from sojourn.http.service import Service
from sojourn.timeline import Timeline

__all__ = ["WatchedTalk"]


class WatchedTalk(Watched):
    """A conversation that is watched: its last turns, and those before that somebody's page has.

    Args:
        service: The service.
        run_id: The conversation's run.
    """

    BEAT: ClassVar[float] = 2.0  # what runs below ask is no event here
    PAUSE: ClassVar[float] = 0.1
    LAST_WORD: ClassVar[str] = "the conversation is over"

    def __init__(self, service: Service, run_id: str) -> None:
        super().__init__(service, run_id)
        self.timeline = conversation_timeline(run_id)
        self._reaching = asyncio.Lock()

    @property
    def told(self) -> Timeline:
        """The timeline."""
        return self.timeline

    @property
    def is_over(self) -> bool:
        """Whether the timeline has the end of the conversation."""
        return self.timeline.end is not None

    async def load(self) -> None:
        """Read the last turns; raises as `read_part`."""
        client = self._service.client
        self.timeline, self.status = await asyncio.gather(
            read_part(client, self.run_id), client.get_run(self.run_id).status()
        )

    async def reach(self, begin: str) -> None:
        """Read the turns from an event on, where they are not here; raises as `read_part`."""
        async with self._reaching:
            earlier = turns_before(self.timeline)
            if begin and earlier and place_of(begin) < place_of(earlier):
                read = await read_part(self._service.client, self.run_id, begin=begin)
                self.timeline.prepend_turns(read)

    async def prepare(self, since: int) -> None:
        """Render the texts of the turns that have changed since a version in a thread."""
        await prepare(
            text for turn in self.timeline.turns[-MOST:] if turn.version > since for text in markdown_of(turn)
        )

    def feed(self, event: Event) -> None:
        """Take the next event."""
        self.timeline.feed(event)
        if len(self.timeline.turns) > 2 * MOST:
            self.timeline.keep_turns(MOST)
            self.forget_parts()

    def cursor(self) -> Cursor:
        """How far the timeline goes."""
        return Cursor(self.run_id, after=self.timeline.last_event_id or None)
