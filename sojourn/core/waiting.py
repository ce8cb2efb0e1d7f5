"""What Temporal's own screens say while a run waits for a person."""

import json
import shlex

from sojourn.contracts.awaits import AwaitClarification

__all__ = ["details_of"]


def details_of(run_id: str, question: AwaitClarification) -> str:
    """Markdown: the question, fenced because it comes from outside, and the command that answers it."""
    answer = json.dumps({"id": question.id, "answer": "YOUR ANSWER"}, ensure_ascii=False)
    command = (
        f"temporal workflow signal --workflow-id {shlex.quote(run_id)} "
        f"--name provide_clarification --input {shlex.quote(answer)}"
    )
    wanted = f"\nWanted: {', '.join(question.missing_fields)}\n" if question.missing_fields else ""
    return f"**Waiting for an answer** to `{question.id}`\n\n{_fence(question.question)}\n{wanted}\n{_fence(command)}"


def _fence(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    printable = "".join(c for c in text if c.isprintable() or c == "\n")
    return f"{fence}\n{printable}\n{fence}"
