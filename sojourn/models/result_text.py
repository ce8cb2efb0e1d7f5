"""The answers of tools as texts for a model, and one request's notices.

A success is its result as JSON, or the text that the tool returned, then its remarks. A failure is a text of these lines, without those
that would be empty:

    failed: missing_fields
    Correct the arguments and call ops__devices__list again: `site_id` is missing
    - `lines[3].sku` is missing            (all faults, if the line above cannot hold them)
    arguments that fit: {"site_id": "s-1"}
    you sent: {"status": "offline"}

The second line is the hint's message, which names every fault and what would be valid (SR-124, SR-128).
Tools have their names for the model. If an approver edited the call, the text begins with the arguments that ran.

A model copies an example. So if a value of it does not follow from the call, the text has the hint's template,
which the tool refuses until it is completed:

    arguments to complete: {"order_id":"<order_id>","amount":12.5}
    Put values that you were given in place of <...>, and for what is required and absent. Ask for those that you lack.
"""

import json
from collections.abc import Callable
from typing import Any

from sojourn.contracts.plan import PlanInput
from sojourn.contracts.tool_error import RetryHint
from sojourn.contracts.tool_result import Artifact, ToolResult
from sojourn.core.schema.issues import sentence
from sojourn.models.names import Names
from sojourn.values.text import CUT, clip, count_noun

__all__ = ["is_seen", "reminders", "result_text"]

MAX_JSON = 1_500
MAX_ISSUES = 40

_COMPLETE = (
    "Put values that you were given in place of <...>, and for what is required and absent. "
    "Ask for those that you lack."
)
_GIVE = "Use values that you were given, and ask for those that you lack."

MAX_EDITED = 8_000

MAX_REMINDER = 500

MAX_ADVICE = 5_000
"""Most characters of the notice of a hint's advice, which may have a schema."""


def result_text(result: ToolResult, names: Names) -> str:
    text = names.replace_ids(_failure(result)) if result.error else _success(result)
    return text if result.edited_arguments is None else f"{_edited(result.edited_arguments)}\n{text}"


def _edited(arguments: dict[str, Any]) -> str:
    """Return what a model reads first, so that it does not contradict what has run."""
    return f"[the approver changed the arguments of this call to: {clip(_json(arguments), MAX_EDITED)}]"


def reminders(turn: PlanInput, wire_name: Callable[[str], str]) -> list[str]:
    """Return notices of partial results, odd bounds, and tools to be corrected.

    Notices of the run (a refused plan, the last turn, a wait) are system messages of the transcript.
    """
    notices = [_partial(result, wire_name) for result in turn.tool_results if _is_partial(result)]
    restricted = sorted({wire_name(hint.tool) for hint in turn.hints if hint.restrict_to_tool})
    if restricted and turn.finalize is None:
        notices.append(
            f"Correct the call of {' and of '.join(restricted)} as its answer says, or answer without it."
        )
    notices = [clip(text, MAX_REMINDER) for text in notices]
    if turn.finalize is None and any(hint.advice for hint in turn.hints):
        names = Names([spec.id for spec in turn.tools])
        notices += [clip(names.replace_ids(hint.advice), MAX_ADVICE) for hint in turn.hints if hint.advice]
    return notices


def _success(result: ToolResult) -> str:
    value = result.result
    text = value if isinstance(value, str) else _json(value)
    text = "\n".join([text, *result.remarks])
    kept = [each for each in result.artifacts if not (is_seen(each) or each.attachment)]
    if not kept:
        return text
    kinds = ", ".join(f"{artifact.kind} ({count_noun(artifact.size, 'byte')})" for artifact in kept)
    return f"{text}\n[kept for the people who follow the run, and not shown to you: {kinds}]"


def is_seen(artifact: Artifact) -> bool:
    """Check whether models see an artifact: a picture by a tool of this very run."""
    return bool(artifact.media_type) and artifact.run_link is None and artifact.attachment is None


def _failure(result: ToolResult) -> str:
    hint, error = result.retry_hint, result.error
    assert error
    code = (hint and hint.reason) or error.code
    lines = [f"failed: {code}" if code else "failed"]
    lines.append((hint and hint.message) or str(error))
    if error.outcome_unknown and not (hint and hint.outcome_unknown):
        fact = "" if "taken effect" in lines[-1] else "The call may have taken effect. "
        lines.append(f"{fact}Check what happened before you make it again, and then with the same arguments.")
    if hint:
        lines += _more_issues(hint)
        lines += _example(hint)
        if hint.prior_input is not None and hint.issues:
            lines.append(f"you sent: {clip(_json(hint.prior_input), MAX_JSON)}")
    return "\n".join(lines)


def _example(hint: RetryHint) -> list[str]:
    if hint.example_input is not None and not hint.invented:
        return [f"arguments that fit: {clip(_json(hint.example_input), MAX_JSON)}"]
    unknown = {issue.field for issue in hint.issues if issue.constraint == "unknown_field"}
    if not hint.template and unknown.issuperset(hint.invented):
        return []
    shown = [f"arguments to complete: {clip(_json(hint.template), MAX_JSON)}"] if hint.template else []
    return [*shown, _COMPLETE if shown else _GIVE]


def _more_issues(hint: RetryHint) -> list[str]:
    message = hint.message or ""
    if not message.endswith((CUT, " more")):
        return []
    more = len(hint.issues) - MAX_ISSUES
    listed = [f"- {sentence(issue)}" for issue in hint.issues[:MAX_ISSUES]]
    return [*listed, f"and {more} more"] if more > 0 else listed


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _is_partial(result: ToolResult) -> bool:
    return result.bounds is not None and (result.bounds.truncated or result.bounds.note is not None)


def _partial(result: ToolResult, wire_name: Callable[[str], str]) -> str:
    bounds = result.bounds
    assert bounds
    held = (
        count_noun(bounds.returned, "item")
        if bounds.total is None
        else f"{bounds.returned} of {count_noun(bounds.total, 'item')}"
    )
    kind = "is a part" if bounds.truncated else "says how much it holds"
    notice = f"The result of {wire_name(result.name)} {kind}: {held}."
    if bounds.refinement_hint:
        notice += f" To narrow it: {bounds.refinement_hint.rstrip('.')}."
    if bounds.next_cursor:
        notice += f" The next part begins at cursor {bounds.next_cursor!r}."
    if bounds.note:
        notice += f" Do not rely on these figures: {bounds.note}."
    return notice
