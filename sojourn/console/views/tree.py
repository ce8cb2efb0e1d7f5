"""What changes in the tree of an open page, whose calls fold as they end."""

from collections.abc import Sequence
from dataclasses import dataclass, field
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

    _folded: set[str] = field(default_factory=set[str])
    """Keys of entries that have no row of their own."""
    _first: str = ""
    """Key of the first row, if that is a fold: it changes as the timeline drops its oldest entries."""

    def changes(self, rows: Sequence[Row], seen: int, *, dropped: int) -> TreeChanges | None:
        """Return what is new in the rows since a version.

        None if the page needs all rows.

        Args:
            rows: The rows as they are now.
            seen: The version that the page has.
            dropped: Entries that the timeline no longer has.
        """
        before, self._first = self._first, rows[0].key if rows and isinstance(rows[0], CallFold) else ""
        if seen < 0 or (self._first and not before and dropped):
            return None
        changed = [row for row in rows if row.version > seen]
        folds = [row for row in changed if isinstance(row, CallFold)]
        gone = [entry.key for fold in folds for entry in fold.entries[1:] if entry.born <= seen]
        new = [key for key in gone if key not in self._folded]
        self._folded.update(entry.key for fold in folds for entry in fold.entries)
        return TreeChanges(
            [TreeChange(self._place(row, seen, before), row) for row in changed],
            new,
            [fold.key for fold in folds],
        )

    def _place(self, row: Row, seen: int, before: str) -> str:
        if row.born > seen:
            return ""
        return before if before and row.key == self._first else row.key
