"""Prompt the user without a thread, so that Ctrl-C can end the wait."""

import asyncio
import contextlib
import sys
from collections.abc import Mapping
from typing import Literal

from sojourn.answers import Decision, WaitView
from sojourn.cli.screen.waits import call_lines

__all__ = [
    "CHOICES",
    "UNSEEN",
    "ask_approval",
    "ask_person",
    "ask_yes",
    "begins_with_approval",
    "decision_in",
    "how_to_decide",
    "is_full",
    "read_line",
]

_DECISIONS: Mapping[str, tuple[bool, Literal["call", "tool"]]] = {
    "y": (True, "call"),
    "yes": (True, "call"),
    "n": (False, "call"),
    "no": (False, "call"),
    "a": (True, "tool"),
    "all": (True, "tool"),
}
_FULL = ("f", "full")
CHOICES = "  y or a alone, or n, perhaps with a reason"
"""The reply to a line that decides nothing."""
UNSEEN = "  the call was not shown whole: f shows all of it, then you can approve it"
"""The reply to an approval of a call that was not shown whole."""


async def read_line(patience: float | None = None) -> str:
    """Read a line, or nothing at the end of input or after `patience` seconds."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ready.set)
    try:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ready.wait(), patience)
            return sys.stdin.readline()
        return ""
    finally:
        loop.remove_reader(sys.stdin.fileno())


async def ask_person() -> str | None:
    """Ask for a line that is not blank, or return None at the end of input."""
    while True:
        print("> ", end="", flush=True)
        line = await read_line()
        if not line:
            return None
        if line.strip():
            return line.strip()


def decision_in(line: str) -> Decision | None:
    """Return the decision of `y`, `a`, or `n` with a reason, or None.

    A sentence may begin with `a`, `all` or `yes`, so only the word alone approves.
    """
    word, _, reason = line.strip().partition(" ")
    approved, scope = _DECISIONS.get(word.lower().rstrip(".!,:;"), (None, "call"))
    if approved is None or (approved and reason):
        return None
    return Decision(approved, reason=reason.strip(), scope=scope)


def begins_with_approval(line: str) -> bool:
    """Return whether the first word of a line approves, as in `yes please`."""
    decision = decision_in(line.strip().partition(" ")[0])
    return decision is not None and decision.approved


def how_to_decide(*, is_seen: bool, stop_asking: str = "run") -> str:
    more = "" if is_seen else "   f: show all of it"
    always = (
        "" if stop_asking == "never" else f"   a: run it, and stop asking about this tool this {stop_asking}"
    )
    return f"  y: run it   n WHY: deny it, with a reason{always}{more}"


def is_full(line: str) -> bool:
    return line.strip().lower() in _FULL


async def ask_approval(call: WaitView, patience: float | None = None) -> Decision | None:
    """Ask for a decision, or return None if no line comes.

    A call that was not shown in full can be approved only after `f` has shown all of it.
    """
    is_seen = call_lines(call)[1].is_whole
    print(how_to_decide(is_seen=is_seen, stop_asking=call.stop_asking))
    letters = ["y", "n", *([] if call.stop_asking == "never" else ["a"]), *([] if is_seen else ["f"])]
    choice = f"[{'/'.join(letters)}]"
    while True:
        print(f"Approve? {choice} ", end="", flush=True)
        line = await read_line(patience)
        if not line:
            return None
        decision = decision_in(line)
        if is_full(line):
            print("\n".join(call_lines(call, whole=True)[0]))
            is_seen = True
        elif decision and decision.approved and not is_seen:
            print(UNSEEN)
        elif decision:
            return decision
        elif line.strip():
            print(CHOICES)


async def ask_yes(question: str, otherwise: str = "y or n") -> bool:
    """Prompt until the user answers yes or no. The end of input is a no.

    `otherwise` is the reply to any other line.
    """
    while True:
        print(f"{question} [y/n] ", end="", flush=True)
        line = await read_line()
        if not line or line.strip().lower() in ("n", "no"):
            return False
        if line.strip().lower() in ("y", "yes"):
            return True
        print(f"  {otherwise}")
