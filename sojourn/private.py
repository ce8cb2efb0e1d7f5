"""Files and folders that only their owner can read, since they hold the contents of runs."""

import contextlib
import os
from pathlib import Path

__all__ = ["keep_private", "private_folder", "private_opener", "write_private"]

_FILE = 0o600
_FOLDER = 0o700
_OURS = ".sojourn"


def private_opener(path: str, flags: int) -> int:
    """Open a file with mode 0600, also one that exists; for `open(..., opener=private_opener)`."""
    descriptor = os.open(path, flags, _FILE)
    with contextlib.suppress(PermissionError):  # the file of another user, who lets us write
        os.fchmod(descriptor, _FILE)
    return descriptor


def write_private(path: Path, text: str) -> None:
    """Write a text to a file of mode 0600."""
    with open(path, "w", encoding="utf-8", opener=private_opener) as file:
        file.write(text)


def keep_private(path: Path) -> None:
    """Set the mode of a file to 0600, if it exists and is ours."""
    with contextlib.suppress(FileNotFoundError, PermissionError):
        path.chmod(_FILE)


def private_folder(folder: Path) -> None:
    """Make a folder and its missing parents, with mode 0700; existing folders keep their modes.

    A new `.sojourn` gets a `.gitignore`, so that git does not see what is in it.

    Raises:
        OSError: The folder cannot be made, or a file has its name.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=_FOLDER, exist_ok=True)
        if path.name == _OURS:
            write_private(path / ".gitignore", "*\n")
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is not a folder")
