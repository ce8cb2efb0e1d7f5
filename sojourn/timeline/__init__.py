"""Fold a run's events into one timeline, which every face renders.

A timeline has messages, plans, calls, waits, notes and ends, grouped in turns. It also has the open
waits, the decisions, and the delivery under each message id.

The package is pure, and imports only contracts and core. Begin with `TimelineState`, which is what
readers have of a `Timeline`. `TimelineTree` covers child runs too.
"""

from sojourn.core.run.set_aside import SetAsideRequest as SetAsideRequest
from sojourn.core.run.set_aside import requests_by_message as requests_by_message
from sojourn.timeline.compare import EntryPair as EntryPair
from sojourn.timeline.compare import compare_entries as compare_entries
from sojourn.timeline.compare import entries_after_fork as entries_after_fork
from sojourn.timeline.draft import Attempt as Attempt
from sojourn.timeline.draft import Draft as Draft
from sojourn.timeline.entries import Call as Call
from sojourn.timeline.entries import ChangeKind as ChangeKind
from sojourn.timeline.entries import Delivery as Delivery
from sojourn.timeline.entries import End as End
from sojourn.timeline.entries import Entry as Entry
from sojourn.timeline.entries import EntryChange as EntryChange
from sojourn.timeline.entries import Note as Note
from sojourn.timeline.entries import OpenWait as OpenWait
from sojourn.timeline.entries import Plan as Plan
from sojourn.timeline.entries import RunEnd as RunEnd
from sojourn.timeline.entries import TokenUsage as TokenUsage
from sojourn.timeline.entries import TurnEnd as TurnEnd
from sojourn.timeline.entries import UserMessage as UserMessage
from sojourn.timeline.entries import UserTurn as UserTurn
from sojourn.timeline.entries import WaitEnd as WaitEnd
from sojourn.timeline.entries import WaitEntry as WaitEntry
from sojourn.timeline.entries import describe_verdict as describe_verdict
from sojourn.timeline.entries import is_interruption as is_interruption
from sojourn.timeline.entries import is_last_result as is_last_result
from sojourn.timeline.entries import is_plan_end as is_plan_end
from sojourn.timeline.entries import is_run_end as is_run_end
from sojourn.timeline.entries import is_turn_end as is_turn_end
from sojourn.timeline.entries import wait_in as wait_in
from sojourn.timeline.folds import CallFold as CallFold
from sojourn.timeline.folds import Row as Row
from sojourn.timeline.folds import fold_calls as fold_calls
from sojourn.timeline.one_branch import events_of_branch as events_of_branch
from sojourn.timeline.state import MOST_ENTRIES as MOST_ENTRIES
from sojourn.timeline.timeline import Timeline as Timeline
from sojourn.timeline.tree import TimelineTree as TimelineTree

__all__ = [
    "MOST_ENTRIES",
    "Attempt",
    "Call",
    "CallFold",
    "ChangeKind",
    "Delivery",
    "Draft",
    "End",
    "Entry",
    "EntryChange",
    "EntryPair",
    "Note",
    "OpenWait",
    "Plan",
    "Row",
    "RunEnd",
    "SetAsideRequest",
    "Timeline",
    "TimelineTree",
    "TokenUsage",
    "TurnEnd",
    "UserMessage",
    "UserTurn",
    "WaitEnd",
    "WaitEntry",
    "compare_entries",
    "describe_verdict",
    "entries_after_fork",
    "events_of_branch",
    "fold_calls",
    "is_interruption",
    "is_last_result",
    "is_plan_end",
    "is_run_end",
    "is_turn_end",
    "requests_by_message",
    "wait_in",
]
