"""What commands of a client share: the connection, who acts, and what is printed when something was sent."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from sojourn.cli.screen.text import plain

if TYPE_CHECKING:
    from sojourn.client.client import Client
    from sojourn.storage import StorageDriver

__all__ = ["by_or_user", "tell_done", "with_client"]


def with_client(
    use: "Callable[[Client], Awaitable[int]]",
    *,
    task_queue: str | None = None,
    storage: "StorageDriver | None" = None,
) -> int:
    """Connect by the standard Temporal settings, and use the client in a loop of its own; returns the exit code.

    Raises:
        ServerUnavailable: nothing answers there.
        DefinitionError: a setting cannot be read.
    """
    from temporalio.runtime import Runtime

    from sojourn.client.client import Client
    from sojourn.logs.core import logging_runtime

    async def main() -> int:
        # Its warnings would stand among what the command prints.
        Runtime.set_default(logging_runtime(), error_if_already_set=False)
        return await use(await Client.connect(task_queue=task_queue, storage=storage))

    return asyncio.run(main())


def by_or_user(by: str | None) -> str | None:
    """Who acts: as they say, else the user that the machine knows; None where it knows none."""
    import getpass

    if by is not None:
        return by or None
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return None


def tell_done(done: str, run_id: str, *, as_json: bool, by: str | None, **more: Any) -> int:
    """Print what was done, as one sentence or one object; returns exit code 0.

    Args:
        done: Past tense, such as `approved`.
        run_id: The run it went to.
        as_json: One JSON object in place of a sentence.
        by: Who did it, as recorded.
        more: What else is known, such as `await_id`; what is None is left out.
    """
    known = {name: value for name, value in more.items() if value is not None}
    if as_json:
        print(json.dumps({"run_id": run_id, "done": done, **({"by": by} if by else {}), **known}))
        return 0
    what = f" {plain(known['await_id'])} of" if "await_id" in known else ""
    print(f"{done.replace('_', ' ')}:{what} {plain(run_id, 300)}{f', by {plain(by)}' if by else ''}")
    return 0
