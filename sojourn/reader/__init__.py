"""Cached, coalesced reads of Temporal for commands, the service and the console.

Nothing here checks access. A caller passes a selection that has the tenant and the
viewer, and the selection is part of the cache key.
"""

from sojourn.reader.cache import Cache
from sojourn.reader.history import (
    MAX_TURNS,
    TURNS,
    HistoryPart,
    RunDecisions,
    Snapshot,
    branch_events,
    conversation_timeline,
    may_be_stuck,
    read_branch,
    read_conversation,
    read_event,
    read_part,
    read_snapshot,
)
from sojourn.reader.live_timeline import LiveConversation, LiveRun, LiveTimeline, LiveTimelines
from sojourn.reader.reader import Detail, Preview, Reader, RunEnd, StuckRuns, Turns
from sojourn.reader.runs import ListedRun, Runs, StuckReason, decode_cursor, encode_cursor, listed_run
from sojourn.reader.spending import (
    DaySpending,
    RecentSpending,
    Spending,
    SpendingReader,
    spending_by_model,
    sum_of,
    total_of,
)
from sojourn.reader.subscription import (
    STOPPED,
    Feeds,
    FeedStopped,
    Gauges,
    SlowSubscriber,
    SubscriberItem,
    Subscription,
)
from sojourn.reader.waiting_lists import Sight, WaitingLists
from sojourn.reader.waits import FoundWait, FoundWaits, WaitingRuns, WaitReader, find_waits

__all__ = [
    "MAX_TURNS",
    "STOPPED",
    "TURNS",
    "Cache",
    "DaySpending",
    "Detail",
    "FeedStopped",
    "Feeds",
    "FoundWait",
    "FoundWaits",
    "Gauges",
    "HistoryPart",
    "ListedRun",
    "LiveConversation",
    "LiveRun",
    "LiveTimeline",
    "LiveTimelines",
    "Preview",
    "Reader",
    "RecentSpending",
    "RunDecisions",
    "RunEnd",
    "Runs",
    "Sight",
    "SlowSubscriber",
    "Snapshot",
    "Spending",
    "SpendingReader",
    "StuckReason",
    "StuckRuns",
    "SubscriberItem",
    "Subscription",
    "Turns",
    "WaitReader",
    "WaitingLists",
    "WaitingRuns",
    "branch_events",
    "conversation_timeline",
    "decode_cursor",
    "encode_cursor",
    "find_waits",
    "listed_run",
    "may_be_stuck",
    "read_branch",
    "read_conversation",
    "read_event",
    "read_part",
    "read_snapshot",
    "spending_by_model",
    "sum_of",
    "total_of",
]
