"""Accept the id of a session as a single segment of a path.

Otherwise a misspelt path below a session would be the id of another one.
"""

from typing import Annotated

from fastapi import Depends, Path, Request

from sojourn.http.problems import Problem

__all__ = ["SessionId"]

PREFIX = "/v1/sessions/"
"""Prefix of the paths of sessions, perhaps after the prefix of a mounted application."""


def _in_one_segment(
    request: Request, session_id: Annotated[str, Path(examples=["desk-1"], max_length=200)]
) -> str:
    """Return the id if it is a single segment of the path as sent.

    In the decoded path, a `%2F` has become a `/` too.

    Raises:
        Problem: The path has more segments than its route, or fewer (404).
    """
    sent = bytes(request.scope.get("raw_path") or request.scope["path"].encode()).partition(b"?")[0]
    route = str(request.scope["route"].path)
    if sent.partition(PREFIX.encode())[2].count(b"/") != route.partition(PREFIX)[2].count("/"):
        raise Problem(
            404,
            "not_found",
            "there is no such path below a session",
            then="The paths are in the OpenAPI document, at /openapi.json. A / of a session's id is written %2F.",
        )
    return session_id


SessionId = Annotated[str, Depends(_in_one_segment)]
"""The parameter of a route that takes a session's id."""
