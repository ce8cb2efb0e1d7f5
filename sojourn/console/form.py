"""The fields and files of a page's form, as a browser encodes them."""

from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request

from sojourn.console.views.attachments import File
from sojourn.http.problems import Problem

__all__ = ["Form", "form_of", "form_with_files"]

MAX_FIELDS = 1_000
"""Most fields of a form, and most files."""

MAX_FIELD_BYTES = 2_000_000
"""Most bytes of one field. The size of the whole body is checked before."""


class Form:
    """The fields of a form.

    Args:
        fields: By name, the values in their order.
    """

    def __init__(self, fields: dict[str, list[str]]) -> None:
        self._fields = fields

    def __contains__(self, name: object) -> bool:
        """Check whether a field was sent, also an empty one."""
        return name in self._fields

    def text(self, name: str) -> str:
        """Return the text of a field with line feeds alone, empty if it was not sent."""
        return self._fields.get(name, [""])[-1].replace("\r\n", "\n")

    def texts(self, name: str) -> list[str]:
        """Return the texts of all fields of a name."""
        return [each.replace("\r\n", "\n") for each in self._fields.get(name, [])]

    def names(self) -> list[str]:
        """Return the names of the fields."""
        return list(self._fields)


async def form_of(request: Request) -> Form:
    """Return the form that a request sends, which has no files.

    Raises:
        Problem: It sends no form, or one that is not text in UTF-8 (400).
    """
    if _media_type(request) != "application/x-www-form-urlencoded":
        raise Problem(400, "bad_request", "this path takes a form", then="Send the form of the page.")
    try:
        text = (await request.body()).decode("utf-8")  # Starlette's parser replaces invalid UTF-8
        return Form(parse_qs(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"))
    except ValueError as error:
        raise Problem(
            400, "bad_request", "the form is not text in UTF-8, or has too many fields", then="Send less."
        ) from error


async def form_with_files(request: Request) -> tuple[Form, list[File]]:
    """Return the form that a request sends, with its files (RFC 7578).

    A file field without a chosen file is left out.

    Raises:
        Problem: The request has no form, or an incomplete one (400).
    """
    if _media_type(request) != "multipart/form-data":
        return await form_of(request), []
    broken = Problem(400, "bad_request", "the form is not whole", then="Send the form of the page again.")
    if not (await request.body()).rstrip(b"\r\n").endswith(b"--"):
        raise broken  # Starlette's parser accepts a truncated form
    fields: dict[str, list[str]] = {}
    files: list[File] = []
    try:
        async with request.form(
            max_files=MAX_FIELDS, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES
        ) as sent:
            for name, value in sent.multi_items():
                if isinstance(value, str):
                    fields.setdefault(_unquoted(name), []).append(value)
                elif (body := await value.read()) or value.filename:
                    files.append(File(_unquoted(value.filename or ""), value.content_type or "", body))
    except HTTPException as error:
        raise broken from error
    return Form(fields), files


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _unquoted(name: str) -> str:
    """Undo the browser's escaping of a quoted name (HTML, multipart/form-data)."""
    return name.replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n")
