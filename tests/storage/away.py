"""A storage that is away for a while."""

from temporalio.converter import StorageDriverClaim

from sojourn.storage import FolderStorage

__all__ = ["AwayStorage"]

WHY = "cannot connect to https://secret-bucket.example"


class AwayStorage(FolderStorage):
    """Fails its next operations, as a bucket whose service cannot be reached."""

    error: type[Exception] = ConnectionError
    """What it raises; Temporal's own drivers raise a RuntimeError for anything."""
    failing_reads = 0
    failing_writes = 0
    writes = 0

    async def store(self, context, payloads) -> list[StorageDriverClaim]:
        if self.failing_writes:
            self.failing_writes -= 1
            raise self.error(WHY)
        self.writes += 1
        return await super().store(context, payloads)

    async def retrieve(self, context, claims):
        if self.failing_reads:
            self.failing_reads -= 1
            raise self.error(WHY)
        return await super().retrieve(context, claims)
