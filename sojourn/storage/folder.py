"""Store each payload as a file of a folder, named by its SHA-256."""

import asyncio
import hashlib
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from sojourn.private import sync_folder

__all__ = ["FolderStorage"]


class FolderStorage(StorageDriver):
    """Keeps each payload in a file named by its SHA-256.

    All workers and clients share the folder. The storage deletes nothing: delete files whose time
    is older than your namespace's retention and the longest wait of a run. Storing an equal payload
    again, and reading it, renew the time of its file.

    Args:
        folder: The folder; made when the first payload is written.
        name: The driver's name, which tells the claims of several drivers apart.
    """

    def __init__(self, folder: str | Path, *, name: str = "folder") -> None:
        self._folder = Path(folder)
        self._name = name

    def name(self) -> str:
        """Return the driver's name."""
        return self._name

    async def store(
        self, context: StorageDriverStoreContext, payloads: Sequence[Payload]
    ) -> list[StorageDriverClaim]:
        """Write the payloads, equal ones to the same file, and return their claims."""
        del context
        return [
            StorageDriverClaim({"sha256": await asyncio.to_thread(self._write, payload.SerializeToString())})
            for payload in payloads
        ]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """Read the payloads.

        Raises:
            FileNotFoundError: The file was deleted, or is in another folder.
            ValueError: The claim is not one of this storage, or the file was changed.
        """
        del context
        return [
            Payload.FromString(await asyncio.to_thread(self._read, claim.claim_data.get("sha256", "")))
            for claim in claims
        ]

    def _path(self, digest: str) -> Path:
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            raise ValueError("the claim is not one of this storage")
        return self._folder / digest[:2] / digest

    def _write(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        path = self._path(digest)
        with suppress(FileNotFoundError):
            os.utime(path)
            return digest
        missing = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                Path(file.name).replace(path)  # so that no reader gets a half-written file
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
        for folder in (path.parent, *(each.parent for each in missing)):
            sync_folder(folder)
        return digest

    def _read(self, digest: str) -> bytes:
        path = self._path(digest)
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"there is no file {path}: it was deleted, or is in the storage of an app, "
                "which App(storage=...), Client.connect(storage=...) or --app MODULE:APP names; keep files for as long as the runs that wrote them"
            ) from error
        with suppress(OSError):  # a folder that is only read
            os.utime(path)
        if hashlib.sha256(data).hexdigest() != digest:
            raise ValueError(f"the stored payload {digest[:12]}… was changed")
        return data
