"""StorageLink: the storage of a development server: a folder beside its database, and the link by which programs find it."""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from sojourn.private import STORAGE_LINK, is_private, private_folder, runtime_path

__all__ = ["StorageLink"]


class StorageLink:
    """The folder of a server's external storage.

    Args:
        db_filename: The database file, beside which the folder is; None for a server without one, whose folder is
            deleted at its end.
    """

    def __init__(self, db_filename: Path | None) -> None:
        self._is_kept = db_filename is not None
        self._folder = db_filename and db_filename.with_suffix(".storage")
        self._link: Path | None = None

    def make(self, address: str) -> None:
        """Make the folder and the link for a server; without a folder that only this user can enter there is none.

        Args:
            address: `host:port` of the frontend.
        """
        link = runtime_path(address, STORAGE_LINK)
        if link is None:
            return
        try:
            private_folder(link.parent)
            if not is_private(link.parent):
                return
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="sojourn-storage-"))
            private_folder(self._folder)
            self._folder.chmod(0o700)
            link.unlink(missing_ok=True)
            link.symlink_to(self._folder)
        except OSError:
            return  # runs then keep all in their histories, as with a server elsewhere
        self._link = link

    def remove(self) -> None:
        """Remove the link, and the folder of a server without a database file."""
        link, self._link = self._link, None
        if link is None:
            return
        with suppress(OSError):
            if link.readlink() == self._folder:
                link.unlink()
        if not self._is_kept and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
