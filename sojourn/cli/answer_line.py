"""The `sojourn` command lines that answer a wait, quoted for a shell; what is in capitals is to be replaced."""

import shlex

from sojourn.cli.encrypted import given_again
from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation
from sojourn.core.values.visible import visible

__all__ = ["answer_line", "answer_lines", "word"]


def answer_line(run_id: str, wait: Await) -> str:
    """The usual one."""
    return answer_lines(run_id, wait)[0]


def answer_lines(run_id: str, wait: Await) -> list[str]:
    """All of them, the usual one first."""
    return [line + given_again() for line in _lines(run_id, wait)]


def _lines(run_id: str, wait: Await) -> list[str]:
    run = word(run_id)
    to = f"{run} {word(wait.id)}"
    if isinstance(wait, AwaitClarification):
        said = " ".join(f"--field {word(f'{name}=VALUE')}" for name in wait.missing_fields) or "'YOUR ANSWER'"
        return [f"sojourn answer {to} {said}", f"sojourn answer {to} --decline --why WHY"]
    if isinstance(wait, AwaitConfirmation):
        return [f"sojourn approve {to}", f"sojourn deny {to} --why WHY"]
    calls = [item.tool_call_id for item in wait.items]
    return [
        f"sojourn provide {run} FILE",
        *(f"sojourn provide {run} --result {word(call)}=JSON" for call in calls),
    ]


def word(text: str) -> str:
    """One word of a command line; what cannot be seen stands as an escape that the shell reads back."""
    if visible(text) == text:
        return shlex.quote(text)
    literal = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{visible(literal)}'"
