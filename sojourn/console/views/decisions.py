"""Rows of the decision log, for pages and as CSV.

A row says who answered what, when, and with which digest.
"""

import csv
import io
import json
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from sojourn.answers import wait_view
from sojourn.console.views.waits import KINDS, title_of
from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.event import AwaitAnsweredEvent
from sojourn.timeline import WaitEnd
from sojourn.values.visible import one_line

__all__ = ["COLUMNS", "DecisionRow", "csv_of", "decision_row"]

MAX_TEXT = 2_000
"""Longest answer or reason, in characters."""

MAX_ARGUMENTS = 10_000
"""Longest arguments, as JSON, in characters."""


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """A decision, with the fields for the filters."""

    at: datetime
    run_id: str
    agent_id: str
    await_id: str
    kind: str
    word: str
    """The kind in a word."""
    verdict: str
    """`Approved`, `Denied`, `Answered`, `Declined` or `Expired`."""
    by: str
    """The person's name in the answer. Over HTTP, the name of the principal."""
    identity: str
    """The identity of the client that answered, as Temporal records it."""
    tool: str
    title: str
    arguments: str
    """The arguments as JSON."""
    text: str
    """The answer, or the reason."""
    digest: str
    """Digest of the arguments."""
    asked: str
    """The request that opened the run."""
    asked_at: datetime | None
    call: AwaitConfirmation | None
    """The call that was decided on, without its arguments.

    None for another wait, or if the event that opened it is deleted.
    """
    answered: AwaitAnsweredEvent
    """The event that ended the wait, without the text."""

    @property
    def state(self) -> str:
        """Its shape and colour in a page."""
        return {
            "Approved": "completed",
            "Denied": "denied",
            "Declined": "denied",
            "Expired": "timed_out",
        }.get(self.verdict, "done")


def decision_row(decision: WaitEnd, agent_id: str, asked: str) -> DecisionRow:
    """Return the row of a decision.

    Args:
        decision: The decision.
        agent_id: The agent of its run.
        asked: The message that opened the run.
    """
    event, wait = decision.event, decision.wait
    view = wait and wait_view(wait, event.run_id)
    kind = view.kind if view else ""
    call = view.call if view else None
    return DecisionRow(
        at=decision.at,
        run_id=event.run_id,
        agent_id=agent_id,
        await_id=event.await_id,
        kind=kind,
        word=KINDS.get(kind, "Wait"),
        verdict=decision.verdict.replace("_", " ").capitalize(),
        by=event.by or "",
        identity=event.identity or "",
        tool=", ".join(view.tools) if view else "",
        title=title_of(view) if view else "",
        arguments=_json(call),
        text=(event.text or "")[:MAX_TEXT],
        digest=call.payload_digest if call else "",
        asked=one_line(asked, 200),
        asked_at=decision.opened and decision.opened.since,
        call=call and call.model_copy(update={"payload": {}, "prompt": "", "shown": None, "changes": []}),
        answered=event.model_copy(update={"text": None}),
    )


def _json(call: AwaitConfirmation | None) -> str:
    return "" if call is None else json.dumps(call.payload, ensure_ascii=False, default=str)[:MAX_ARGUMENTS]


COLUMNS = (
    "decided_at",
    "verdict",
    "by",
    "identity",
    "kind",
    "tool",
    "title",
    "arguments",
    "text",
    "digest",
    "asked_at",
    "agent_id",
    "run_id",
    "await_id",
    "run_asked",
)
"""The columns of the table."""

_FORMULA = ("=", "+", "-", "@", "\u2212")
"""Characters that begin a formula, compared without regard to their width."""

_BREAKS = ("\t", "\r", "\n", "\v", "\f")
"""Characters at the start of a text that a spreadsheet may read as a cell's end."""


def csv_of(decisions: Iterable[DecisionRow], *, with_head: bool = False) -> str:
    """Return decisions as CSV (RFC 4180).

    A text that a spreadsheet would take for a formula begins with an apostrophe there.

    Args:
        decisions: The decisions.
        with_head: Whether the names of the columns come first.
    """
    to = io.StringIO()
    writer = csv.writer(to, quoting=csv.QUOTE_ALL)
    if with_head:
        writer.writerow(COLUMNS)
    for each in decisions:
        asked_at = each.asked_at.astimezone(UTC).isoformat() if each.asked_at else ""
        texts = (
            each.at.astimezone(UTC).isoformat(),
            each.verdict.lower(),
            each.by,
            each.identity,
            each.kind,
            each.tool,
            each.title,
            each.arguments,
            each.text,
            each.digest,
            asked_at,
            each.agent_id,
            each.run_id,
            each.await_id,
            each.asked,
        )
        writer.writerow(map(_guarded, texts))
    return to.getvalue()


def _guarded(text: str) -> str:
    plain = text.replace("\0", "")
    return f"'{plain}" if plain.startswith(_BREAKS) or _is_formula(plain) else plain


def _is_formula(text: str) -> bool:
    """Check whether a spreadsheet may take a text for a formula.

    The first visible character decides.
    """
    for each in text:
        seen = unicodedata.normalize("NFKC", each).lstrip()
        if seen and unicodedata.category(each)[0] not in "CMZ":
            return seen.startswith(_FORMULA)
    return False
