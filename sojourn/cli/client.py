"""Connect a command to the server, name its sender, and confirm its action."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from sojourn.cli.options import connection_options, load_app
from sojourn.cli.screen.text import plain, shell_word

if TYPE_CHECKING:
    from sojourn.answers import Answered
    from sojourn.client.client import Client

__all__ = ["by_or_user", "print_answered", "print_done", "with_client", "worker_line"]


def with_client(
    use: "Callable[[Client], Awaitable[int]]",
    *,
    task_queue: str | None = None,
) -> int:
    """Run a command's body with a connected client, and return its exit code.

    Data outside of histories is read from the storage of the app that `SOJOURN_APP` names.
    """
    from temporalio.runtime import Runtime

    from sojourn.client.client import Client
    from sojourn.logs.temporal import logging_runtime

    target = os.environ.get("SOJOURN_APP")
    storage = load_app(target).storage if target else None

    async def main() -> int:
        # By default the SDK core prints its warnings on standard output, between the command's lines.
        Runtime.set_default(logging_runtime(), error_if_already_set=False)
        return await use(await Client.connect(task_queue=task_queue, storage=storage))

    return asyncio.run(main())


def by_or_user(by: str | None) -> str | None:
    """Return the name given with `--by`, or the user name of the operating system."""
    import getpass

    if by is not None:
        return by or None
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return None


def print_done(done: str, run_id: str, *, as_json: bool, by: str | None, then: str = "", **more: Any) -> int:
    """Print the action as one sentence or one JSON object, and return exit code 0."""
    known = {name: value for name, value in more.items() if value is not None}
    if as_json:
        print(json.dumps({"run_id": run_id, "done": done, **({"by": by} if by else {}), **known}))
        return 0
    what = f" {plain(known['await_id'])} of" if "await_id" in known else ""
    print(
        f"{done.replace('_', ' ')}:{what} {plain(run_id, 300)}{f', by {plain(by)}' if by else ''}{f'; {then}' if then else ''}"
    )
    return 0


def print_answered(done: "Answered", *, as_json: bool, **more: Any) -> int:
    """Print that a wait has an answer, now or already, and return exit code 0."""
    then = "it has this answer already, and nothing was changed" if done.already else ""
    mark = {"already": True} if done.already and as_json else {}
    return print_done(
        done.outcome,
        done.run_id,
        as_json=as_json,
        by=done.by,
        then=then,
        await_id=done.await_id,
        **mark,
        **more,
    )


def worker_line(queue: str | None) -> str:
    """Return the command line that starts a worker for a task queue."""
    named = f" --task-queue {shell_word(queue)}" if queue else ""
    return f"sojourn worker MODULE:APP{named}{connection_options()}"
