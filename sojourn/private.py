"""Private: files and folders that only their owner reads, since they hold what runs were told."""

import contextlib
import os
from pathlib import Path

__all__ = ["keep_private", "private_folder", "private_opener", "write_private"]

_FILE = 0o600
_FOLDER = 0o700


def private_opener(path: str, flags: int) -> int:
    """For `open(..., opener=private_opener)`: 0600, also where the file was there already."""
    descriptor = os.open(path, flags, _FILE)
    with contextlib.suppress(PermissionError):  # somebody else's, who lets us write
        os.fchmod(descriptor, _FILE)
    return descriptor


def write_private(path: Path, text: str) -> None:
    """Write a file of this text."""
    with open(path, "w", encoding="utf-8", opener=private_opener) as file:
        file.write(text)


def keep_private(path: Path) -> None:
    """Make a file that is there 0600."""
    with contextlib.suppress(FileNotFoundError, PermissionError):
        path.chmod(_FILE)


def private_folder(folder: Path) -> None:
    """Make a folder and those above it; 0700 what is made, while what was there stays as it is."""
    missing = [folder, *folder.parents]
    for each in reversed([one for one in missing if not one.exists()]):
        each.mkdir(mode=_FOLDER, exist_ok=True)
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is no folder")
