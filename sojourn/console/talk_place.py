"""Path and query of a conversation's page."""

__all__ = ["talk_place"]

_FOLDED = frozenset({"", ".", ".."})
"""Segments of a path that browsers and proxies remove, encoded or not.

The rest is the path of another page.
"""


def talk_place(agent_id: str, session_id: str) -> tuple[str, dict[str, str]]:
    """Return the path of a conversation's page, and its query.

    The query has the session if a path would not preserve it.
    """
    if _FOLDED.isdisjoint(session_id.split("/")):
        return f"/talk/{agent_id}/{session_id}", {}
    return f"/talk/{agent_id}", {"session": session_id}
