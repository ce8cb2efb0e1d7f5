"""What a command that sent something to a run prints: one sentence, or one object."""

import json
from typing import Any

from sojourn.cli.plain import plain

__all__ = ["tell_done"]


def tell_done(done: str, run_id: str, *, as_json: bool, by: str | None, **more: Any) -> int:
    """Print what was done; returns exit code 0.

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
