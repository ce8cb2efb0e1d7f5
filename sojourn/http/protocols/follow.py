"""Follow: a turn as native events, with the run's status at the beginning and at the end."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import chain

from pydantic_ai.messages import AgentStreamEvent

from sojourn.contracts.event import Event, TurnFailedEvent
from sojourn.contracts.run import RunStatus
from sojourn.core.values.exact import exact
from sojourn.errors import RunFailed, RunNotFound, SojournError
from sojourn.http.problems import Problem
from sojourn.http.protocols.native import Asked, Native, Stated
from sojourn.http.protocols.streamed import StreamCut
from sojourn.http.protocols.turn import Blocked, Turn
from sojourn.http.shown import shown

__all__ = ["Followed", "stated"]


class Followed:
    """A turn that an encoder reads.

    Args:
        turn: The turn.
    """

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.native = Native(turn.run.id)
        self.cut: StreamCut | None = None
        """Set where the events end before the turn does; what the encoder makes of it is not the client's."""

    async def events(self) -> AsyncGenerator[AgentStreamEvent]:
        """The native events of the turn.

        Raises:
            RunFailed: The turn failed.
            StreamCut: The events end before the turn does.
        """
        try:
            yield stated(await self.turn.run.status())
            async with aclosing(self.turn.events()) as events:
                async for each in events:
                    if isinstance(each, Blocked):
                        for native in self.native.close():
                            yield native
                        yield stated(each.status)
                        yield Asked(waits=each.waits)
                        return
                    for native in self.native.take(each):
                        yield native
                    failure = _failure(each.event, self.turn)
                    if failure is not None:
                        raise failure
            yield stated(await self.turn.run.status())
        except RunFailed:
            raise
        except RunNotFound:
            raise
        except (Problem, SojournError) as error:
            self.cut = StreamCut(str(error))
            raise self.cut from error


def stated(status: RunStatus) -> Stated:
    """The event of a status, as it is told over HTTP."""
    told = shown(status).model_dump(mode="json")
    for wait in (*told["awaits"], *chain.from_iterable(told["child_awaits"].values())):
        for call in (wait, *wait.get("items", ())):
            if "payload" in call:
                call["payload"] = exact(call["payload"])
    return Stated(status=told)


def _failure(event: Event, turn: Turn) -> RunFailed | None:
    if event.run_id != turn.run.id or not turn.is_ended:
        return None
    if isinstance(event, TurnFailedEvent):
        return RunFailed(str(event.error), run_id=event.run_id, code=event.error.code, error=event.error)
    if event.type == "turn_completed":
        return None
    text = getattr(event, "text", None) or f"the conversation ended: {event.type}"
    return RunFailed(text, run_id=event.run_id, code=getattr(event, "code", None) or event.type)
