"""Health in a line, and the stuck runs, each with its fix.

The line says what needs a person's attention.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sojourn.checks import Check
from sojourn.checks.stuck import mend_of
from sojourn.client.stuck import Stuck
from sojourn.reader import ListedRun
from sojourn.values.text import counted
from sojourn.values.visible import one_line

__all__ = ["Health", "StuckRow", "health_of", "parted", "stuck_rows"]

MOST = 100
"""Most stuck runs that are listed."""

_KINDS = {
    "task": "Its workflow task fails again and again.",
    "planner": "Its planner fails again and again.",
    "blocked": "A call blocks its worker, which then serves nobody.",
    "unserved": "No worker serves it.",
}


@dataclass(frozen=True, slots=True)
class Health:
    """Summary of all checks in one line."""

    is_well: bool
    title: str
    wrong: Sequence[str]
    """Names of the failed checks, as links to them."""


@dataclass(frozen=True, slots=True)
class StuckRow:
    """A run that is stuck."""

    run_id: str
    agent_id: str
    asked: str
    what: str
    reason: str
    attempt: int
    since: datetime | None
    advice: str
    """Advice in words. Empty if the command is enough."""
    command: str
    """The command that repairs the run. Empty if there is none."""


def health_of(groups: Mapping[str, Sequence[Check]], stuck: int, fault: str) -> Health:
    """Return the summary of the checks.

    Args:
        groups: The checks.
        stuck: Number of stuck runs.
        fault: Why the runs could not be read. Empty if they were read.
    """
    wrong = [check.name for checks in groups.values() for check in checks if check.ok is False]
    parts = [
        *([f"{counted(len(wrong), 'check')} failed"] if wrong else []),
        *([f"{counted(stuck, 'run')} {'is' if stuck == 1 else 'are'} stuck"] if stuck else []),
        *(["the runs cannot be read"] if fault else []),
    ]
    return Health(not parts, one_line("; ".join(parts)).capitalize() if parts else "All is well", wrong)


def stuck_rows(runs: Sequence[ListedRun], reasons: Mapping[str, Stuck]) -> list[StuckRow]:
    """Return the stuck runs, the longest stuck first.

    Args:
        runs: The runs that were checked.
        reasons: Reasons of the stuck runs, by run id.
    """
    rows: list[StuckRow] = []
    for run in runs:
        why = reasons.get(run.run_id)
        if why is None:
            continue
        advice, command = parted(mend_of(run.run_id, why))
        rows.append(
            StuckRow(
                run.run_id,
                run.agent_id,
                one_line(run.asked, 160),
                _KINDS[why.kind],
                why.reason,
                why.attempt,
                why.since,
                advice,
                command,
            )
        )
    rows.sort(key=lambda row: row.since.timestamp() if row.since else 0.0)
    return rows[:MOST]


_COMMANDS = ("sojourn ", "temporal ", "pip ")


def parted(mend: str) -> tuple[str, str]:
    """Split an advice into its words and the command at its end."""
    for word in _COMMANDS:
        if mend.startswith(word):
            return "", mend
        before, colon, command = mend.partition(f": {word}")
        if colon:
            return f"{before}:", word + command
    return mend, ""
