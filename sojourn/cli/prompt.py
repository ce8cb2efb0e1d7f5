"""Ask the person at the terminal, without a thread, so that Ctrl-C and silence end the wait."""

import asyncio
import contextlib
import sys

from sojourn.cli.plain import plain
from sojourn.contracts.awaits import AwaitClarification

__all__ = ["ask_approval", "ask_person", "read_line"]

_DECISIONS = {"y": "y", "yes": "y", "n": "n", "no": "n", "a": "a", "all": "a"}


async def read_line(patience: float | None = None) -> str:
    """One line from the terminal, with its end; empty after `patience` seconds of silence or at the end of input."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ready.set)
    try:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ready.wait(), patience)
            return sys.stdin.readline()
        return ""
    finally:
        loop.remove_reader(sys.stdin.fileno())


async def ask_person(question: AwaitClarification) -> str | None:
    """A line that is not blank; None at the end of input. The missing fields are named."""
    for field in question.missing_fields:
        print(f"  wanted: {plain(field)}")
    while True:
        print("> ", end="", flush=True)
        line = await read_line()
        if not line:
            return None
        if line.strip():
            return line.strip()


async def ask_approval(patience: float | None = None) -> tuple[str, str] | None:
    """`y`, `n` or `a`, and the reason given after it; None at the end of input, or of patience."""
    print("  y: run it   n WHY: do not, and say why   a: run it, and stop asking about this tool in this run")
    while True:
        print("Approve? [y/n/a] ", end="", flush=True)
        line = await read_line(patience)
        if not line:
            return None
        word, _, reason = line.strip().partition(" ")
        if decision := _DECISIONS.get(word.lower()):
            return decision, reason.strip()
