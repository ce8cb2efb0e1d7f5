"""The `sojourn` command line that answers a wait."""

import shlex

from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation

__all__ = ["answer_line"]


def answer_line(run_id: str, wait: Await) -> str:
    """The command, quoted for a shell; what is in capitals is to be replaced."""
    if isinstance(wait, AwaitClarification):
        command = ["sojourn", "answer", run_id, wait.id, "YOUR ANSWER"]
    elif isinstance(wait, AwaitConfirmation):
        command = ["sojourn", "approve", run_id, wait.id]
    else:
        command = ["sojourn", "provide", run_id, "FILE"]
    return shlex.join(command)
