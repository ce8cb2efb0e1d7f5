"""The fields and files of a form, and the message that it sends."""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import parse_qs

from starlette.datastructures import UploadFile
from starlette.requests import Request

from sojourn.attachments import Upload
from sojourn.attachments import part_of as stored_part
from sojourn.client.listing import parse_labels
from sojourn.contracts.attachment import PICTURE_TYPES, AttachmentRecord
from sojourn.contracts.message import DocumentPart, ImagePart, Message, Part, TextPart
from sojourn.contracts.principal import Principal
from sojourn.http.files import RefusedFile, read_files, store_upload
from sojourn.http.problems import Problem
from sojourn.http.security.requests import is_multipart
from sojourn.http.service import Service

__all__ = [
    "MOST_BYTES",
    "File",
    "Form",
    "attachments_of",
    "form_of",
    "form_with_files",
    "keep_form",
    "kept_form",
    "labels_in",
    "message_in",
    "most_bytes",
    "part_of",
    "split_uploads",
]

MOST_BYTES = 180_000
"""Most bytes of all files of a message together.

A message has at most 256 KB as JSON, where files are a third larger.
"""

_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*\Z")
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,100}\Z")


@dataclass(frozen=True, slots=True)
class AttachedFile:
    title: str
    media_type: str
    size: int
    """Size in bytes. 0 if only a URL is known."""
    picture: str = ""
    """A data URL of a picture that a page may show."""
    id: str = ""
    """The id of a file in external storage, for its download."""
    is_picture: bool = False
    """Whether a page may show the file in external storage."""


@dataclass(frozen=True, slots=True)
class File:
    name: str
    media_type: str
    body: bytes


def attachments_of(given: Message | Sequence[AttachmentRecord]) -> list[AttachedFile]:
    """Return the files of a message, or these, as a page shows them."""
    if not isinstance(given, Message):
        return [_stored(file) for file in given]
    found: list[AttachedFile] = []
    for part in given.parts:
        if isinstance(part, ImagePart | DocumentPart):
            if file := part.attachment:
                found.append(_stored(file))
                continue
            data, is_document = part.data or "", isinstance(part, DocumentPart)
            title = (part.title if isinstance(part, DocumentPart) else None) or part.url or ""
            is_shown = not is_document and part.media_type in PICTURE_TYPES and _BASE64.match(data)
            picture = f"data:{part.media_type};base64,{data}" if data and is_shown else ""
            found.append(AttachedFile(title, part.media_type, len(data) * 3 // 4, picture))
    return found


def _stored(file: AttachmentRecord) -> AttachedFile:
    is_picture = file.media_type in PICTURE_TYPES
    return AttachedFile(file.name, file.media_type, file.size, id=file.id, is_picture=is_picture)


def part_of(file: File | Upload) -> Part:
    """Return a file as a part of a message.

    A picture that models read becomes an image, anything else a document.
    """
    if isinstance(file, Upload):
        return stored_part(file.as_record())
    given = file.media_type.partition(";")[0].strip().lower()
    media_type = given if _MEDIA_TYPE.match(given) else "application/octet-stream"
    data = base64.b64encode(file.body).decode()
    if media_type in PICTURE_TYPES:
        return ImagePart(type="image", media_type=media_type, data=data)
    return DocumentPart(type="document", media_type=media_type, data=data, title=file.name[:200] or None)


MAX_FIELDS = 1_000
"""Most fields of a form."""

_ONCE = ("await_id", "branches", "made", "message_id")
"""Fields with ids from which a run, or the service, knows a form that was sent before."""


class Form:
    def __init__(self, fields: dict[str, list[str]], refusal: Problem | None = None) -> None:
        self._fields = fields
        self.refusal = refusal
        """Why a file of the form was refused. The page shows it beside what the fields say."""

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def text(self, name: str) -> str:
        """Return the text of a field with line feeds alone, empty if it was not sent."""
        return self._fields.get(name, [""])[-1].replace("\r\n", "\n")

    def number(self, name: str) -> int | None:
        """Return a field's whole number of at most five digits, or None."""
        text = self.text(name)
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else None

    def texts(self, name: str) -> list[str]:
        return [each.replace("\r\n", "\n") for each in self._fields.get(name, [])]

    @property
    def has_one_effect(self) -> bool:
        """Whether it may be sent twice, and from a page that shows only its message.

        An approval has one effect too, but a person approves only a call in view.
        """
        return "digest" not in self._fields and any(name in self._fields for name in _ONCE)

    def names(self) -> list[str]:
        return list(self._fields)

    def pairs(self) -> list[tuple[str, str]]:
        """Return each field's name and value, as a browser sends them."""
        return [(name, value) for name, values in self._fields.items() for value in values]


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


_READ = "sojourn.form"


def keep_form(request: Request, form: Form) -> Form:
    """Keep a form that was read, so that the page of a refusal can send it again."""
    request.scope[_READ] = form
    return form


def kept_form(request: Request) -> Form | None:
    return request.scope.get(_READ)


async def form_with_files(visit: "FormVisit") -> tuple[Form, list[File | Upload]]:
    """Return the form that a visitor sends, and its files (RFC 7578), stored.

    A form without files can be sent again from the page of a refusal.

    A file field without a chosen file is left out. Without external storage, files stay in memory.

    Raises:
        Problem: The request has no form, or an incomplete one (400).
    """
    request, service = visit.request, visit.service
    if not is_multipart(request.scope):
        return keep_form(request, await form_of(request)), []
    has_storage = service.client.storage is not None
    limits = service.app.attachment_limits
    if not has_storage:
        limits = limits.model_copy(update={"max_bytes": min(limits.max_bytes, MOST_BYTES)})
    try:
        given, files = await read_files(request, limits, reads_on=True)
    except RefusedFile as refused:
        return Form(_by_name(refused.fields), refused), []
    if not files:
        return keep_form(request, Form(_by_name(given))), []
    try:
        read = [await _read(visit, file, has_storage=has_storage) for file in files]
    finally:
        for file in files:
            await file.close()
    return Form(_by_name(given)), read


def _by_name(given: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for name, value in given:
        fields.setdefault(_unquote(name), []).append(value)
    return fields


async def _read(visit: "FormVisit", file: UploadFile, *, has_storage: bool) -> File | Upload:
    if has_storage:
        return await store_upload(visit.service, visit.asking, file)
    return File(_unquote(file.filename or ""), file.content_type or "", await file.read())


class FormVisit(Protocol):
    """What reading a form needs of a visit."""

    @property
    def request(self) -> Request: ...

    @property
    def service(self) -> Service: ...

    @property
    def asking(self) -> Principal: ...


def most_bytes(service: Service) -> int:
    """Return the most bytes of a file, or of all of a message if they stay in it."""
    most = service.app.attachment_limits.max_bytes
    return most if service.client.storage is not None else min(most, MOST_BYTES)


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _unquote(name: str) -> str:
    return name.replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n")


def message_in(form: Form, files: Sequence[File | Upload]) -> str | Message:
    """Return the message of a form's field `text`, with its files.

    Raises:
        Problem: There is nothing in it, or a file is refused.
    """
    text = form.text("text")
    if form.refusal:
        raise form.refusal
    if sum(len(file.body) for file in files if isinstance(file, File)) > MOST_BYTES:
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


def split_uploads(message: str | Message) -> tuple[str | Message, list[str]]:
    """Return a message without its uploads, and their references."""
    if isinstance(message, str) or not message.attachments:
        return message, []
    parts = [part for part in message.parts if getattr(part, "attachment", None) is None]
    references = [Upload(**dict(file)).reference for file in message.attachments]
    return message.model_copy(update={"parts": parts}), references


def labels_in(form: Form) -> dict[str, str]:
    """Return the labels of a form's field `labels`. Raises as `parse_labels`.

    The field has one `name=value` per line, or several between commas.
    """
    given = form.text("labels").replace(",", "\n").split("\n")
    return parse_labels([each.strip() for each in given if each.strip()])
