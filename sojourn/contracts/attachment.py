"""What a history keeps of a file of a message, and what a tool gets."""

import hashlib
import re
from collections.abc import AsyncIterable, AsyncIterator, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path, PurePosixPath
from typing import Any, Protocol, Self
from urllib.parse import quote, unquote

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, NonNegativeInt, PositiveInt
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from sojourn.contracts.record import Declaration, Record

__all__ = [
    "ATTACHMENT_ID",
    "ATTACHMENT_PATTERN",
    "MAX_ATTACHMENTS",
    "MAX_ATTACHMENT_BYTES",
    "PICTURE_TYPES",
    "Attachment",
    "AttachmentLimits",
    "AttachmentRecord",
    "AttachmentSource",
    "AttachmentStore",
    "FileContent",
    "attachment_fault",
    "attachment_id",
    "attachment_path",
    "file_name",
    "media_type_of",
    "offering_attachments",
    "parse_attachment_path",
]

MAX_ATTACHMENT_BYTES = 25_000_000
"""Largest file, unless a setting says otherwise."""

MAX_ATTACHMENTS = 20
"""Most files of one message."""

PICTURE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Pictures that models read and every browser shows."""

ATTACHMENT_PATTERN = "^att_[0-9a-f]{16}([0-9a-f]{16})?$"
"""The rule for ids, in JSON Schema. A tool whose payload has it takes attachments.

An id has 128 bits, so that no sender can make two files with one id: the approval of one would be that of the other.
Ids of older histories have the first 64.
"""

ATTACHMENT_ID = re.compile(r"att_[0-9a-f]{16}(?:[0-9a-f]{16})?\Z")

UNKNOWN_TYPE = "application/octet-stream"

_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,100}\Z")
_MAX_NAME = 200
_MAX_SUFFIX = 20
_MAX_CLAIM = 4_000
_MAX_LISTED = 5


class AttachmentRecord(Record):
    """A file in external storage, and the claim that finds it there."""

    id: str
    """Derived from name, type and content, so that the same file has the same id in every message."""
    name: str
    """The file's name without a path; it comes from outside, and may deceive."""
    media_type: str
    """The MIME type, as its sender states it."""
    size: int
    """Size in bytes."""
    sha256: str
    """SHA-256 of the content, in hexadecimal."""
    claim: dict[str, str] = {}
    """The reference into external storage, bound to one run; empty for readers over HTTP."""
    tainted: bool = False
    """Whether it may hold text from outside: a tool that reads such text made it, or a run that had read some."""


class AttachmentLimits(Declaration):
    """Bounds of the files that a service or a client accepts."""

    max_bytes: PositiveInt = MAX_ATTACHMENT_BYTES
    """The largest file."""
    max_count: NonNegativeInt = MAX_ATTACHMENTS
    """The most files of one message, at most 20."""
    media_types: list[str] = []
    """The types that are accepted, such as `["image/*", "application/pdf"]`; empty for all."""

    def takes(self, media_type: str) -> bool:
        """Return whether a file of this type is accepted."""
        group = media_type.partition("/")[0]
        return not self.media_types or bool({media_type, f"{group}/*", "*/*"} & {*self.media_types})


def attachment_id(name: str, media_type: str, sha256: str) -> str:
    """Return the id of a file."""
    digest = hashlib.sha256(f"{name}\0{media_type}\0{sha256}".encode(errors="surrogatepass")).hexdigest()
    return f"att_{digest[:32]}"


def attachment_path(run_id: str, attachment_id: str) -> str:
    """Return the path of a file's content in the HTTP service."""
    return f"/v1/runs/{quote(run_id)}/attachments/{quote(attachment_id, safe='')}"


def parse_attachment_path(url: str) -> tuple[str, str] | None:
    """Return the run and the id of the file that a URL or a path names, or None."""
    head, _, attachment_id = url.rpartition("/attachments/")
    _, _, run_id = head.partition("/v1/runs/")  # a pattern would take time in the square of a client's text
    is_one = run_id and "?" not in run_id and "#" not in run_id and ATTACHMENT_ID.match(attachment_id)
    return (unquote(run_id), attachment_id) if is_one else None


def file_name(given: str) -> str:
    """Return a file's name without a path, at most 200 characters with its suffix.

    It has no characters that a header or a terminal would obey. A name that this function returned is returned unchanged.
    """
    last = PurePosixPath(given.replace("\\", "/")).name
    kept = "".join(sign for sign in last if sign.isprintable() and sign not in '"<>|:*?').strip(" .")
    if len(kept) > _MAX_NAME:
        _, dot, suffix = kept[-_MAX_SUFFIX:].rpartition(".")
        kept = (kept[: _MAX_NAME - len(dot + suffix)] + dot + suffix if dot else kept[:_MAX_NAME]).strip(" .")
    return kept or "file"


def media_type_of(given: str) -> str:
    """Return a media type without parameters, or that of unknown bytes if it is none."""
    bare = given.partition(";")[0].strip().lower()
    return bare if _MEDIA_TYPE.match(bare) else UNKNOWN_TYPE


def attachment_fault(attachment: AttachmentRecord) -> str | None:
    """Return why a program outside cannot send this attachment, or None."""
    if not ATTACHMENT_ID.match(attachment.id):
        return "the id of an attachment is `att_` and 32 hexadecimal digits"
    if attachment.name != file_name(attachment.name):
        return "the name of an attachment is that of a file, without a path"
    if attachment.media_type != media_type_of(attachment.media_type):
        return "the media type of an attachment is as `image/png`"
    if attachment.size < 0 or len(attachment.sha256) != 64:
        return "an attachment has the size and the SHA-256 of its file"
    if sum(map(len, (*attachment.claim, *attachment.claim.values()))) > _MAX_CLAIM:
        return "the claim of an attachment is too long"
    return None


class AttachmentSource(Protocol):
    """Reads the files of one run."""

    def chunks(self, attachment: AttachmentRecord) -> AsyncIterator[bytes]: ...

    def read_blocking(self, attachment: AttachmentRecord) -> bytes: ...


FileContent = bytes | bytearray | memoryview | Path | Iterable[bytes] | AsyncIterable[bytes]
"""The content of a file: its bytes, its path, or pieces of it."""


class AttachmentStore(Protocol):
    """Stores the files that a call makes."""

    async def attach(self, name: str, media_type: str, content: FileContent) -> "Attachment": ...

    def attach_blocking(self, name: str, media_type: str, content: FileContent) -> "Attachment": ...


_offered: ContextVar["Mapping[str, Attachment] | None"] = ContextVar(
    "sojourn_offered_attachments", default=None
)


class Attachment(str):
    """A file of the run or conversation, as a tool and a flow get it.

    As a text it is its id. A parameter of this type is an id for the model. An id that the conversation does not have is refused before the tool
    runs, with the list of those that it has.
    """

    __slots__ = ("_source", "record")

    record: AttachmentRecord
    """What the history keeps of the file."""

    def __new__(cls, record: AttachmentRecord, source: AttachmentSource | None = None) -> Self:
        """Return the file with its id as text."""
        made = super().__new__(cls, record.id)
        made.record = record
        made._source = source
        return made

    @property
    def id(self) -> str:
        """The id, such as `att_3f1c0a9b7d2e4f5681c07d92e6a4b35f`."""
        return self.record.id

    @property
    def name(self) -> str:
        """The file's name without a path, which its sender chose."""
        return self.record.name

    @property
    def media_type(self) -> str:
        """The MIME type, as the sender stated it."""
        return self.record.media_type

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.record.size

    def chunks(self) -> AsyncIterator[bytes]:
        """Return the content in chunks of at most 1 MB, as it comes from storage.

        Raises:
            TypeError: The file is not read in a tool.
        """
        return self._readable.chunks(self.record)

    async def read(self) -> bytes:
        """Return the content. Raises as `chunks`."""
        return b"".join([chunk async for chunk in self.chunks()])

    def read_blocking(self) -> bytes:
        """Return the content, in a tool that is no coroutine. Raises as `chunks`."""
        return self._readable.read_blocking(self.record)

    @property
    def _readable(self) -> AttachmentSource:
        if self._source is None:
            raise TypeError("the content of an attachment is read in a tool; a flow passes it to one")
        return self._source

    def __repr__(self) -> str:
        return f"<Attachment {self.record.id} {self.record.name!r} {self.record.media_type}>"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate an id, which becomes the file where files are offered."""
        return core_schema.no_info_plain_validator_function(
            _offered_attachment, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the schema of an id."""
        return {
            "type": "string",
            "pattern": ATTACHMENT_PATTERN,
            "description": "The id of an attachment of the conversation, such as att_3f1c0a9b7d2e4f5681c07d92e6a4b35f.",
        }


@contextmanager
def offering_attachments(
    records: Sequence[AttachmentRecord], source: AttachmentSource | None = None
) -> Generator[Mapping[str, Attachment]]:
    """Let payloads be decoded that name one of these files."""
    offered = {record.id: Attachment(record, source) for record in records}
    token = _offered.set(offered)
    try:
        yield offered
    finally:
        _offered.reset(token)


def _offered_attachment(value: Any) -> Attachment:
    if isinstance(value, Attachment):
        return value
    if not isinstance(value, str) or not ATTACHMENT_ID.match(value):
        raise PydanticCustomError(
            "attachment_id", "the id of an attachment is as att_3f1c0a9b7d2e4f5681c07d92e6a4b35f"
        )
    offered = _offered.get()
    if offered is None:  # only the shape of a payload counts, as for an example
        return Attachment(AttachmentRecord(id=value, name="", media_type="", size=0, sha256=""))
    found = offered.get(value)
    if found is None:
        known = ", ".join(f"{each.id} ({each.name})" for each in list(offered.values())[-_MAX_LISTED:])
        raise PydanticCustomError(
            "no_attachment",
            "no attachment has this id; there is {known}",
            {"known": known or "none in this conversation"},
        )
    return found
