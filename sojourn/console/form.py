"""The fields and files of a form, and the message that it sends."""

import base64
import re
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request

from sojourn.client.listing import parse_labels
from sojourn.contracts.message import DocumentPart, ImagePart, Message, Part, TextPart
from sojourn.http.problems import Problem

__all__ = [
    "MOST_BYTES",
    "File",
    "Form",
    "attachments_of",
    "form_of",
    "form_with_files",
    "labels_in",
    "message_in",
    "part_of",
]

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Pictures that models read and every browser shows."""

MOST_BYTES = 180_000
"""Most bytes of all files of a message together.

A message has at most 256 KB as JSON, where files are a third larger.
"""

_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*\Z")
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,100}\Z")


@dataclass(frozen=True, slots=True)
class Attachment:
    title: str
    media_type: str
    size: int
    """Size in bytes. 0 if only a URL is known."""
    picture: str = ""
    """A data URL of a picture that a page may show."""


@dataclass(frozen=True, slots=True)
class File:
    name: str
    media_type: str
    body: bytes


def attachments_of(message: Message) -> list[Attachment]:
    found: list[Attachment] = []
    for part in message.parts:
        if isinstance(part, ImagePart | DocumentPart):
            data, is_document = part.data or "", isinstance(part, DocumentPart)
            title = (part.title if isinstance(part, DocumentPart) else None) or part.url or ""
            is_shown = not is_document and part.media_type in PICTURES and _BASE64.match(data)
            picture = f"data:{part.media_type};base64,{data}" if data and is_shown else ""
            found.append(Attachment(title, part.media_type, len(data) * 3 // 4, picture))
    return found


def part_of(file: File) -> Part:
    """Return a file as a part of a message.

    A picture that models read becomes an image, anything else a document.
    """
    given = file.media_type.partition(";")[0].strip().lower()
    media_type = given if _MEDIA_TYPE.match(given) else "application/octet-stream"
    data = base64.b64encode(file.body).decode()
    if media_type in PICTURES:
        return ImagePart(type="image", media_type=media_type, data=data)
    return DocumentPart(type="document", media_type=media_type, data=data, title=file.name[:200] or None)


MAX_FIELDS = 1_000
"""Most fields of a form, and most files."""

MAX_FIELD_BYTES = 2_000_000
"""Most bytes of one field. The size of the whole body is checked before."""


class Form:
    def __init__(self, fields: dict[str, list[str]]) -> None:
        self._fields = fields

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def text(self, name: str) -> str:
        """Return the text of a field with line feeds alone, empty if it was not sent."""
        return self._fields.get(name, [""])[-1].replace("\r\n", "\n")

    def texts(self, name: str) -> list[str]:
        return [each.replace("\r\n", "\n") for each in self._fields.get(name, [])]

    def names(self) -> list[str]:
        return list(self._fields)


async def form_of(request: Request) -> Form:
    """Return the form that a request sends, which has no files.

    Raises:
        Problem: It sends no form, or one that is not text in UTF-8 (400).
    """
    if _media_type(request) != "application/x-www-form-urlencoded":
        raise Problem(400, "bad_request", "this path expects a form", then="Submit the form of the page.")
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
    broken = Problem(400, "bad_request", "the form is incomplete", then="Submit the form again.")
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
                    fields.setdefault(_unquote(name), []).append(value)
                elif (body := await value.read()) or value.filename:
                    files.append(File(_unquote(value.filename or ""), value.content_type or "", body))
    except HTTPException as error:
        raise broken from error
    return Form(fields), files


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _unquote(name: str) -> str:
    return name.replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n")


def message_in(form: Form, files: list[File]) -> str | Message:
    """Return the message of a form's field `text`, with its files.

    Raises:
        Problem: There is nothing in it, or the files are too large.
    """
    text = form.text("text")
    if sum(len(file.body) for file in files) > MOST_BYTES:
        raise Problem(
            413,
            "too_large",
            f"the files have more than {MOST_BYTES // 1000} kB together",
            then="Attach smaller files, or send links to them.",
        )
    if not text.strip() and not files:
        raise Problem(422, "invalid_input", "the message is empty", then="Write a message and send again.")
    if not files:
        return text
    texts = [TextPart(type="text", text=text)] if text.strip() else []
    return Message(role="user", parts=[*texts, *(part_of(file) for file in files)])


def labels_in(form: Form) -> dict[str, str]:
    """Return the labels of a form's field `labels`. Raises as `parse_labels`.

    The field has one `name=value` per line, or several between commas.
    """
    given = form.text("labels").replace(",", "\n").split("\n")
    return parse_labels([each.strip() for each in given if each.strip()])
