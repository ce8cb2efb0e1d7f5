"""Find the row with an id, or fail with similar ids."""

import sqlite3
from difflib import get_close_matches
from typing import Any

from sojourn import FieldIssue, RetryHint, ToolFailed

__all__ = ["require"]

_TABLES = {"site_id": "sites", "device_id": "devices", "runbook_id": "runbooks"}


def require(connection: sqlite3.Connection, field: str, value: str, *, tool: str) -> dict[str, Any]:
    """Return the row with the value of an id.

    Args:
        connection: The database.
        field: The name of the id: `site_id`, `device_id` or `runbook_id`.
        value: The id.
        tool: The id of the tool that failed, for the hint.

    Raises:
        ToolFailed: There is no such row; the hint has similar ids.
    """
    table = _TABLES[field]
    row = connection.execute(f"SELECT * FROM {table} WHERE {field} = ?", (value,)).fetchone()  # noqa: S608 - from a constant
    if row is not None:
        return dict(row)
    known = [key for (key,) in connection.execute(f"SELECT {field} FROM {table} ORDER BY rowid")]  # noqa: S608
    close = get_close_matches(value, known, n=3, cutoff=0.5)
    noun = field.removesuffix("_id")
    raise ToolFailed(
        f"there is no {noun} {value}",
        code="not_found",
        hint=RetryHint(
            reason="invalid_arguments",
            tool=tool,
            restrict_to_tool=True,
            issues=[FieldIssue(field=f"/{field}", constraint="not_found", allowed=list(close) or None)],
            clarifying_question=f"There is no {noun} {value}. Which {noun} do you mean?",
            message=f"{field} {value} does not exist" + (f"; close: {', '.join(close)}" if close else ""),
        ),
    )
