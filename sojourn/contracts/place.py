"""Place: the file and line of an author's own code where an exception came from, never those of a library or of Sojourn."""

import types
from pathlib import PurePath
from types import FrameType

from sojourn.contracts import raised

__all__ = ["place_of"]

MAX_NAME = 100
"""Longest name of a file, in characters."""

_OURS = ("sojourn", "activities", "workflows")
_LIBRARIES = {"site-packages", "dist-packages"}
_STANDARD = PurePath(types.__file__).parent


def place_of(error: BaseException) -> str | None:
    """Return the innermost line of the author's own code in a traceback, as `desk.py:41`.

    None where the traceback has no such line, and for errors of Sojourn and Temporal: they are sentences for people.
    """
    if any(root in ("sojourn", "temporalio") for root in raised.roots(error)):
        return None
    place, step = None, raised.trace(error)
    while step is not None:
        if _is_authors(step.tb_frame):
            place = f"{PurePath(step.tb_frame.f_code.co_filename).name[-MAX_NAME:]}:{step.tb_lineno}"
        step = step.tb_next
    return place and place.encode("utf-8", "replace").decode()


def _is_authors(frame: FrameType) -> bool:
    file, module = PurePath(frame.f_code.co_filename), frame.f_globals.get("__name__")
    if file.name.startswith("<") or _LIBRARIES.intersection(file.parts) or file.is_relative_to(_STANDARD):
        return False
    return not raised.is_a(module, str) or raised.copied(module).partition(".")[0] not in _OURS
