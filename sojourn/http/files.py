"""Read forms with files, and serve files, for every face of the service.

A form is read as it arrives, into files on disk, and refused at the head of the first part that is too large or of
a type that is not accepted. Names and types come from strangers: a download never runs in a page of this origin.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from urllib.parse import quote

from fastapi import Request, Response
from python_multipart.exceptions import MultipartParseError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from sojourn.attachments import Upload, in_chunks
from sojourn.contracts.attachment import (
    PICTURE_TYPES,
    AttachmentLimits,
    AttachmentRecord,
    file_name,
    media_type_of,
)
from sojourn.contracts.principal import Principal
from sojourn.http.problems import Problem
from sojourn.http.service import Service
from sojourn.pictures import MAX_PICTURE_BYTES, can_reduce, reduced_in_turn
from sojourn.reader import Cache

__all__ = ["RefusedFile", "Thumbnails", "UploadForm", "download", "read_files", "store_upload"]

MAX_FIELDS = 1_000
MAX_FIELD_BYTES = 2_000_000


class RefusedFile(Problem):
    """A form with a file that is refused, and its fields."""

    def __init__(self, problem: Problem, fields: list[tuple[str, str]]) -> None:
        super().__init__(
            problem.status, problem.code, problem.detail, then=problem.then, headers=problem.headers
        )
        self.fields = fields


class UploadForm(MultiPartParser):
    """Reads a form, and refuses a file before its bytes are read if it can.

    With `reads_on`, the rest of the form is read all the same, without its files, for what its fields say.
    """

    def __init__(self, request: Request, limits: AttachmentLimits, *, reads_on: bool = False) -> None:
        super().__init__(
            request.headers,
            request.stream(),  # pyright: ignore[reportArgumentType] - an async generator, as the type of Starlette's own
            max_files=limits.max_count,
            max_fields=MAX_FIELDS,
            max_part_size=MAX_FIELD_BYTES,
        )
        self.is_whole = False
        self.refusal: Problem | None = None
        self._limits = limits
        self._size = 0
        self._reads_on = reads_on

    def close(self) -> None:
        """Close the files, also one that is not whole, which the parsed form leaves out."""
        for file in self._files_to_close_on_error:
            file.close()

    def on_end(self) -> None:
        """Note the end of the form: Starlette's parser accepts one that is cut off."""
        self.is_whole = True

    def on_headers_finished(self) -> None:
        """Refuse a file of a type that is not accepted (415)."""
        super().on_headers_finished()
        self._size = 0
        if (file := self._current_part.file) is not None:
            self._refuse(_type_fault(file.content_type or "", self._limits))

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The fields that were read so far."""
        return [(name, value) for name, value in self.items if isinstance(value, str)]

    def _refuse(self, problem: Problem | None) -> None:
        self.refusal = self.refusal or problem
        if self.refusal and not self._reads_on:
            raise self.refusal

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        """Refuse a file at its first byte too many (413)."""
        if self._current_part.file is not None:
            self._size += end - start
            if self._size > self._limits.max_bytes:
                self._refuse(too_large(self._limits))
            if self.refusal:
                return
        super().on_part_data(data, start, end)


def too_large(limits: AttachmentLimits) -> Problem:
    return Problem(
        413,
        "too_large",
        f"a file has at most {limits.max_bytes:,} bytes",
        then="Send a smaller file.",
        headers={"Connection": "close"},
    )


def _type_fault(given: str, limits: AttachmentLimits) -> Problem | None:
    kind = media_type_of(given)
    if limits.takes(kind):
        return None
    return Problem(
        415,
        "media_type",
        f"files of type {kind} are not accepted",
        then=f"Send files of the types {', '.join(limits.media_types)}.",
        headers={"Connection": "close"},
    )


async def read_files(
    request: Request, limits: AttachmentLimits, *, reads_on: bool = False
) -> tuple[list[tuple[str, str]], list[UploadFile]]:
    """Return the fields of a form, and its files, which the caller closes.

    A field without a chosen file is left out.

    Raises:
        Problem: The form is not whole, a file is too large or of a type that is not accepted, or there are too many. With `reads_on`, a
            `RefusedFile` has the fields.
    """
    form = UploadForm(request, limits, reads_on=reads_on)
    try:
        sent = await form.parse()
        if form.refusal:
            raise form.refusal
    except Problem as problem:
        form.close()
        if not reads_on:
            raise
        raise RefusedFile(problem, form.fields) from problem
    except ClientDisconnect as error:
        form.close()
        raise broken("the client has gone") from error
    except (MultiPartException, MultipartParseError) as error:
        raise broken(str(getattr(error, "message", error))) from error
    if not form.is_whole:
        form.close()
        raise broken("it is cut off")
    fields = [(name, value) for name, value in sent.multi_items() if isinstance(value, str)]
    files = [value for _, value in sent.multi_items() if isinstance(value, UploadFile)]
    for file in files:
        if not _is_chosen(file):
            await file.close()
    return fields, [file for file in files if _is_chosen(file)]


def _is_chosen(file: UploadFile) -> bool:
    return bool(file.filename or file.size)


def broken(why: str) -> Problem:
    return Problem(
        400,
        "bad_request",
        f"the form is incomplete: {why[:200]}",
        then="Send a complete form, with no more files than a message may have.",
        headers={"Connection": "close"},
    )


async def store_upload(service: Service, asking: Principal, file: UploadFile) -> Upload:
    """Store a file of a form as an upload of the principal."""
    return await service.client.attachments.store(
        in_chunks(file.file),
        name=file.filename or "",
        media_type=file.content_type or "",
        principal=asking,
    )


async def download(service: Service, asking: Principal, run_id: str, attachment_id: str) -> Response:
    """Return the response with an attachment of a run that the principal may see."""
    return await _whole(*await service.attachment(asking, run_id, attachment_id))


async def _whole(file: AttachmentRecord, chunks: AsyncGenerator[bytes]) -> Response:
    first = await anext(chunks, b"")  # raises what is wrong before the response begins

    async def content() -> AsyncGenerator[bytes]:
        async with aclosing(chunks):
            yield first
            async for chunk in chunks:
                yield chunk

    headers = {**_headers(file), "Content-Length": str(file.size)}
    return StreamingResponse(content(), headers=headers, media_type=_served_type(file))


THUMBNAIL_SIDE = 640
"""Pixels of the longer side of a thumbnail, which is shown at half of that or less."""

SMALL_BYTES = 100_000
"""Size of a picture that is its own thumbnail."""

MAX_THUMBNAIL_BYTES = 16_000_000
"""Bytes of the thumbnails in the cache."""


class Thumbnails:
    """Makes a small picture of each large one, once, and keeps the newest.

    The large one is whole in memory meanwhile, so one is made at a time.
    """

    def __init__(self) -> None:
        self._made: Cache[tuple[str, str], bytes] = Cache(
            MAX_THUMBNAIL_BYTES, weigh=lambda made: 500 + len(made)
        )
        self._turn = asyncio.Lock()

    async def respond(self, service: Service, asking: Principal, run_id: str, attachment_id: str) -> Response:
        """Respond with a thumbnail, or with the whole file if none can be made."""
        file, chunks = await service.attachment(asking, run_id, attachment_id)
        is_large = SMALL_BYTES < file.size <= MAX_PICTURE_BYTES
        if file.media_type not in PICTURE_TYPES or not is_large or not can_reduce():
            return await _whole(file, chunks)
        made = await self._made.get((run_id, file.id), lambda: self._make(chunks))
        if not made:  # a browser may show what Pillow does not decode
            return await download(service, asking, run_id, attachment_id)
        return Response(made, headers=_headers(file), media_type="image/jpeg")

    async def _make(self, chunks: AsyncGenerator[bytes]) -> bytes:
        async with self._turn:
            data = b"".join([chunk async for chunk in chunks])
            made = await reduced_in_turn(data, THUMBNAIL_SIDE)
        return made if isinstance(made, bytes) else b""


_SERVED = (*PICTURE_TYPES, "application/pdf")
"""Types that a browser may show. It saves all other files."""


def _served_type(file: AttachmentRecord) -> str:
    return file.media_type if file.media_type in _SERVED else "application/octet-stream"


_SUFFIXES = {
    "image/png": (".png",),
    "image/jpeg": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "image/gif": (".gif",),
    "image/webp": (".webp",),
    "application/pdf": (".pdf",),
}
"""Ends of names by the type that is served: a picture that is saved as `page.html` would open as a page."""


def _headers(file: AttachmentRecord) -> dict[str, str]:
    name = file_name(file.name)  # a record by another program
    suffixes = _SUFFIXES.get(file.media_type, ())
    if suffixes and not name.lower().endswith(suffixes):
        name += suffixes[0]
    plain = name.encode("ascii", "replace").decode().replace("\\", "_").replace('"', "_")
    how = "inline" if file.media_type in PICTURE_TYPES else "attachment"
    return {
        "Content-Disposition": f"{how}; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}",
        "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, max-age=3600",
        "Vary": "Authorization, Cookie",  # another visitor of the same browser asks anew
    }
