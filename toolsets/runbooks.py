"""Search and read runbooks, as the toolset `ops.runbooks`."""

import re
import sqlite3
from typing import Annotated

from pydantic import Field

from sojourn import Toolset
from toolsets.database import opened, require
from toolsets.shape import BoundedShape, Shape

__all__ = ["Runbook", "RunbookHit", "RunbookList", "get_runbook", "runbooks", "search_runbooks"]

runbooks = Toolset("ops.runbooks", description="What to do when something is wrong.")


class RunbookHit(Shape):
    """One runbook, in short."""

    runbook_id: str
    """The runbook, such as `rb-01`."""
    title: str
    """The case that it is for."""
    summary: str
    """How to recognize the case."""


class RunbookList(BoundedShape):
    """Runbooks, the best match first."""

    runbooks: list[RunbookHit]
    """The runbooks."""


class Runbook(RunbookHit):
    """A runbook with its steps."""

    steps: list[str]
    """What to do, in order."""


@runbooks.tool(
    title="Search runbooks",
    tags=["read"],
    bounded=True,
    read_only=True,
    examples=[{"query": "gateway battery flat"}],
)
def search_runbooks(
    query: Annotated[str, Field(description="Words that describe the case.", min_length=1, max_length=400)],
    limit: Annotated[int, Field(description="Runbooks to return at most.", ge=1, le=50)] = 3,
) -> RunbookList:
    """Find the runbooks that fit a description, the best match first."""
    words = list(dict.fromkeys(re.findall(r"\w{3,}", query.lower())))
    with opened() as connection:
        ids = _ranked(connection, words)
        hits = [require(connection, "runbook_id", id_, tool=search_runbooks.id) for id_ in ids[:limit]]
    truncated = len(ids) > limit
    return RunbookList(
        runbooks=[RunbookHit(**hit) for hit in hits],
        returned=len(hits),
        total=len(ids),
        truncated=truncated,
        refinement_hint="Use words that are rarer, or raise limit (at most 50)." if truncated else None,
    )


@runbooks.tool(title="Get a runbook", tags=["read"], read_only=True, examples=[{"runbook_id": "rb-01"}])
def get_runbook(
    runbook_id: Annotated[str, Field(description="The runbook, such as rb-01.", min_length=1, max_length=20)],
) -> Runbook:
    """Get a runbook with its steps."""
    with opened() as connection:
        row = require(connection, "runbook_id", runbook_id, tool=get_runbook.id)
    return Runbook(**{**row, "steps": row["steps"].splitlines()})


def _ranked(connection: sqlite3.Connection, words: list[str]) -> list[str]:
    """Return ids by relevance.

    By the full-text index if there is one, else by the number of words found.
    """
    if not words:
        return []
    indexed = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'runbooks_index'").fetchone()
    if indexed:
        rows = connection.execute(
            "SELECT runbook_id FROM runbooks_index WHERE runbooks_index MATCH ? ORDER BY bm25(runbooks_index, 0, 4, 2)",
            (" OR ".join(f'"{word}"' for word in words),),
        )
        return [runbook_id for (runbook_id,) in rows]
    scores = {
        row["runbook_id"]: sum(
            word in f"{row['title']} {row['summary']} {row['steps']}".lower() for word in words
        )
        for row in connection.execute("SELECT * FROM runbooks ORDER BY runbook_id")
    }
    return sorted((id_ for id_, score in scores.items() if score), key=lambda id_: -scores[id_])
