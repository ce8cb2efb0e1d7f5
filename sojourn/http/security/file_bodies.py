"""Take the data of files out of a JSON body while it arrives.

A protocol sends a file as base64 within its JSON. As a whole that would be in memory several times: as text, as
parsed JSON, and as bytes. So the data goes to a temporary file, decoded, and the JSON keeps a mark in its place, with
digest and size. Only the paths that a protocol names can have data: everything else counts as text.
"""

import asyncio
import base64
import hashlib
import json
import re
import tempfile
from collections.abc import AsyncGenerator, Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

from sojourn.http.problems import Problem
from sojourn.serving.pace import Pace

__all__ = [
    "FileBodies",
    "FileMark",
    "FileReader",
    "ReceivedFiles",
    "received_files",
    "release_files",
    "too_large",
]

INLINE_BYTES = 4_000
"""Most base64 that stays in its body."""

PIECE_BYTES = 1_000_000
"""Bytes of base64 to decode and write at once."""

JsonPath = tuple[str, ...]
"""The names from the top of a body to a value. `*` is any item of an array."""


@dataclass(frozen=True, slots=True)
class FileBodies:
    """Which bodies may have the data of files, and how much."""

    paths: Mapping[str, Collection[JsonPath]] = field(default_factory=dict[str, Collection[JsonPath]])
    """Where data may stand in a body, by the prefix of the request's path."""
    max_file_bytes: int = 0
    """Largest file."""

    def paths_of(self, path: str) -> Collection[JsonPath]:
        """Return where data may stand in a body that is sent to this path."""
        return next((paths for prefix, paths in self.paths.items() if path.startswith(prefix)), ())


class FileMark(NamedTuple):
    """What stands in a body in place of the data of a file."""

    sha256: str
    size: int

    @property
    def text(self) -> str:
        return f"sojourn-file:{self.sha256}:{self.size}"

    @classmethod
    def parse(cls, text: str) -> "FileMark | None":
        """Return the mark that a text is, or None."""
        found = _MARK.match(text)
        return cls(found[1], int(found[2])) if found else None


_MARK = re.compile(r"sojourn-file:([0-9a-f]{64}):([0-9]{1,15})\Z")


class ReceivedFiles:
    """The files of one request, in a temporary file without a name."""

    def __init__(self) -> None:
        self._file: BinaryIO | None = None
        self._end = 0
        self._places: dict[str, tuple[int, int]] = {}
        """Where each file begins and ends, by its digest."""

    def __contains__(self, sha256: str) -> bool:
        return sha256 in self._places

    def write(self, data: bytes) -> None:
        """Append data to the file that is being received. Blocks."""
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        self._file.seek(self._end)
        self._file.write(data)
        self._end += len(data)

    def finish(self, sha256: str, size: int) -> None:
        """End the file that is being received. One that is there already is dropped."""
        if sha256 in self._places:
            self._end -= size
        else:
            self._places[sha256] = (self._end - size, self._end)

    async def chunks(self, sha256: str) -> AsyncGenerator[bytes]:
        """Yield the content of a file."""
        begin, end = self._places[sha256]
        while begin < end:
            data = await asyncio.to_thread(self._read, begin, min(PIECE_BYTES, end - begin))
            begin += len(data)
            yield data

    def _read(self, begin: int, size: int) -> bytes:
        if self._file is None:
            raise RuntimeError("the files of the request are closed")
        self._file.seek(begin)
        return self._file.read(size)

    def close(self) -> None:
        """Delete the files."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._places.clear()


received_files: ContextVar[ReceivedFiles | None] = ContextVar("sojourn.received_files", default=None)
"""The files that the body of the current request had."""


def release_files() -> None:
    """Delete the files of the current request before its response ends.

    A stream may be open for long.
    """
    if (files := received_files.get()) is not None:
        files.close()


class FileReader:
    """Reads a JSON body in pieces, and puts the data of files aside.

    It follows brackets, names and strings only. Whether the rest is JSON is for its parser to decide.

    Args:
        paths: Where data may stand.
        max_bytes: Most bytes of the body without the data of files.
        max_file_bytes: Largest file.
    """

    def __init__(self, paths: Collection[JsonPath], *, max_bytes: int, max_file_bytes: int) -> None:
        self.rest = bytearray()
        """The body without the data of files."""
        self.files = ReceivedFiles()
        self._paths = frozenset(paths)
        self._deepest = max(map(len, self._paths), default=0)
        self._max_bytes = max_bytes
        self._max_file_bytes = max_file_bytes
        self._within: list[str] = []
        """For each open bracket the name of the present member, or `*`."""
        self._is_name = False
        self._string: _String | None = None
        self._pace = Pace()
        self._held = b""
        """A backslash at the end of the last piece."""

    async def feed(self, piece: bytes) -> None:
        """Read the next piece of the body.

        Raises:
            Problem: A file, or the body without files, is too large; or the data of a file is not base64.
        """
        piece = self._held + piece
        slashes = len(piece) - len(piece.rstrip(b"\\"))
        self._held = b"\\" * (slashes % 2)
        if self._held:
            piece = piece[:-1]
        at = 0
        while at < len(piece):
            with self._pace:
                at = await self._read_string(piece, at) if self._string else self._read_signs(piece, at)
            await self._pace.rest()
        if len(self.rest) + len(self._string.text if self._string else b"") > self._max_bytes:
            raise too_large(f"the body has more than {self._max_bytes:,} bytes beside the data of its files")

    def finish(self) -> bytes:
        """Return the body without the data of files, once all of it was read."""
        if self._string:  # it is cut off, which its parser finds
            self.rest += b'"' + self._string.text
        return bytes(self.rest + self._held)

    def _read_signs(self, piece: bytes, at: int) -> int:
        """Read what is outside of strings, to the next one. Return where it begins."""
        quote = piece.find(b'"', at)
        end = len(piece) if quote < 0 else quote
        for sign in _SIGNS.findall(piece, at, end):
            if sign == b"{":
                self._within.append("")
            elif sign == b"[":
                self._within.append("*")
            elif sign in b"}]":
                del self._within[-1:]
            self._is_name = sign in b"{," and self._within[-1:] not in (["*"], [])
        self.rest += piece[at:end]
        if quote < 0:
            return end
        is_shallow = len(self._within) <= self._deepest  # a hostile body has a million brackets
        may_be_data = is_shallow and not self._is_name and tuple(self._within) in self._paths
        self._string = _String(self.files if may_be_data else None, self._max_file_bytes)
        return quote + 1

    async def _read_string(self, piece: bytes, at: int) -> int:
        """Read a string, or what the piece has of it. Return where it ends."""
        string = self._string
        assert string is not None
        end = _end_of_string(piece, at)
        await string.add(piece[at:] if end < 0 else piece[at:end])
        if end < 0:
            return len(piece)
        text = await string.finish()
        if self._is_name and self._within:
            self._within[-1] = _name_of(text)
        self.rest += b'"' + text + b'"'
        self._string, self._is_name = None, False
        return end + 1


_SIGNS = re.compile(rb"[{}\[\],]")


def _end_of_string(piece: bytes, at: int) -> int:
    """Return where the quotation mark is that ends a string, or -1."""
    quote = piece.find(b'"', at)
    while True:
        slash = piece.find(b"\\", at, len(piece) if quote < 0 else quote)
        if slash < 0:
            return quote
        at = slash + 2
        if at > quote >= 0:
            quote = piece.find(b'"', at)


def _name_of(text: bytes) -> str:
    try:
        return json.loads(b'"' + text + b'"')
    except ValueError:
        return ""


_DATA = re.compile(rb'((?:data:[^",]{0,300};base64,)?)(?:[A-Za-z0-9+/=\s]|\\.)*\Z', re.DOTALL)
"""The beginning of a string that is data."""

_CUT_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?\Z")


class _String:
    """A string of a body. If it is long, and may be data, it becomes a file."""

    def __init__(self, files: ReceivedFiles | None, most: int) -> None:
        self.text: bytearray = bytearray()
        """The string as it stays in the body; of data its prefix."""
        self._files = files
        self._most = most
        self._is_data = False
        self._raw: bytearray = bytearray()
        """Data that was not decoded yet."""
        self._left = b""
        self._is_padded = False
        self._digest = hashlib.sha256()
        self._size = 0

    async def add(self, raw: bytes) -> None:
        (self._raw if self._is_data else self.text).extend(raw)
        if self._files is not None and not self._is_data and len(self.text) > INLINE_BYTES:
            if (found := _DATA.match(self.text)) is None:
                self._files = None
                return
            self._is_data = True
            prefix = len(found[1])
            self._raw += self.text[prefix:]
            del self.text[prefix:]
        if len(self._raw) >= PIECE_BYTES:
            await asyncio.to_thread(self._decode)

    async def finish(self) -> bytes:
        if not self._is_data or self._files is None:
            return bytes(self.text)
        await asyncio.to_thread(self._decode, is_last=True)
        sha256 = self._digest.hexdigest()
        self._files.finish(sha256, self._size)
        return bytes(self.text) + FileMark(sha256, self._size).text.encode()

    def _decode(self, *, is_last: bool = False) -> None:
        raw = bytes(self._raw)
        self._raw.clear()
        assert self._files is not None
        try:
            if b"\\" in raw:
                if not is_last and (cut := _CUT_ESCAPE.search(raw)):
                    self._raw += cut[0]
                    raw = raw[: cut.start()]
                raw = json.loads(b'"' + raw + b'"', strict=False).encode()
            text = self._left + raw.translate(None, b" \t\r\n")
            whole = len(text) if is_last else len(text) - len(text) % 4
            self._left = text[whole:]
            data = base64.b64decode(text[:whole], validate=True)
        except ValueError as error:
            raise _not_base64() from error
        if data and self._is_padded:
            raise _not_base64()
        self._is_padded = text[:whole].endswith(b"=")
        self._size += len(data)
        if self._size > self._most:
            raise too_large(f"a file has at most {self._most:,} bytes")
        self._digest.update(data)
        self._files.write(data)


def _not_base64() -> Problem:
    return Problem(
        422,
        "invalid_input",
        "the data of a file is not base64",
        then="Send base64 with the standard alphabet.",
        headers={"Connection": "close"},
    )


def too_large(detail: str) -> Problem:
    """Return the problem of a body, or a file of it, that is too large (413)."""
    return Problem(
        413,
        "too_large",
        detail,
        then="Send less; large files are better passed by reference.",
        headers={"Connection": "close"},
    )
