"""FolderStorage: each payload is a file, named by its digest."""

import os
from pathlib import Path

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from sojourn.storage import FolderStorage

CONTEXT = StorageDriverStoreContext()
PAYLOAD = Payload(data=b"much")


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_an_equal_payload_renews_the_time_of_its_file(tmp_path: Path) -> None:
    """A file that a recent run refers to is not older than the namespace's retention."""
    storage = FolderStorage(tmp_path)
    (first,) = await storage.store(CONTEXT, [PAYLOAD])
    (path,) = files(tmp_path)
    os.utime(path, (0, 0))
    assert await storage.store(CONTEXT, [PAYLOAD]) == [first]
    assert files(tmp_path) == [path]
    assert path.stat().st_mtime > 0
    assert await storage.retrieve(StorageDriverRetrieveContext(), [first]) == [PAYLOAD]


async def test_a_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk does not fill up with temporary files."""

    def full(_file: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        await FolderStorage(tmp_path).store(CONTEXT, [PAYLOAD])
    assert files(tmp_path) == []


@pytest.mark.parametrize("data", [{}, {"sha256": "../../etc/passwd"}, {"key": "a" * 64}])
async def test_a_claim_of_another_storage_is_refused(tmp_path: Path, data: dict[str, str]) -> None:
    """A claim without a digest is a ValueError, as documented, and no path."""
    with pytest.raises(ValueError, match="not one of this storage"):
        await FolderStorage(tmp_path).retrieve(StorageDriverRetrieveContext(), [StorageDriverClaim(data)])


async def test_a_file_outlives_a_power_cut_as_long_as_its_claim(tmp_path: Path, monkeypatch) -> None:
    """Before a claim is returned, the file and every folder that has got a new name are on disk."""
    synced = list[int]()
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    await FolderStorage(tmp_path / "a" / "b").store(CONTEXT, [PAYLOAD])
    (path,) = files(tmp_path)
    folders = [path.parent, tmp_path / "a" / "b", tmp_path / "a", tmp_path]
    assert synced[0] == path.stat().st_ino
    assert set(synced[1:]) == {folder.stat().st_ino for folder in folders}
