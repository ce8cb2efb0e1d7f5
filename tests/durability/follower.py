"""Follower: a client that follows a run, disconnects at random moments, and comes back at any process of the HTTP service."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import h11

from sojourn.core.history.fold import END

LONGEST = 10.0
"""Most seconds of one connection."""

MOST = 40_000
"""Most bytes of one connection, the head of the answer included."""


class Follower:
    """One client of one run, and what it has had.

    Args:
        run_id: The run.
        ports: Of the processes of the service.
        dice: Chooses the process of a connection, and when it is closed.
        figures: Counts how connections ended.
        on_event: Called with each event.
    """

    def __init__(
        self,
        run_id: str,
        ports: Sequence[int],
        dice: random.Random,
        figures: Counter[str],
        on_event: Callable[[dict[str, Any]], None],
    ) -> None:
        self.run_id = run_id
        self.had: list[dict[str, Any]] = []
        """The recorded events, in the order in which they came."""
        self._ports = ports
        self._dice = dice
        self._figures = figures
        self._on_event = on_event
        self._last_id = ""
        self._is_over = False
        self._problem = ""

    async def follow(self) -> None:
        """Read to the end of the run, over as many connections as that takes."""
        while not self._is_over:
            ended = await self._connect(self._dice.choice(self._ports))
            if not self._is_over:
                self._figures[ended] += 1

    async def _connect(self, port: int) -> str:
        """Read until the connection is closed, from either side; return how it ended."""
        writer = None
        try:
            async with asyncio.timeout(self._dice.uniform(0, LONGEST)):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                return await self._read(reader, writer, self._dice.randint(1, MOST))
        except TimeoutError:
            return "disconnects"
        except ConnectionRefusedError:
            await asyncio.sleep(0.1)
            return "connections refused"
        except (ConnectionError, h11.RemoteProtocolError):
            return "connections lost"
        finally:
            if writer:
                writer.transport.abort()

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int) -> str:
        """Ask for the events after the last one, and read so many bytes; return how the connection ended."""
        http = h11.Connection(h11.CLIENT)
        target = f"/v1/runs/{self.run_id}/events?children=true"
        headers = [("Host", "127.0.0.1"), ("Accept", "text/event-stream")]
        headers += [("Last-Event-ID", self._last_id)] if self._last_id else []
        request = h11.Request(method="GET", target=target, headers=headers)
        writer.write((http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b""))
        status, rest = 0, b""
        while most:
            data = await reader.read(min(most, 65_536))
            most -= len(data)
            http.receive_data(data)
            while (part := http.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                if isinstance(part, h11.Response):
                    status = part.status_code
                elif isinstance(part, h11.Data):
                    *frames, rest = (rest + bytes(part.data)).split(b"\n\n")
                    for frame in frames:
                        self._take(frame.decode())
                elif isinstance(part, h11.EndOfMessage):
                    if status != 200:
                        return f"refused as {json.loads(rest)['code']}"
                    assert rest == b""
                    return f"ended as {self._problem}" if self._problem else "ended before the run"
            if not data:
                raise ConnectionError
        self._figures["disconnects in the middle of a frame"] += bool(rest)
        return "disconnects"

    def _take(self, frame: str) -> None:
        """Take one frame: an event of the run, a problem at the end, or a comment."""
        fields = dict(line.partition(": ")[::2] for line in frame.split("\n"))
        self._problem = json.loads(fields["data"])["code"] if "event" in fields else ""
        if "id" not in fields:
            return
        self._last_id = fields["id"]
        event = json.loads(fields["data"])
        self.had.append(event)
        self._is_over = event["type"] == END and event["run_id"] == self.run_id
        self._on_event(event)
