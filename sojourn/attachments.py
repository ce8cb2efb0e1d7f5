"""Keep the files of messages in external storage, in chunks.

A storage driver takes whole payloads. So a file is stored in chunks, and neither a worker nor the HTTP service
ever has more than one or two of them in memory. A manifest names the chunks, and whose the file is: an upload
belongs to a principal, and an attachment to a run. A claim in a message leads to a manifest and nothing else,
and only the run that the manifest names reads it. So a claim that a client makes up opens nothing of another run.
"""

import asyncio
import base64
import hashlib
import itertools
import mimetypes
import os
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Sequence,
)
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, TypeGuard

import structlog
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json
from temporalio.client import Client
from temporalio.converter import (
    PayloadCodec,
    StorageDriver,
    StorageDriverStoreContext,
    StorageDriverWorkflowInfo,
)
from temporalio.service import RPCError, RPCStatusCode

from sojourn.contracts.attachment import (
    MAX_ATTACHMENTS,
    PICTURE_TYPES,
    Attachment,
    AttachmentLimits,
    AttachmentRecord,
    FileContent,
    attachment_id,
    file_name,
    media_type_of,
)
from sojourn.contracts.ids import split_scheduled_id
from sojourn.contracts.message import DocumentPart, ImagePart, Message, Part
from sojourn.contracts.principal import Principal
from sojourn.contracts.tool_result import Artifact, ToolResult
from sojourn.contracts.wire_names import AGENT_RUN
from sojourn.errors import ArtifactNotFound, InvalidInput, StorageUnavailable
from sojourn.logs.values import describe_error
from sojourn.search_attributes import FORK_OF
from sojourn.storage import codec_for, held_open, load_bytes, store_bytes

__all__ = [
    "CHUNK_BYTES",
    "MAX_ORIGINS",
    "Attachments",
    "CallAttachments",
    "RunAttachments",
    "Upload",
    "attachments_in",
    "comparable",
    "describe_file",
    "fork_origins",
    "guessed_type",
    "in_chunks",
    "is_schedule",
    "owner_of_schedule",
    "part_of",
    "runs_read_by",
    "with_files_attached",
    "with_files_stored",
]

CHUNK_BYTES = 1_000_000
"""Bytes of a chunk, the most of a file that is in memory at once."""

UPLOADS = "attachments"
"""Stands in the keys of objects for the id of a run, for files that belong to no run yet."""

_MANIFEST = b"sojourn/attachment"
"""Encoding of a manifest. Nothing that a client uploads is stored with it."""

_CHUNK = b"binary/plain"

_log = structlog.get_logger("sojourn.storage")


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
    tainted: bool = False
    """As that of `AttachmentRecord`, where no client can strip it."""

    def record(self, claim: dict[str, str]) -> AttachmentRecord:
        return AttachmentRecord(
            id=attachment_id(self.name, self.media_type, self.sha256),
            name=self.name,
            media_type=self.media_type,
            size=self.size,
            sha256=self.sha256,
            claim=claim,
            tainted=self.tainted,
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


Origins = Callable[[], Awaitable[Collection[str]]]
"""Returns further runs whose files a run reads, if those that are known do not have a file."""


class Attachments:
    """Stores and reads the files of one namespace.

    Args:
        client: The Temporal client, whose codec encrypts the files.
        storage: The external storage, or None.
        limits: Bounds of what `store` accepts.
        tainted: Whether the files that it stores may hold text from outside.
    """

    def __init__(
        self,
        client: Client,
        storage: StorageDriver | None,
        limits: AttachmentLimits | None = None,
        *,
        tainted: bool = False,
    ) -> None:
        self._tainted = tainted
        self._client = client
        self._storage = storage
        self.limits = limits or AttachmentLimits()

    def read_by(self, run_id: str, origin: str) -> "RunAttachments":
        """Return a source of the files that a run reads.

        They are its own, and as a fork those of its first origin and of the forks between.

        Args:
            run_id: The run.
            origin: The first origin of a fork, whose id is in the keys of its calls; empty for other runs.
        """
        if not origin:
            return RunAttachments(self, runs_read_by(run_id))
        runs = runs_read_by(run_id) | runs_read_by(origin)
        return RunAttachments(self, runs, fork_origins(self._client, run_id))

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
        tainted: bool = False,
    ) -> Upload:
        """Store a file as it arrives, for a run or as an upload.

        A copy of a tainted file is tainted too.

        Raises:
            InvalidInput: The file is too large, its type is not accepted, or there is no storage.
            StorageUnavailable: The storage cannot be written now.
        """
        name = file_name(name)
        kind = media_type_of(media_type or guessed_type(name))
        if not self.limits.takes(kind):
            raise InvalidInput(
                f"{name}: files of type {kind} are not accepted, but {', '.join(self.limits.media_types)}"
            )
        context_id, tenant = run_id or UPLOADS, principal.tenant if principal else ""
        said = (
            tenant if tenant or not run_id else None
        )  # a run may have a tenant that the caller does not name
        codec = codec_for(self._client.data_converter, self._client.namespace, context_id, tenant=said)
        target = self._target(context_id)
        digest, size, claims = hashlib.sha256(), 0, list[dict[str, str]]()
        async with held_open(self._driver) as driver:
            async for chunk in _regrouped(chunks):
                size += len(chunk)
                if size > self.limits.max_bytes:
                    raise self._too_large(name)
                digest.update(chunk)
                claims.append(await self._written(driver, chunk, target, codec, _CHUNK))
            manifest = _Manifest(
                tenant=tenant,
                subject=principal.subject if principal else "",
                run_id=run_id,
                context_id=context_id,
                name=name,
                media_type=kind,
                size=size,
                sha256=digest.hexdigest(),
                chunks=claims,
                tainted=tainted or self._tainted,
            )
            return await self._stored(driver, manifest)

    async def store_path(
        self,
        path: Path,
        *,
        name: str = "",
        media_type: str = "",
        principal: Principal | None = None,
        run_id: str = "",
    ) -> Upload:
        """Store a file of this machine, as `store` does."""
        try:
            file = path.open("rb")
        except OSError as error:
            raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
        with file:
            if os.fstat(file.fileno()).st_size > self.limits.max_bytes:  # so that no part of it is stored
                raise self._too_large(file_name(name or path.name))
            return await self.store(
                in_chunks(file),
                name=name or path.name,
                media_type=media_type,
                principal=principal,
                run_id=run_id,
            )

    def check_count(self, message: Message, more: int = 0) -> None:
        """Raise InvalidInput if a message has too many files.

        Data that is about to be stored counts too.
        """
        large = sum(map(_is_large, message.parts)) if self._storage is not None else 0
        if len(message.attachments) + large + more > self.limits.max_count:
            raise InvalidInput(f"attachments: a message has at most {self.limits.max_count}")

    def _too_large(self, name: str) -> InvalidInput:
        return InvalidInput(f"{name} has more than {self.limits.max_bytes:,} bytes")

    async def bind(
        self, reference: str | AttachmentRecord, *, run_id: str, principal: Principal | None = None
    ) -> AttachmentRecord:
        """Return an upload of the principal as an attachment of a run.

        Raises:
            InvalidInput: There is no such upload of this principal.
            StorageUnavailable: The storage cannot be read or written now.
        """
        claim = _claim_of(reference) if isinstance(reference, str) else reference.claim
        unknown = "there is no such upload of yours; upload the file again"
        whose = (principal.tenant, principal.subject) if principal else ("", "")
        async with held_open(self._driver) as driver:
            try:
                manifest = await self._manifest(driver, claim)
            except (ArtifactNotFound, ValueError) as error:
                raise InvalidInput(unknown) from error
            if (manifest.tenant, manifest.subject) != whose or manifest.run_id not in ("", run_id):
                raise InvalidInput(unknown)
            bound = replace(manifest, run_id=run_id)
            stored = await self._stored(driver, bound)
        return bound.record(stored.claim)

    async def taint(self, attachment: AttachmentRecord) -> AttachmentRecord:
        """Mark a file that a call has just stored as one with text from outside."""
        async with held_open(self._driver) as driver:
            marked = replace(await self._manifest(driver, attachment.claim), tainted=True)
            return (await self._stored(driver, marked)).as_record()

    async def read(
        self, attachment: AttachmentRecord, runs: Collection[str], origins: Origins | None = None
    ) -> AsyncGenerator[bytes]:
        """Yield the content of an attachment of one of these runs, or of the origins.

        Raises:
            ArtifactNotFound: It is of another run, was deleted, or cannot be read.
            StorageUnavailable: The storage cannot be read now.
        """
        async with held_open(self._driver) as driver:
            manifest = await self._manifest(driver, attachment.claim)
            is_known = manifest.run_id in runs or (origins and manifest.run_id in await origins())
            if not manifest.run_id or not is_known:
                raise ArtifactNotFound(f"no attachment {attachment.id} of this run")
            codec = codec_for(self._client.data_converter, self._client.namespace, manifest.context_id)
            for claim in manifest.chunks:
                yield await self._loaded(driver, claim, _CHUNK, codec)

    async def owner_of(self, attachment: AttachmentRecord) -> str:
        """Return the run that an attachment belongs to, in a fork perhaps its origin."""
        return (await self._manifest(self._driver, attachment.claim)).run_id

    async def _stored(self, driver: StorageDriver, manifest: _Manifest) -> Upload:
        context_id = manifest.run_id or UPLOADS
        # A manifest has names of files, so it is encrypted too. It is read before its run is known.
        codec = codec_for(
            self._client.data_converter, self._client.namespace, UPLOADS, tenant=manifest.tenant
        )
        content = _MANIFESTS.dump_json(manifest)
        claim = await self._written(driver, content, self._target(context_id), codec, _MANIFEST)
        return Upload(**dict(manifest.record(claim)))

    async def _manifest(self, driver: StorageDriver, claim: dict[str, str]) -> _Manifest:
        codec = codec_for(self._client.data_converter, self._client.namespace, UPLOADS)
        return _MANIFESTS.validate_json(await self._loaded(driver, claim, _MANIFEST, codec))

    async def _loaded(
        self, driver: StorageDriver, claim: dict[str, str], encoding: bytes, codec: PayloadCodec | None
    ) -> bytes:
        try:
            return await load_bytes(driver, claim, codec, encoding=encoding)
        except InvalidInput:
            raise
        except FileNotFoundError as error:
            raise ArtifactNotFound("the attachment cannot be read: it was deleted") from error
        except (ValueError, LookupError, TypeError) as error:  # a claim that is none, or of another driver
            raise ArtifactNotFound(f"the attachment cannot be read: {type(error).__name__}") from error
        except Exception as error:  # Temporal's own drivers raise RuntimeError for whatever the service says
            raise _unavailable(error) from error

    async def _written(
        self,
        driver: StorageDriver,
        data: bytes,
        target: StorageDriverStoreContext,
        codec: PayloadCodec | None,
        encoding: bytes,
    ) -> dict[str, str]:
        try:
            return await store_bytes(driver, data, target, codec, encoding=encoding)
        except InvalidInput:
            raise
        except Exception as error:  # a driver may raise anything
            raise _unavailable(error) from error

    def _target(self, context_id: str) -> StorageDriverStoreContext:
        return StorageDriverStoreContext(
            target=StorageDriverWorkflowInfo(namespace=self._client.namespace, id=context_id, type=AGENT_RUN)
        )


def _unavailable(error: Exception) -> StorageUnavailable:
    _log.warning("storage_unavailable", raised=describe_error(error))
    return StorageUnavailable(f"the storage of files is not available: {type(error).__name__}")


class RunAttachments:
    """Reads the files that a run may read, on the event loop that it is made on."""

    def __init__(
        self, attachments: Attachments, runs: Collection[str], origins: Origins | None = None
    ) -> None:
        self._attachments = attachments
        self._runs = runs
        self._origins = origins
        self._loop = asyncio.get_running_loop()

    def chunks(self, attachment: AttachmentRecord) -> AsyncIterator[bytes]:
        """Return the content in chunks. Raises as `Attachments.read`."""
        return self._attachments.read(attachment, self._runs, self._origins)

    async def read(self, attachment: AttachmentRecord) -> bytes:
        """Return the content whole. Raises as `Attachments.read`."""
        return b"".join([chunk async for chunk in self.chunks(attachment)])

    def read_blocking(self, attachment: AttachmentRecord) -> bytes:
        """Return the content whole, in another thread than that of the event loop."""
        return asyncio.run_coroutine_threadsafe(self.read(attachment), self._loop).result()


class CallAttachments:
    """Stores the files that a call makes, on the event loop that it is made on.

    They belong to the run at the top, so that the runs above the call's read them too.
    """

    def __init__(self, attachments: Callable[[], Attachments], run_id: str) -> None:
        self.made: dict[str, AttachmentRecord] = {}
        """The files by id."""
        self._storing = 0
        self._attachments = attachments
        self._run_id = run_id.partition("/")[0]
        self._loop = asyncio.get_running_loop()

    async def attach(self, name: str, media_type: str, content: FileContent) -> Attachment:
        """Store a file. Raises as `Attachments.store`."""
        if len(self.made) + self._storing >= MAX_ATTACHMENTS:
            raise InvalidInput(f"{name}: a call makes at most {MAX_ATTACHMENTS} files")
        stored, run_id = self._attachments(), self._run_id
        self._storing += 1
        try:
            if isinstance(content, Path):
                file = await stored.store_path(content, name=name, media_type=media_type, run_id=run_id)
            else:
                file = await stored.store(_pieces(content), name=name, media_type=media_type, run_id=run_id)
        finally:
            self._storing -= 1
        record = self.made[file.id] = file.as_record()
        return Attachment(record, RunAttachments(stored, [run_id]))

    def attach_blocking(self, name: str, media_type: str, content: FileContent) -> Attachment:
        """Store a file, in another thread than that of the event loop."""
        return asyncio.run_coroutine_threadsafe(self.attach(name, media_type, content), self._loop).result()


async def _pieces(
    content: bytes | bytearray | memoryview | Iterable[bytes] | AsyncIterable[bytes],
) -> AsyncGenerator[bytes]:
    if isinstance(content, str):
        raise TypeError("the content of a file is bytes; encode the text")
    if isinstance(content, (bytes, bytearray, memoryview)):
        content = _sliced(bytes(content))
    if isinstance(content, AsyncIterable):
        async for piece in content:
            yield piece
    else:
        pieces = iter(content)  # of the author: it may block, or read another file of the run
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            yield piece


def with_files_attached(result: ToolResult, files: Sequence[AttachmentRecord]) -> ToolResult:
    """Return a result with files as artifacts, which models see."""
    taken = {artifact.kind for artifact in result.artifacts}
    kinds = (
        kind
        for count in itertools.count(1)
        if (kind := f"file_{count}" if count > 1 else "file") not in taken
    )
    made = [
        Artifact(kind=kind, size=file.size, media_type=file.media_type, attachment=file)
        for kind, file in zip(kinds, files, strict=False)
    ]
    return result.model_copy(update={"artifacts": [*result.artifacts, *made]}) if made else result


_OF_SCHEDULE = "/schedule:"


def owner_of_schedule(schedule_id: str) -> str:
    """Return what files of a schedule belong to, which is the id of no run."""
    return schedule_id + _OF_SCHEDULE


def is_schedule(owner: str) -> bool:
    """Return whether files belong to a schedule, and not to a run."""
    return owner.endswith(_OF_SCHEDULE)


def runs_read_by(run_id: str) -> set[str]:
    """Return the runs whose files a run reads, unless it is a fork, which reads more.

    They are itself, the runs above it, and the schedule that started it.
    """
    own = run_id.split("/")
    above = {"/".join(own[: count + 1]) for count in range(len(own))}
    if scheduled := split_scheduled_id(own[0]):
        above.add(owner_of_schedule(scheduled[0]))
    return above


MAX_ORIGINS = 50
"""Most forks between a fork and the run whose files it reads."""


def fork_origins(client: Client, run_id: str) -> Origins:
    """Return how to find the runs between a fork and its first origin."""

    async def find() -> Collection[str]:
        found, above = set[str](), run_id.partition("/")[0]
        for _ in range(MAX_ORIGINS):
            try:
                described = await client.get_workflow_handle(above).describe()
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:  # its retention is over
                    break
                raise _unavailable(error) from error
            above = described.typed_search_attributes.get(FORK_OF) or ""
            if not above:
                break
            found |= runs_read_by(above)
        return found

    return find


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


async def with_files_stored(
    attachments: Attachments, message: Message, *, run_id: str, principal: Principal | None = None
) -> Message:
    """Return a message with the data of its larger files in storage.

    Raises:
        InvalidInput: The data is not base64, or `Attachments.store` refuses it.
    """
    if not any(map(_is_large, message.parts)):
        return message
    parts: list[Part] = []
    for part in message.parts:
        if not _is_large(part):
            parts.append(part)
            continue
        stored = await attachments.store(
            _sliced(_data_of(part)),
            name=_name_of(part),
            media_type=part.media_type,
            principal=principal,
            run_id=run_id,
        )
        parts.append(part.model_copy(update={"data": None, "attachment": stored.as_record()}))
    return message.model_copy(update={"parts": parts})


def describe_file(
    part: ImagePart | DocumentPart, sha256: str, size: int, name: str | None = None
) -> AttachmentRecord:
    """Return the record of a part's file, without a claim."""
    name, kind = file_name(name or _name_of(part)), media_type_of(part.media_type)
    return AttachmentRecord(
        id=attachment_id(name, kind, sha256), name=name, media_type=kind, size=size, sha256=sha256
    )


def _name_of(part: ImagePart | DocumentPart) -> str:
    title = part.title if isinstance(part, DocumentPart) else None
    return title or f"{part.type}{mimetypes.guess_extension(media_type_of(part.media_type)) or ''}"


def _data_of(part: ImagePart | DocumentPart) -> bytes:
    try:
        return base64.b64decode("".join((part.data or "").split()), validate=True)
    except ValueError as error:
        kind = media_type_of(part.media_type)
        raise InvalidInput(f"the data of a file of type {kind} is not base64") from error


async def _sliced(data: bytes) -> AsyncGenerator[bytes]:
    view = memoryview(data)
    for begin in range(0, len(data), CHUNK_BYTES):
        yield bytes(view[begin : begin + CHUNK_BYTES])


_OLD_ID = len("att_") + 16
"""Length of an id in older histories, which begins as today's."""


def comparable(message: Message) -> Message:
    """Return a message with only the ids of its files.

    They tell files apart, wherever these are stored.
    """
    return message.model_copy(update={"parts": [_comparable(part) for part in message.parts]})


def _comparable(part: Part) -> Part:
    if not isinstance(part, (ImagePart, DocumentPart)):
        return part
    attachment = part.attachment
    if attachment is None:
        if not _is_large(part):
            return part
        try:
            data = _data_of(part)
        except InvalidInput:
            return part
        attachment = describe_file(part, hashlib.sha256(data).hexdigest(), len(data))
    known = attachment.id[:_OLD_ID]
    id_only = AttachmentRecord(id=known, name="", media_type="", size=0, sha256="")
    return type(part)(type=part.type, media_type="", attachment=id_only)  # pyright: ignore[reportArgumentType]
