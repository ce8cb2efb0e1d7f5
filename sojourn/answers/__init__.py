"""Describe an open wait, name it by a token, and answer it.

`wait_view` makes the `WaitView` that every face renders, `WaitRef` binds an answer to its wait,
and `submit` sends an answer. It checks the role, and recognizes an answer that was sent before.
`decide_each` sends several decisions.
"""

from sojourn.answers.batch import DecisionResult, decide_each, send_each
from sojourn.answers.event_json import EVENT_SHAPES, event_line, parse_event
from sojourn.answers.submitting import (
    Answer,
    Answered,
    Decision,
    Declined,
    GivenAnswer,
    Results,
    audit_facts,
    check_answer,
    check_earlier,
    check_may_answer,
    find_closed_wait,
    find_earlier_answer,
    is_same_answer,
    status_once_judged,
    submit,
)
from sojourn.answers.texts import (
    NO_EDIT_HERE,
    Verdict,
    parse_answer,
    parse_decision,
    parse_payload,
    read_verdict,
)
from sojourn.answers.wait_view import (
    Asker,
    Disclosure,
    StatusView,
    WaitContext,
    WaitRef,
    WaitView,
    context_of,
    describe_taint,
    disclose,
    disclose_changes,
    open_waits,
    status_view,
    wait_view,
)
from sojourn.core.awaits.deciding import may_look

__all__ = [
    "EVENT_SHAPES",
    "NO_EDIT_HERE",
    "Answer",
    "Answered",
    "Asker",
    "Decision",
    "DecisionResult",
    "Declined",
    "Disclosure",
    "GivenAnswer",
    "Results",
    "StatusView",
    "Verdict",
    "WaitContext",
    "WaitRef",
    "WaitView",
    "audit_facts",
    "check_answer",
    "check_earlier",
    "check_may_answer",
    "context_of",
    "decide_each",
    "describe_taint",
    "disclose",
    "disclose_changes",
    "event_line",
    "find_closed_wait",
    "find_earlier_answer",
    "is_same_answer",
    "may_look",
    "open_waits",
    "parse_answer",
    "parse_decision",
    "parse_event",
    "parse_payload",
    "read_verdict",
    "send_each",
    "status_once_judged",
    "status_view",
    "submit",
    "wait_view",
]
