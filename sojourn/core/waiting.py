"""What Temporal's own screens say while a run waits for a person."""

import json
import shlex

from sojourn.contracts.awaits import AwaitClarification

__all__ = ["details_of"]


def details_of(run_id: str, question: AwaitClarification) -> str:
    """Markdown: the question, fenced because it comes from outside, and the command that answers it."""
    wanted = [f"Wanted: {', '.join(question.missing_fields)}"] if question.missing_fields else []
    asked = "\n".join([question.question, *wanted])
    return f"**Waiting for an answer:**\n\n{_fence(asked)}\n\n{_command(run_id, question.id)}"


def _command(run_id: str, await_id: str) -> str:
    if not run_id.isprintable():
        return "Answer by the signal `provide_clarification`; no command can be shown for this run's id."
    answer = json.dumps({"id": await_id, "answer": "YOUR ANSWER"})
    return _fence(
        f"temporal workflow signal --workflow-id {shlex.quote(run_id)} "
        f"--name provide_clarification --input {shlex.quote(answer)}"
    )


def _fence(text: str) -> str:
    """The text as a code block that it cannot leave, less what is not printable."""
    printable = "".join(c for c in text if c.isprintable() or c == "\n")
    fence = "```"
    while fence in printable:
        fence += "`"
    return f"{fence}\n{printable}\n{fence}"
