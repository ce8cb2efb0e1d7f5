"""Waiting count: how many runs wait for somebody, beside the inbox in the navigation of every page."""

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from sojourn.client.listing import Selection
from sojourn.contracts.principal import Principal
from sojourn.errors import SojournError
from sojourn.http.security.tenancy import View
from sojourn.http.service import Service

__all__ = ["WaitingCount", "waiting_count_of"]

FRESH = 3.0
"""Seconds for which a count is shown to everybody of a tenant as it was read."""

PATIENCE = 0.1
"""Seconds that a page waits for it; a page without it does not wait."""

OLD = 60.0
"""Seconds after which a count that could not be read anew is shown no longer."""

MAX_VIEWS = 1_000
"""Most tenants whose count is remembered."""


@dataclass(slots=True)
class _Known:
    count: int | None = None
    read_at: float = 0.0
    tried_at: float = 0.0
    reading: asyncio.Task[None] | None = None


class WaitingCount:
    """Counts, once for all who see the same.

    Args:
        service: What the visitors may see.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._known: OrderedDict[View, _Known] = OrderedDict()

    async def of(self, asking: Principal) -> int | None:
        """How many of the runs that the visitor may see wait; None where the store has not told. The first one waits for it a moment."""
        view = self._service.view(asking)
        known = self._known.setdefault(view, _Known())
        self._known.move_to_end(view)
        while len(self._known) > MAX_VIEWS:
            self._known.popitem(last=False)
        now = time.monotonic()
        if known.reading is None and (not known.tried_at or now - known.tried_at > FRESH):
            known.tried_at = now
            known.reading = asyncio.create_task(self._read(known, asking))
        if known.reading is not None:
            await asyncio.wait({known.reading}, timeout=PATIENCE)
        return known.count if known.read_at and time.monotonic() - known.read_at < OLD else None

    def settled(self, asking: Principal) -> None:
        """One of them waits no longer, which the store says only in a while."""
        known = self._known.get(self._service.view(asking))
        if known is not None and known.count:
            known.count, known.tried_at = known.count - 1, time.monotonic()

    async def _read(self, known: _Known, asking: Principal) -> None:
        try:
            known.count = await self._service.count_waiting(asking, Selection())
            known.read_at = time.monotonic()
        except SojournError:
            pass  # the page says by itself that the server does not answer, where it needs it
        finally:
            known.reading = None


_COUNTS: WeakKeyDictionary[Service, WaitingCount] = WeakKeyDictionary()


def waiting_count_of(service: Service) -> WaitingCount:
    """The counts of a service."""
    return _COUNTS.setdefault(service, WaitingCount(service))
