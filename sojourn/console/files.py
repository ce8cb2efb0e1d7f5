"""Files: the fields and files of a form that has files, as a browser encodes them (RFC 7578)."""

import re

from starlette.requests import Request

from sojourn.console.form import MAX_FIELDS, Form, form_of
from sojourn.console.views.attachments import File
from sojourn.http.problems import Problem
from sojourn.http.security.requests import header_values

__all__ = ["form_with_files"]

_BOUNDARY = re.compile(r'boundary=(?:"([^"]{1,200})"|([^\s;"]{1,200}))', re.IGNORECASE)
_NAME = re.compile(r'(?:^|;)\s*name="([^"]*)"', re.IGNORECASE)
_FILENAME = re.compile(r'(?:^|;)\s*filename="([^"]*)"', re.IGNORECASE)


async def form_with_files(request: Request) -> tuple[Form, list[File]]:
    """The form that a request sends, with its files; a file that was not chosen is none.

    Raises:
        Problem: It sends no form, or one that is not whole.
    """
    (given, *_) = [*header_values(request.scope, "content-type"), ""]
    if given.partition(";")[0].strip().lower() != "multipart/form-data":
        return await form_of(request), []
    boundary = _BOUNDARY.search(given)
    if boundary is None:
        raise _broken()
    fields: dict[str, list[str]] = {}
    files: list[File] = []
    parts = _parts(await request.body(), (boundary[1] or boundary[2]).encode("latin-1"))
    if len(parts) > MAX_FIELDS:
        raise _broken()
    for head, body in parts:
        disposition, media_type = head.get("content-disposition", ""), head.get("content-type", "")
        name, filename = _NAME.search(disposition), _FILENAME.search(disposition)
        if name is None:
            raise _broken()
        if filename is None:
            try:
                fields.setdefault(_plain(name[1]), []).append(body.decode("utf-8"))
            except UnicodeDecodeError as error:
                raise _broken() from error
        elif filename[1] or body:
            files.append(File(_plain(filename[1]), media_type, body))
    return Form(fields), files


def _parts(body: bytes, boundary: bytes) -> list[tuple[dict[str, str], bytes]]:
    """The parts of a body, each with its headers."""
    pieces = (b"\r\n" + body).split(b"\r\n--" + boundary)
    if len(pieces) < 2 or not pieces[-1].startswith(b"--"):
        raise _broken()
    found: list[tuple[dict[str, str], bytes]] = []
    for piece in pieces[1:-1]:
        head, separator, content = piece.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        if not separator:
            raise _broken()
        lines = (line.partition(":") for line in head.decode("utf-8", "replace").split("\r\n"))
        found.append(({name.strip().lower(): value.strip() for name, _, value in lines}, content))
    return found


def _plain(name: str) -> str:
    """A name as it was before the browser wrote it between quotes."""
    return name.replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n")


def _broken() -> Problem:
    return Problem(400, "bad_request", "the form is not whole", then="Send the form of the page again.")
