"""What a command of a client does, in a loop of its own, with a client that is connected."""

import asyncio
import getpass
from collections.abc import Awaitable, Callable

from temporalio.runtime import Runtime

from sojourn.client.client import Client
from sojourn.logs.core import logging_runtime
from sojourn.storage import StorageDriver

__all__ = ["by_or_user", "with_client"]


def with_client(
    use: Callable[[Client], Awaitable[int]],
    *,
    task_queue: str | None = None,
    storage: StorageDriver | None = None,
) -> int:
    """Connect by the standard Temporal settings, and do it; returns its exit code.

    Raises:
        ServerUnavailable: nothing answers there.
        DefinitionError: a setting cannot be read.
    """

    async def main() -> int:
        # Its warnings would stand among what the command prints.
        Runtime.set_default(logging_runtime(), error_if_already_set=False)
        return await use(await Client.connect(task_queue=task_queue, storage=storage))

    return asyncio.run(main())


def by_or_user(by: str | None) -> str | None:
    """Who acts: as they say, else the user that the machine knows; None where it knows none."""
    if by is not None:
        return by or None
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return None
