"""Page of one artifact of a call.

An artifact in external storage, or made by a child run, is read only when a visitor opens the call.
"""

import re
from typing import Any

from starlette.responses import JSONResponse, Response

from sojourn.client.access import whole_artifact
from sojourn.console.page import Pages, Visit
from sojourn.console.routes.run import call_of, head_values
from sojourn.console.run_links import links_of
from sojourn.console.views.artifacts import artifact_place
from sojourn.console.views.values import MOST, line_of, shown_value
from sojourn.contracts.tool_result import Artifact
from sojourn.errors import ArtifactNotFound, SojournError
from sojourn.http.problems import problem_of
from sojourn.http.security.limits import heavy_read

__all__ = ["pages"]

pages = Pages()

WHOLE = 2_000_000
"""Most characters that the page of an artifact shows."""

_UNNAMED = re.compile(r"[^A-Za-z0-9_-]+")
"""Characters that the name of a downloaded file does not have."""

# A kind may be any word, such as `events`, so this path comes before those with a word at their end.


@pages.get("/runs/{run_id:path}/calls/{call_id}/artifacts/{kind:path}")
async def artifact(visit: Visit, run_id: str, call_id: str, kind: str) -> Response:
    """An artifact; with `as=json` its data, to be kept as a file."""
    run = await visit.service.run(visit.asking, run_id)
    watched = await visit.console.runs.look(run.id)
    call = await call_of(visit, watched, call_id, visit.query("at"))
    found = next((each for each in call.artifacts if each.kind == kind), None) if call else None
    if found is None:
        raise ArtifactNotFound(f"run {run.id} has no artifact {f'{call_id}/{kind}'[:200]!r}", run_id=run.id)
    place = artifact_place(found)
    if found.data is None and place and place.run_id != run.id:
        return visit.go(place.path, **{"as": visit.query("as")})
    if visit.query("as") == "json":
        async with heavy_read():
            whole = await _whole(visit, found, run.id)
        name = _UNNAMED.sub("_", kind)[:60]
        return JSONResponse(
            whole.data, headers={"Content-Disposition": f'attachment; filename="{name}.json"'}
        )
    if place and place.is_shown:
        try:
            found = await _whole(visit, found, run.id)
        except SojournError as error:
            if not visit.is_part:
                raise
            problem = problem_of(error)  # shown in place of the artifact
            return visit.page("problem_part.html", http_status=problem.status, problem=problem)
    head: dict[str, Any] = {}
    if not visit.is_part:
        head = head_values(watched, await links_of(visit.service, visit.asking, watched))
    return visit.page(
        "artifact_part.html" if visit.is_part else "artifact.html",
        **head,
        artifact=found,
        place=place,
        call=call,
        shown={"value": shown_value, "line": line_of},
        most=MOST if visit.is_part else WHOLE,
        tab="call",
    )


async def _whole(visit: Visit, found: Artifact, run_id: str) -> Artifact:
    client = visit.service.client
    return await whole_artifact(client.temporal, client.storage, found, run_id)
