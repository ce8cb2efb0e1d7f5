"""Artifacts whose data are not in what a page has read.

For these it has the path of the artifact's page, and whether a page shows it at all.
"""

from dataclasses import dataclass

from sojourn.contracts.tool_result import Artifact

__all__ = ["MOST_SHOWN", "ArtifactPlace", "artifact_place"]

MOST_SHOWN = 2_100_000
"""Largest artifact that a page reads and shows, in bytes of JSON.

This leaves room for the largest picture that a page may have, and the JSON around it.
"""


@dataclass(frozen=True, slots=True)
class ArtifactPlace:
    """Location of an artifact."""

    run_id: str
    """The run that made it: the run of the page, or one of its child runs."""
    path: str
    """Path of its page."""
    is_shown: bool
    """Whether it is small enough for a page."""


def artifact_place(artifact: Artifact) -> ArtifactPlace | None:
    """Return an artifact's place, or None if its reference does not name one."""
    run_id, _, rest = artifact.ref.partition("#")
    call_id, _, kind = rest.partition("/")
    if not (run_id and call_id and kind):
        return None
    path = f"/runs/{run_id}/calls/{call_id}/artifacts/{kind}"
    return ArtifactPlace(run_id, path, artifact.size <= MOST_SHOWN)
