"""Watched talk: a conversation, as its page has it."""

import asyncio
from typing import ClassVar

from sojourn.console.conversing import MOST, read_part
from sojourn.console.views.conversation import Conversation, markdown_of
from sojourn.console.views.markdown import prepare
from sojourn.console.watching import Watched
from sojourn.contracts.event import Event
from sojourn.contracts.ids import place_of
from sojourn.events import Cursor
from sojourn.http.service import Service

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
        self.conversation = Conversation(run_id)
        self._reaching = asyncio.Lock()

    @property
    def told(self) -> Conversation:
        """The conversation."""
        return self.conversation

    @property
    def is_over(self) -> bool:
        """Whether the end of the conversation is told."""
        return bool(self.conversation.ended)

    async def load(self) -> None:
        """Read the last turns; raises as `read_part`."""
        client = self._service.client
        self.conversation, self.status = await asyncio.gather(
            read_part(client, self.run_id), client.get_run(self.run_id).status()
        )

    async def reach(self, begin: str) -> None:
        """Read the turns from an event on, where they are not here; raises as `read_part`."""
        async with self._reaching:
            earlier = self.conversation.earlier
            if begin and earlier and place_of(begin) < place_of(earlier):
                read = await read_part(self._service.client, self.run_id, begin=begin)
                self.conversation.reach_back(read)

    async def prepare(self, since: int) -> None:
        """Render the texts of the turns that have changed since a version in a thread."""
        await prepare(
            text
            for turn in self.conversation.turns[-MOST:]
            if turn.version > since
            for text in markdown_of(turn)
        )

    def feed(self, event: Event) -> None:
        """Take the next event."""
        self.conversation.feed(event)
        if len(self.conversation.turns) > 2 * MOST:
            self.conversation.keep_last(MOST)
            self.forget_parts()

    def cursor(self) -> Cursor:
        """How far the conversation is told."""
        return Cursor(self.run_id, after=self.conversation.last_event_id or None)
