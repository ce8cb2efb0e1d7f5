"""Cached, coalesced reads of Temporal, for the command line, the HTTP service and the console.

Nothing here decides who may see what. A caller passes a selection that has the
tenant and the viewer, and what is cached is cached by that selection.
"""

from sojourn.reader.cache import Cache
from sojourn.reader.ends import Preview, RunEnd, Turns
from sojourn.reader.reader import Detail, Reader, StuckRuns
from sojourn.reader.runs import ListedRun, Runs, decode_cursor, encode_cursor
from sojourn.reader.waits import FoundWait, FoundWaits, OpenWaits, WaitingRuns

__all__ = [
    "Cache",
    "Detail",
    "FoundWait",
    "FoundWaits",
    "ListedRun",
    "OpenWaits",
    "Preview",
    "Reader",
    "RunEnd",
    "Runs",
    "StuckRuns",
    "Turns",
    "WaitingRuns",
    "decode_cursor",
    "encode_cursor",
]
