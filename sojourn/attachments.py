"""Keep the files of messages in external storage, in chunks.

A storage driver takes whole payloads. So a file is stored in chunks, and neither a worker nor the HTTP service
ever has more than one or two of them in memory. A manifest names the chunks, and whose the file is: an upload
belongs to a principal, and an attachment to a run. A claim in a message leads to a manifest and nothing else,
and only the run that the manifest names reads it. So a claim that a client makes up opens nothing of another run.
"""

import asyncio
import base64
import hashlib
import mimetypes
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, TypeGuard

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json
from temporalio.client import Client
from temporalio.converter import (
    PayloadCodec,
    StorageDriver,
    StorageDriverStoreContext,
    StorageDriverWorkflowInfo,
)

from sojourn.contracts.attachment import (
    PICTURE_TYPES,
    AttachmentLimits,
    AttachmentRecord,
    attachment_id,
    file_name,
    media_type_of,
)
from sojourn.contracts.message import DocumentPart, ImagePart, Message, Part
from sojourn.contracts.principal import Principal
from sojourn.contracts.wire_names import AGENT_RUN
from sojourn.errors import ArtifactNotFound, InvalidInput
from sojourn.storage import codec_for, load_bytes, store_bytes

__all__ = [
    "CHUNK_BYTES",
    "Attachments",
    "RunAttachments",
    "Upload",
    "attachments_in",
    "comparable",
    "guessed_type",
    "has_large_files",
    "in_chunks",
    "part_of",
    "runs_read_by",
    "with_files_stored",
]

CHUNK_BYTES = 1_000_000
"""Bytes of a chunk, the most of a file that is in memory at once."""

UPLOADS = "attachments"
"""Stands in the keys of objects for the id of a run, for files that belong to no run yet."""

_MANIFEST = b"sojourn/attachment"
"""Encoding of a manifest. Nothing that a client uploads is stored with it."""

_CHUNK = b"binary/plain"


@dataclass(frozen=True)
class _Manifest:
    tenant: str
    subject: str
    """Who uploaded the file."""
    run_id: str
    """The run that it belongs to; empty for an upload."""
    context_id: str
    """The run id that a codec got for the chunks."""
    name: str
    media_type: str
    size: int
    sha256: str
    chunks: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    def record(self, claim: dict[str, str]) -> AttachmentRecord:
        return AttachmentRecord(
            id=attachment_id(self.name, self.media_type, self.sha256),
            name=self.name,
            media_type=self.media_type,
            size=self.size,
            sha256=self.sha256,
            claim=claim,
        )


_MANIFESTS = TypeAdapter(_Manifest)


class Upload(AttachmentRecord):
    """A stored file that belongs to no run yet, but to the principal that uploaded it."""

    @property
    def reference(self) -> str:
        """The text with which a later request names the upload."""
        return "upl_" + base64.urlsafe_b64encode(to_json(self.claim)).decode().rstrip("=")

    def as_record(self) -> AttachmentRecord:
        """Return what a message keeps of it."""
        return AttachmentRecord(**dict(self))


def _claim_of(reference: str) -> dict[str, str]:
    """Return the claim that the reference of an upload holds, or raise InvalidInput."""
    body = reference.removeprefix("upl_")
    try:
        claim = from_json(base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True))
        return TypeAdapter(dict[str, str]).validate_python(claim, strict=True)
    except (ValueError, ValidationError) as error:
        raise InvalidInput(f"{reference[:80]!r} is not the reference of an upload") from error


class Attachments:
    """Stores and reads the files of one namespace.

    Args:
        client: The Temporal client, whose codec encrypts the files.
        storage: The external storage, or None.
        limits: Bounds of what `store` accepts.
    """

    def __init__(
        self, client: Client, storage: StorageDriver | None, limits: AttachmentLimits | None = None
    ) -> None:
        self._client = client
        self._storage = storage
        self.limits = limits or AttachmentLimits()

    @property
    def _driver(self) -> StorageDriver:
        if self._storage is None:
            raise InvalidInput(
                "attachments need external storage, and none is set here: App(storage=...), "
                "Client.connect(storage=...), --app MODULE:APP"
            )
        return self._storage

    async def store(
        self,
        chunks: AsyncIterable[bytes],
        *,
        name: str,
        media_type: str = "",
        principal: Principal | None = None,
        run_id: str = "",
    ) -> Upload:
        """Store a file as it arrives, for a run or as an upload.

        Raises:
            InvalidInput: The file is too large, its type is not accepted, or there is no storage.
        """
        name = file_name(name)
        kind = media_type_of(media_type or guessed_type(name))
        if not self.limits.takes(kind):
            raise InvalidInput(
                f"{name}: files of type {kind} are not accepted, but {', '.join(self.limits.media_types)}"
            )
        driver, context_id = self._driver, run_id or UPLOADS
        codec = codec_for(self._client.data_converter, self._client.namespace, context_id)
        target = self._target(context_id)
        digest, size, claims = hashlib.sha256(), 0, list[dict[str, str]]()
        async for chunk in _regrouped(chunks):
            size += len(chunk)
            if size > self.limits.max_bytes:
                raise InvalidInput(f"{name} has more than {self.limits.max_bytes:,} bytes")
            digest.update(chunk)
            claims.append(await store_bytes(driver, chunk, target, codec, encoding=_CHUNK))
        manifest = _Manifest(
            tenant=principal.tenant if principal else "",
            subject=principal.subject if principal else "",
            run_id=run_id,
            context_id=context_id,
            name=name,
            media_type=kind,
            size=size,
            sha256=digest.hexdigest(),
            chunks=claims,
        )
        return await self._stored(manifest)

    async def store_path(
        self, path: Path, *, media_type: str = "", principal: Principal | None = None, run_id: str = ""
    ) -> Upload:
        """Store a file of this machine, as `store` does."""
        try:
            file = path.open("rb")
        except OSError as error:
            raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
        with file:
            return await self.store(
                in_chunks(file),
                name=path.name,
                media_type=media_type,
                principal=principal,
                run_id=run_id,
            )

    async def bind(
        self, reference: str | AttachmentRecord, *, run_id: str, principal: Principal | None = None
    ) -> AttachmentRecord:
        """Return an upload of the principal as an attachment of a run.

        Raises:
            InvalidInput: There is no such upload of this principal.
        """
        claim = _claim_of(reference) if isinstance(reference, str) else reference.claim
        unknown = "there is no such upload of yours; upload the file again"
        try:
            manifest = await self._manifest(claim)
        except (ArtifactNotFound, ValueError) as error:
            raise InvalidInput(unknown) from error
        whose = (principal.tenant, principal.subject) if principal else ("", "")
        if (manifest.tenant, manifest.subject) != whose or manifest.run_id not in ("", run_id):
            raise InvalidInput(unknown)
        bound = replace(manifest, run_id=run_id)
        stored = await self._stored(bound)
        return bound.record(stored.claim)

    async def read(self, attachment: AttachmentRecord, runs: Collection[str]) -> AsyncGenerator[bytes]:
        """Yield the content of an attachment of one of these runs.

        Raises:
            ArtifactNotFound: It is of another run, was deleted, or cannot be read.
        """
        manifest = await self._manifest(attachment.claim)
        if not manifest.run_id or manifest.run_id not in runs:
            raise ArtifactNotFound(f"no attachment {attachment.id} of this run")
        codec = codec_for(self._client.data_converter, self._client.namespace, manifest.context_id)
        for claim in manifest.chunks:
            yield await self._loaded(claim, _CHUNK, codec)

    async def owner_of(self, attachment: AttachmentRecord) -> str:
        """Return the run that an attachment belongs to, in a fork perhaps its origin."""
        return (await self._manifest(attachment.claim)).run_id

    async def _stored(self, manifest: _Manifest) -> Upload:
        context_id = manifest.run_id or UPLOADS
        # A manifest has names of files, so it is encrypted too. It is read before its run is known.
        codec = codec_for(self._client.data_converter, self._client.namespace, UPLOADS)
        claim = await store_bytes(
            self._driver,
            _MANIFESTS.dump_json(manifest),
            self._target(context_id),
            codec,
            encoding=_MANIFEST,
        )
        return Upload(**dict(manifest.record(claim)))

    async def _manifest(self, claim: dict[str, str]) -> _Manifest:
        codec = codec_for(self._client.data_converter, self._client.namespace, UPLOADS)
        return _MANIFESTS.validate_json(await self._loaded(claim, _MANIFEST, codec))

    async def _loaded(self, claim: dict[str, str], encoding: bytes, codec: PayloadCodec | None) -> bytes:
        try:
            return await load_bytes(self._driver, claim, codec, encoding=encoding)
        except InvalidInput:
            raise
        except Exception as error:  # a driver or a codec may raise anything
            raise ArtifactNotFound(f"the attachment cannot be read: {type(error).__name__}") from error

    def _target(self, context_id: str) -> StorageDriverStoreContext:
        return StorageDriverStoreContext(
            target=StorageDriverWorkflowInfo(namespace=self._client.namespace, id=context_id, type=AGENT_RUN)
        )


class RunAttachments:
    """Reads the files that a run may read, on the event loop that it is made on."""

    def __init__(self, attachments: Attachments, runs: Collection[str]) -> None:
        self._attachments = attachments
        self._runs = runs
        self._loop = asyncio.get_running_loop()

    def chunks(self, attachment: AttachmentRecord) -> AsyncIterator[bytes]:
        """Return the content in chunks. Raises as `Attachments.read`."""
        return self._attachments.read(attachment, self._runs)

    async def read(self, attachment: AttachmentRecord) -> bytes:
        """Return the content whole. Raises as `Attachments.read`."""
        return b"".join([chunk async for chunk in self.chunks(attachment)])

    def read_blocking(self, attachment: AttachmentRecord) -> bytes:
        """Return the content whole, in another thread than that of the event loop."""
        return asyncio.run_coroutine_threadsafe(self.read(attachment), self._loop).result()


def runs_read_by(run_id: str, origin: str = "") -> set[str]:
    """Return the runs whose files a run reads.

    They are itself, the runs above it, and those of a fork's origin.
    """
    own = run_id.split("/")
    above = {"/".join(own[: count + 1]) for count in range(len(own))}
    return above | (runs_read_by(origin) if origin else set())


def guessed_type(name: str) -> str:
    """Return the media type that a file's name suggests."""
    return mimetypes.guess_type(name)[0] or ""


def in_chunks(file: BinaryIO) -> AsyncIterator[bytes]:
    """Yield the content of an open file, read in threads."""

    async def chunks() -> AsyncGenerator[bytes]:
        while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES):
            yield chunk

    return chunks()


async def _regrouped(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
    """Yield the same bytes in chunks of `CHUNK_BYTES`.

    So equal files have equal chunks.
    """
    kept = bytearray()
    async for chunk in chunks:
        kept += chunk
        while len(kept) >= CHUNK_BYTES:
            yield bytes(kept[:CHUNK_BYTES])
            del kept[:CHUNK_BYTES]
    if kept:
        yield bytes(kept)


# Messages.


def part_of(attachment: AttachmentRecord) -> ImagePart | DocumentPart:
    """Return an attachment as a part of a message.

    A picture that models read becomes an image, anything else a document.
    """
    kind = attachment.media_type
    if kind in PICTURE_TYPES:
        return ImagePart(type="image", media_type=kind, attachment=attachment)
    return DocumentPart(type="document", media_type=kind, title=attachment.name, attachment=attachment)


def attachments_in(messages: Iterable[Message]) -> dict[str, AttachmentRecord]:
    """Return the attachments of messages by id, each as it came first."""
    found: dict[str, AttachmentRecord] = {}
    for message in messages:
        for attachment in message.attachments:
            found.setdefault(attachment.id, attachment)
    return found


INLINE_BYTES = 4_000
"""Most base64 of a file that stays in its message: it is cheaper there than as an object in storage."""


def _is_large(part: Part) -> TypeGuard[ImagePart | DocumentPart]:
    return isinstance(part, (ImagePart, DocumentPart)) and len(part.data or "") > INLINE_BYTES


def has_large_files(messages: Iterable[Message]) -> bool:
    """Return whether a message has the data of a file that belongs into storage."""
    return any(_is_large(part) for message in messages for part in message.parts)


async def with_files_stored(
    attachments: Attachments, message: Message, *, run_id: str, principal: Principal | None = None
) -> Message:
    """Return a message with the data of its larger files in storage.

    Raises:
        InvalidInput: The data is not base64, or `Attachments.store` refuses it.
    """
    if not has_large_files([message]):
        return message
    parts: list[Part] = []
    for part in message.parts:
        if not _is_large(part):
            parts.append(part)
            continue
        name, data = _named(part)
        stored = await attachments.store(
            _sliced(data), name=name, media_type=part.media_type, principal=principal, run_id=run_id
        )
        parts.append(part.model_copy(update={"data": None, "attachment": stored.as_record()}))
    return message.model_copy(update={"parts": parts})


def _named(part: ImagePart | DocumentPart) -> tuple[str, bytes]:
    kind = media_type_of(part.media_type)
    suffix = mimetypes.guess_extension(kind) or ""
    title = part.title if isinstance(part, DocumentPart) else None
    try:
        data = base64.b64decode("".join((part.data or "").split()), validate=True)
    except ValueError as error:
        raise InvalidInput(f"the data of a file of type {kind} is not base64") from error
    return title or f"{part.type}{suffix}", data


async def _sliced(data: bytes) -> AsyncGenerator[bytes]:
    view = memoryview(data)
    for begin in range(0, len(data), CHUNK_BYTES):
        yield bytes(view[begin : begin + CHUNK_BYTES])


def comparable(message: Message) -> Message:
    """Return a message with what its files are, and not where they are stored."""
    return message.model_copy(update={"parts": [_comparable(part) for part in message.parts]})


def _comparable(part: Part) -> Part:
    if not isinstance(part, (ImagePart, DocumentPart)):
        return part
    attachment = part.attachment
    if attachment is None:
        if not _is_large(part):
            return part
        try:
            name, data = _named(part)
        except InvalidInput:
            return part
        name, kind = file_name(name), media_type_of(part.media_type)
        digest = hashlib.sha256(data).hexdigest()
        attachment = AttachmentRecord(
            id=attachment_id(name, kind, digest), name=name, media_type=kind, size=len(data), sha256=digest
        )
    return part.model_copy(update={"data": None, "attachment": attachment.model_copy(update={"claim": {}})})
