"""Cached, coalesced reads of Temporal, for the command line, the HTTP service and the console.

Nothing here decides who may see what. A caller passes a selection that has the
tenant and the viewer, and what is cached is cached by that selection.
"""

from sojourn.reader.cache import Cache
from sojourn.reader.ends import Preview, RunEnd, Turns
from sojourn.reader.reader import Detail, Reader, StuckRuns
from sojourn.reader.runs import ListedRun, Runs, decode_cursor, encode_cursor
from sojourn.reader.subscription import (
    STOPPED,
    Delivery,
    Feeds,
    FeedStopped,
    Gauges,
    SlowSubscriber,
    Subscription,
)
from sojourn.reader.waits import FoundWait, FoundWaits, OpenWaits, WaitingRuns

__all__ = [
    "STOPPED",
    "Cache",
    "Delivery",
    "Detail",
    "FeedStopped",
    "Feeds",
    "FoundWait",
    "FoundWaits",
    "Gauges",
    "ListedRun",
    "OpenWaits",
    "Preview",
    "Reader",
    "RunEnd",
    "Runs",
    "SlowSubscriber",
    "StuckRuns",
    "Subscription",
    "Turns",
    "WaitingRuns",
    "decode_cursor",
    "encode_cursor",
]
