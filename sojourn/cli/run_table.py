"""List runs as a table that fits the screen, or as JSON.

Columns are left out if the screen is too narrow. A run's id is never cut or wrapped, so that the
user can copy it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, get_args

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sojourn.cli.failure import USAGE, CommandError
from sojourn.cli.screen.text import format_duration, local, plain
from sojourn.cli.screen.turn_lines import message_text

if TYPE_CHECKING:
    from sojourn.checks.workers import Stuck
    from sojourn.contracts.run import RunStatus
    from sojourn.reader import Turns

__all__ = ["PLAIN_WIDTH", "check_status", "duration_of", "run_table", "run_to_json"]

PLAIN_WIDTH = 1_000
"""Columns of an output that is not a terminal, so that nothing is cut or wrapped."""


def check_status(status: str | None) -> None:
    from sojourn.client.listing import StatusFilter

    known = get_args(StatusFilter)
    if status is not None and status not in known:
        raise CommandError(
            f"{plain(status)!r} is not a status; use one of {', '.join(known)}", exit_code=USAGE
        )


def run_to_json(run: "RunStatus", stuck: "Stuck | None" = None) -> dict[str, Any]:
    """Return the object that `--json` prints for a run, whose fields must not change."""
    duration = duration_of(run)
    fields: dict[str, Any] = {
        "run_id": run.run_id,
        "agent_id": run.agent_id,
        "session_id": run.session_id,
        "status": "stuck" if stuck else run.status,
        "awaiting": run.awaiting if run.closed_at is None else "",
        "gave_up": run.gave_up,
        "forked_from": {"run_id": run.forked_from.run_id} if run.forked_from else None,
        "started_at": _iso(run.started_at),
        "closed_at": _iso(run.closed_at),
        "duration_seconds": round(duration.total_seconds(), 3) if duration else None,
    }
    if stuck:
        fields["stuck"] = {**stuck, "since": _iso(stuck["since"])}
    return fields


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


LEAST_ABOUT = 20
"""Least width, in characters, of a column with wrapped or cut text.

The subject of a wait and the reason of a stuck run are wrapped. A message is cut.
"""

MAX_MESSAGE = 300
"""Most characters of a message."""

_GAP = 2
_GIVE_WAY = ("LAST", "FORK OF", "TOOK", "STARTED", "AGENT")
"""Columns to leave out if the screen is too narrow, in this order."""

_COLORS = {
    "waiting": "yellow",
    "paused": "yellow",
    "idle": "cyan",
    "completed": "green",
    "gave_up": "yellow",
    "canceled": "dim",
    "running": "cyan",
}


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    cells: Sequence[Text]
    wraps: bool = False
    is_cut: bool = False

    @property
    def width(self) -> int:
        longest = max(cell_len(text) for text in (self.title, *(cell.plain for cell in self.cells)))
        return min(longest, LEAST_ABOUT) if self.wraps or self.is_cut else longest


def duration_of(run: "RunStatus", now: datetime | None = None) -> timedelta | None:
    return (run.closed_at or now or datetime.now(UTC)) - run.started_at if run.started_at else None


def run_table(
    runs: "Sequence[RunStatus]",
    why: "Mapping[str, Stuck]",
    width: int,
    *,
    sessions: Sequence[str] = (),
    turns: "Sequence[Turns | None]" = (),
) -> RenderableType:
    """Return a table, with ids on lines of their own on a narrow screen."""
    ids, *others = _columns(runs, why)
    if turns:
        others = [each for each in others if each.title in ("AGENT", "STATUS")] + _turn_columns(turns)
    if sessions:
        ids = _Column("SESSION", [Text(name, no_wrap=True, overflow="ignore") for name in sessions])
        others = [each for each in others if each.title != "AGENT"]
    kept = others
    for gone in range(len(_GIVE_WAY) + 1):
        kept = [each for each in others if each.title not in _GIVE_WAY[:gone]]
        if sum(each.width + _GAP for each in kept) + ids.width <= width:
            return _draw([ids, *kept], range(len(runs)), width)
    for gone in range(len(_GIVE_WAY) + 1):
        kept = [each for each in others if each.title not in _GIVE_WAY[:gone]]
        if sum(each.width + _GAP for each in kept) <= width or gone == len(_GIVE_WAY):
            break
    return Group(
        *(
            part
            for row, name in enumerate(ids.cells)
            for part in (name, Padding(_draw(kept, [row], width - _GAP, heads=False), (0, 0, 0, _GAP)))
        )
    )


def _columns(runs: "Sequence[RunStatus]", why: "Mapping[str, Stuck]") -> list[_Column]:
    return [
        _Column("RUN", [Text(plain(run.run_id, 400), no_wrap=True, overflow="ignore") for run in runs]),
        _Column("AGENT", [Text(plain(run.agent_id)) for run in runs]),
        _Column("STATUS", [_status(run, is_stuck=run.run_id in why) for run in runs]),
        _Column(
            "STUCK BECAUSE" if why else "WAITS FOR",
            [Text(_about(run, why.get(run.run_id))) for run in runs],
            wraps=True,
        ),
        *([_Column("FORK OF", [Text(_origin(run)) for run in runs])] if any(map(_origin, runs)) else []),
        _Column("STARTED", [Text(local(run.started_at)) for run in runs]),
        _Column("TOOK", [Text(format_duration(duration_of(run))) for run in runs]),
    ]


def _origin(run: "RunStatus") -> str:
    return plain(run.forked_from.run_id, 300) if run.forked_from else ""


def _status(run: "RunStatus", *, is_stuck: bool) -> Text:
    status = "stuck" if is_stuck else "gave_up" if run.gave_up else run.status
    return Text(plain(status).replace("_", " "), _COLORS.get(status, "red"))


def _about(run: "RunStatus", stuck: "Stuck | None") -> str:
    if not stuck:
        return plain(run.awaiting) if run.closed_at is None else ""
    since = f" since {local(stuck['since'])}" if stuck["since"] else ""
    reason = plain(stuck["reason"] or "the history does not say", 300)
    return f"attempt {stuck['attempt']}{since}: {reason} → {plain(stuck['next'], 500)}"


def _turn_columns(turns: "Sequence[Turns | None]") -> list[_Column]:
    lasts = [each.last if each else None for each in turns]
    return [
        _Column("TURNS", [Text(f"{each.ended:,}" if each else "") for each in turns]),
        _Column("LAST", [Text(local(last.time) if last else "") for last in lasts]),
        _Column(
            "MESSAGE",
            [Text(plain(message_text(last.message), MAX_MESSAGE) if last else "") for last in lasts],
            is_cut=True,
        ),
    ]


def _draw(columns: Sequence[_Column], rows: Sequence[int], width: int, *, heads: bool = True) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=heads, padding=(0, _GAP, 0, 0))
    for column in columns:
        if column.wraps:
            table.add_column(column.title, overflow="fold", min_width=column.width)
        else:
            table.add_column(column.title, no_wrap=True, min_width=column.width)
    room = width - sum(column.width + _GAP for column in columns if not column.is_cut)
    for row in rows:
        for column in columns:
            if column.is_cut:
                column.cells[row].truncate(max(room, 1), overflow="ellipsis")
        table.add_row(*(column.cells[row] for column in columns))
    return table
