"""The names that histories, clients and Temporal's screens use for parts of a run.

Histories store them, so a name never changes, and the name of a removed part stays here.
"""

from typing import Final

__all__ = [
    "ACTIVITIES",
    "ADMIT",
    "AGENT_RUN",
    "APPROVAL",
    "ARCHIVE_EVENTS",
    "BRANCH",
    "CHECK_APPROVAL",
    "CHECK_EDIT",
    "CHILD_SPENT",
    "CLOSE",
    "DECIDED",
    "DELIVER_NOTICE",
    "DENIED",
    "EXCHANGE",
    "EXECUTE_TOOL",
    "FORKED_FROM",
    "INTERRUPT",
    "IN_DOUBT",
    "JUDGE_APPROVER",
    "MARKERS",
    "MEMORY",
    "MEMOS",
    "MESSAGE",
    "MESSAGES",
    "NOTICE_DELIVERY",
    "PATCHES",
    "PAUSE",
    "PLACE",
    "PLAN",
    "PROVIDE_CLARIFICATION",
    "PROVIDE_CONFIRMATION",
    "PROVIDE_TOOL_RESULTS",
    "QUERIES",
    "QUOTA_USE",
    "READ_BRANCH",
    "REMEMBER",
    "RESUME",
    "SCHEDULED_MESSAGE",
    "SEARCH_ATTRIBUTES",
    "SEND",
    "SET_ASIDE",
    "STARTED_AT",
    "STARTED_BY",
    "STATUS",
    "STOP_ASKING",
    "STORE_TRANSCRIPT",
    "TENANT",
    "TENANT_LEDGER",
    "TIME_ZONE",
    "TRANSCRIPT",
    "TURN_ENDED",
    "VISIBLE_TO",
    "WITHDRAW",
    "WORKFLOWS",
    "YIELD",
]

# Workflow types.

AGENT_RUN: Final = "AgentRun"
"""A run."""
NOTICE_DELIVERY: Final = "NoticeDelivery"
"""The delivery of one notice. Its workflow id is the notice's id."""

SCHEDULED_MESSAGE: Final = "ScheduledMessage"
"""The sending of a schedule's message to a conversation."""
TENANT_LEDGER: Final = "TenantLedger"
"""The ledger of a tenant with a quota, on a task queue of its own."""

WORKFLOWS: Final = frozenset({AGENT_RUN, NOTICE_DELIVERY, TENANT_LEDGER})

# Activity types.

PLAN: Final = "PlanActivity"
EXECUTE_TOOL: Final = "ExecuteToolActivity"
CHECK_APPROVAL: Final = "CheckApprovalActivity"
JUDGE_APPROVER: Final = "JudgeApproverActivity"
CHECK_EDIT: Final = "CheckEditActivity"
STORE_TRANSCRIPT: Final = "StoreTranscriptActivity"
ARCHIVE_EVENTS: Final = "ArchiveEventsActivity"
READ_BRANCH: Final = "ReadBranchActivity"
DELIVER_NOTICE: Final = "DeliverNoticeActivity"
YIELD: Final = "YieldActivity"

ACTIVITIES: Final = frozenset(
    {
        PLAN,
        EXECUTE_TOOL,
        CHECK_APPROVAL,
        JUDGE_APPROVER,
        CHECK_EDIT,
        STORE_TRANSCRIPT,
        ARCHIVE_EVENTS,
        READ_BRANCH,
        DELIVER_NOTICE,
        YIELD,
    }
)

# Updates and signals of a run.

PROVIDE_CLARIFICATION: Final = "provide_clarification"
PROVIDE_CONFIRMATION: Final = "provide_confirmation"
PROVIDE_TOOL_RESULTS: Final = "provide_tool_results"
PAUSE: Final = "pause"
RESUME: Final = "resume"
STOP_ASKING: Final = "stop_asking"
SET_ASIDE: Final = "set_aside"
SEND: Final = "send"
WITHDRAW: Final = "withdraw"
INTERRUPT: Final = "interrupt"
BRANCH: Final = "branch"
CLOSE: Final = "close"
REMEMBER: Final = "remember"
"""The signal with the id of a message that answered a question of a child run."""
CHILD_SPENT: Final = "child_spent"
"""The signal with the usage of a child run, sent before it ends as canceled."""
ADMIT: Final = "admit"
"""The signal that a run has got the place for which it waited."""
EXCHANGE: Final = "exchange"
"""The update of a tenant's ledger."""

MESSAGES: Final = frozenset(
    {
        PROVIDE_CLARIFICATION,
        PROVIDE_CONFIRMATION,
        PROVIDE_TOOL_RESULTS,
        PAUSE,
        RESUME,
        STOP_ASKING,
        SET_ASIDE,
        SEND,
        WITHDRAW,
        INTERRUPT,
        BRANCH,
        CLOSE,
        REMEMBER,
        CHILD_SPENT,
        ADMIT,
        EXCHANGE,
    }
)

QUOTA_USE: Final = "use"
"""The query of a tenant's ledger."""

# Queries of a run.

STATUS: Final = "status"
MEMORY: Final = "memory"
APPROVAL: Final = "approval"
TRANSCRIPT: Final = "transcript"
PLACE: Final = "place"
"""The query of the place that a run has in its tenant's quota, or for which it has asked."""

QUERIES: Final = frozenset({STATUS, MEMORY, APPROVAL, TRANSCRIPT, PLACE})

# Memos and search attributes of a run.

MESSAGE: Final = "message"
"""The beginning of the user's message."""
FORKED_FROM: Final = "forked_from"
"""In a fork: the id of the run that it was forked from."""
TENANT: Final = "tenant"
"""The tenant of the principal that started the run."""
STARTED_BY: Final = "started_by"
"""The subject of the principal that started the run."""
VISIBLE_TO: Final = "visible_to"
"""Marks of the principals who may see a run of the visibility `subject`."""
TIME_ZONE: Final = "time_zone"
"""The zone of `{scheduled_at}`, in what a schedule starts."""
STARTED_AT: Final = "started_at"
"""Start time of a run of several executions, in ISO 8601."""
TURN_ENDED: Final = "turn_ended"
"""The end of a conversation's last turn, if no plan answered it.

It has `turn_id`, and `error` or `output`. It also has the `message_ids` of the turn if its plan was cut off, and the
history does not show that plan.
"""
DENIED: Final = "denied_by_message"
"""The last message to a conversation that denied open approvals, as `message_id` and `await_ids`."""
DECIDED: Final = "decided"
"""The last decision that the run took after a worker had judged it, as the key of that task."""
IN_DOUBT: Final = "in_doubt"
"""A run was canceled while a call might have taken effect."""

MEMOS: Final = frozenset(
    {
        MESSAGE,
        FORKED_FROM,
        TENANT,
        STARTED_BY,
        VISIBLE_TO,
        TIME_ZONE,
        STARTED_AT,
        TURN_ENDED,
        DENIED,
        DECIDED,
        IN_DOUBT,
    }
)

SEARCH_ATTRIBUTES: Final = {
    "SojournAgent": "Keyword",
    "SojournSession": "Keyword",
    "SojournAwaiting": "Keyword",
    "SojournForkOf": "Keyword",
    "SojournTenant": "Keyword",
    "SojournVisibleTo": "KeywordList",
    "SojournGaveUp": "Keyword",
}
"""The type of each search attribute, by name."""

# Changes of the workflow's code: the ids of patches, which are markers of a history.

PATCHES: Final = {
    "answers-bounded-together": 1,
    "answers-counted": 5,
    "answers-in-turn": 1,
    "answers-off-clock": 5,
    "approval-checked": 1,
    "approvals-checked-by-activity": 2,
    "asked-again": 1,
    "cancel-before-continuing": 1,
    "cancel-wins": 1,
    "checks-need-room": 1,
    "continues": 1,
    "continues-at-3000": 1,
    "continues-in-proportion": 3,
    "decided-in-time": 5,
    "decisions-in-order": 5,
    "early-decisions-judged": 5,
    "error-tells-doubt": 4,
    "every-approval-checked": 4,
    "figures-by-hand": 1,
    "gave-up-listed": 5,
    "history-limit": 1,
    "interrupted-plan-stays": 1,
    "large-inputs-in-turn": 1,
    "message-answers": 5,
    "message-denies": 5,
    "overtime-asks-nobody": 1,
    "released-as-seen": 4,
    "released-as-shown": 1,
    "safeguards-2": 1,
    "safeguards-3": 5,
    "safeguards-4": 5,
    "tell-what-was-spent": 1,
    "told-again": 1,
    "transcript-stored": 1,
    "unknown-stays-unknown": 4,
    "yields-by-activity": 1,
}
"""The version of the workflow that has a change without a marker, by the change's id.

See `workflows/current_state.py`.
"""

MARKERS: Final = ("by-hand-", "opening-rules", "transcript-read", "unlisted-", "unread-")
"""The ids, or their prefixes, of patches that record something else.

Such as a refusal, or a feature that a namespace lacks.
"""
