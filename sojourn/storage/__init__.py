"""Store data that is too large for a run's history, which keeps only a claim.

The package stores data, and translates the errors of storages. A driver is Temporal's
`temporalio.converter.StorageDriver`: `folder` is one for a folder, `s3` and `gcs` open Temporal's
own for a bucket. Only those two import the clients of their services, which takes a second. The
package imports nothing else of Sojourn but its errors. Begin at `claims`.
"""

from temporalio.converter import StorageDriver

from sojourn.storage.bucket import held_open
from sojourn.storage.claims import StoredContext, codec_for, load, load_bytes, store, store_bytes
from sojourn.storage.folder import FolderStorage

__all__ = [
    "FolderStorage",
    "StorageDriver",
    "StoredContext",
    "codec_for",
    "held_open",
    "load",
    "load_bytes",
    "store",
    "store_bytes",
]
