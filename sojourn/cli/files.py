"""Files that are there whole or not at all; private, where they hold what a run was told."""

import os
import tempfile
from pathlib import Path
from typing import Self

from sojourn.cli.exit_codes import CommandError
from sojourn.private import private_folder, private_opener

__all__ = ["JsonLines", "make_folder", "write_whole"]


class JsonLines:
    """A private file of one JSON object a line; a context manager.

    Args:
        path: In a folder that is there.
    """

    def __init__(self, path: Path) -> None:
        self._file = open(path, "w", encoding="utf-8", opener=private_opener)  # noqa: SIM115 - closed on exit
        self.count = 0
        """Lines written."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()

    def write(self, line: str) -> None:
        """Add one object."""
        self._file.write(line + "\n")
        self.count += 1


def make_folder(folder: Path, *, private: bool = False) -> None:
    """Make a folder and those above it.

    Raises:
        CommandError: it cannot be made.
    """
    try:
        private_folder(folder) if private else folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"cannot make the folder {folder}: {error.strerror or error}") from error


def write_whole(path: Path, text: str) -> None:
    """Write a file beside its place and move it there; its folder is made.

    Raises:
        CommandError: it cannot be written.
    """
    make_folder(path.parent)
    place = ""
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            place = file.name
            file.write(text)
        os.chmod(place, 0o666 & ~_umask())
        os.replace(place, path)
    except OSError as error:
        Path(place).unlink(missing_ok=True) if place else None
        raise CommandError(f"cannot write {path}: {error.strerror or error}") from error


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
