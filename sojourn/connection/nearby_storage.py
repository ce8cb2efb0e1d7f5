"""Find the storage folder of a development server on this machine.

Programs without a storage setting use it.
"""

from pathlib import Path

from sojourn.private import STORAGE_LINK, is_private, runtime_path
from sojourn.storage import FolderStorage, StorageDriver

__all__ = ["nearby_storage"]


def nearby_storage(server: str) -> StorageDriver | None:
    """Return the storage of a development server on this machine.

    None for any other server.

    Args:
        server: `host:port` of the frontend.
    """
    link = runtime_path(server, STORAGE_LINK)
    if link is None or not is_private(link.parent):
        return None
    try:
        folder = link.readlink()
    except OSError:
        return None
    return FolderStorage(folder) if is_private(Path(folder)) else None
