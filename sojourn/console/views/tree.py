"""What changes in the tree of an open page, whose calls fold as they end."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sojourn.timeline import CallFold, Row

__all__ = ["OpenTree", "TreeChange", "TreeChanges"]


class TreeChange(NamedTuple):
    at: str
    """The key of the row that it replaces. Empty for a row at the end."""
    row: Row


@dataclass(frozen=True, slots=True)
class TreeChanges:
    rows: list[TreeChange]
    gone: list[str]
    """Keys of rows to remove, which are in a fold now."""
    grown: list[str]
    """Keys of folds that have changed, to read again where they are open."""

    @property
    def added(self) -> int:
        return sum(not change.at for change in self.rows)


@dataclass(slots=True)
class OpenTree:
    """What an open page is known to have."""

    _folds: dict[str, str] | None = None
    """By the key of an entry without a row of its own, that of its fold. None before the first news."""

    def changes(self, rows: Sequence[Row], seen: int, *, dropped: int) -> TreeChanges | None:
        """Return what is new in the rows since a version.

        None if the page needs all rows.

        Args:
            rows: The rows as they are now.
            seen: The version that the page has.
            dropped: Entries that the timeline no longer has.
        """
        folds = [row for row in rows if isinstance(row, CallFold)]
        before, self._folds = (
            self._folds,
            {entry.key: fold.key for fold in folds for entry in fold.entries[1:]},
        )
        known = before or {}
        # The timeline drops its oldest entries. The first fold shrinks, and its last calls stand by themselves again.
        shrunk, at = (rows[0], known.get(rows[0].key)) if rows else (None, None)
        is_gone = at is not None and not isinstance(shrunk, CallFold)
        if seen < 0 or is_gone or (dropped and before is None):
            return None
        changed = [row for row in rows if row.version > seen or (at and row is shrunk)]
        grown = [fold for fold in folds if fold.version > seen]
        gone = [entry.key for fold in grown for entry in fold.entries[1:] if entry.born <= seen]
        return TreeChanges(
            [TreeChange(_place(row, seen, at if row is shrunk else None), row) for row in changed],
            [key for key in gone if key not in known],
            [fold.key for fold in grown],
        )


def _place(row: Row, seen: int, at: str | None) -> str:
    return "" if row.born > seen else at or row.key
