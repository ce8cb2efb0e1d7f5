"""Build the error and the `RetryHint` for each way a call fails at the boundary.

Each reason has one builder, and all texts are here and in `sojourn.core.schema.issues`. So planners, people
and policies never have to parse texts (SR-128, SR-129), and a new reason or a richer hint is one more
function (SR-147). Messages are short, say what was wrong and what to send instead, and repeat no more of the
input than needed (SR-116).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

from sojourn.contracts.tool_error import FieldIssue, RetryHint, RetryReason, ToolError
from sojourn.contracts.tool_spec import APPROVAL_VOID, ToolSpec
from sojourn.core.payload.example import Judge, example_for
from sojourn.core.payload.invented import MAX_INVENTED, Example, placeholder, template_of
from sojourn.core.payload.missing_field import describe_expected, question_about
from sojourn.core.payload.unknown_outcome import changes_nothing
from sojourn.core.schema.annotations import is_secret
from sojourn.core.schema.issues import ONLY_ONE, sentence
from sojourn.core.schema.validate import Validator
from sojourn.values.json_fault import ParseFault, json_fault
from sojourn.values.json_value import (
    ABSENT,
    Schema,
    expand,
    is_object,
    locate,
    to_pointer,
    to_tokens,
    value_at,
)
from sojourn.values.text import CUT, clip, closest_name, echo, field_name, plain
from sojourn.values.wire import MAX_PRIOR_INPUT_BYTES, MAX_RESULT_BYTES

__all__ = [
    "CUT_OFF",
    "EXAMPLE_VALUE",
    "MAX_MESSAGE",
    "changed_since_shown",
    "example_values",
    "hint_for_issues",
    "malformed_response",
    "misfit_remark",
    "oversized_result",
    "rate_limited",
    "timeout",
    "unavailable",
    "unknown_tool",
    "unparsable_arguments",
]

EXAMPLE_VALUE = "example_value"
"""The constraint of a field that holds an example's value, which was not given."""

MAX_MESSAGE = 600

CUT_OFF = "cut_off"
"""Kind of fault and error code of a call in which a model's response was cut off."""

_MAX_NAME = 200
_MAX_SENTENCE = 240
_MAX_SHOWN = 8
_MAX_TOLD = 3
_MAX_FIELDS = 12
_NARROWING = (
    "limit",
    "page_size",
    "max_results",
    "top",
    "count",
    "first",
    "fields",
    "since",
    "until",
    "filter",
    "query",
    "cursor",
)

Failure = tuple[ToolError, RetryHint]


def hint_for_issues(
    spec: ToolSpec,
    payload: Mapping[str, Any],
    issues: Sequence[FieldIssue],
    validator: Validator,
    fits: Judge | None = None,
) -> Failure:
    """Build the failure of a call whose payload has issues."""
    sent, issues = dict(payload), [describe_expected(issue, validator.schema) for issue in issues]
    kept = sent if json_fault(sent, max_bytes=MAX_PRIOR_INPUT_BYTES) is None else None
    missing = [issue for issue in issues if issue.constraint == "missing_field"]
    only_missing = bool(missing) and len(missing) == len(issues)
    faults = _join(
        list(dict.fromkeys(_issue_text(issue, sent, validator) for issue in issues))
        or ["the payload does not fit the schema"]
    )
    reason = RetryReason.MISSING_FIELDS if only_missing else RetryReason.INVALID_ARGUMENTS
    # An example of alternatives that exclude each other would choose one.
    is_ambiguous = any(issue.constraint == ONLY_ONE for issue in issues)
    example = (
        None
        if is_ambiguous
        else example_for(
            validator, kept, spec.payload.example, issues=issues, fits=fits, reads=changes_nothing(spec)
        )
    )
    # A message that ends in "more" is completed by a list of all issues.
    more = (
        ""
        if faults.endswith((CUT, " more"))
        else _advise_leaving_out(sent, issues, example) + _list_known_fields(validator, issues)
    )
    return _failure(
        reason,
        spec.id,
        error=f"invalid arguments for {spec.id}: {faults}",
        message=f"Correct the arguments and call {spec.id} again: {faults}{more}",
        restrict_to_tool=True,
        missing_fields=list(dict.fromkeys(to_tokens(issue.field)[-1] for issue in missing if issue.field)),
        **_example_fields(validator, example, kept),
        prior_input=kept,
        clarifying_question=question_about(spec, issues, validator),
        issues=issues,
    )


def example_values(spec: ToolSpec, payload: dict[str, Any], pointers: Sequence[str]) -> Failure:
    """Build the failure of a call whose values are known only from an example.

    Such values, or placeholders, stand in fields of the payload that were faulty before.
    """
    issues = [FieldIssue(field=each, constraint=EXAMPLE_VALUE) for each in pointers]
    faults = _join([sentence(issue, value_at(payload, to_tokens(issue.field))) for issue in issues])
    open_places = list(
        dict.fromkeys(placeholder(to_tokens(each)) for each in pointers if _is_placeholder(payload, each))
    )
    then = (
        f"Put a value in place of {', '.join(f'`{each}`' for each in open_places[:_MAX_TOLD])}."
        if open_places
        else "If these are theirs, make the same call again."
    )
    return _failure(
        RetryReason.INVALID_ARGUMENTS,
        spec.id,
        error=f"{spec.id} did not run, because no message or result has given a value: {faults}",
        message=f"{spec.id} was not run: {faults}. Use the values of the person you work for, or ask for them. {then}",
        prior_input=payload,
        clarifying_question=question_about(spec, issues, Validator(spec.payload.json_schema)),
        issues=issues,
    )


def unparsable_arguments(spec: ToolSpec, fault: ParseFault, fits: Judge | None = None) -> Failure:
    """Build the failure of a call whose arguments are not a payload."""
    if fault.kind == CUT_OFF:  # nothing is wrong with what is there, and an example would not help
        error = ToolError.new(clip(f"{spec.id} was not run: {fault.message}", MAX_MESSAGE), code=CUT_OFF)
        return error, RetryHint(
            reason=RetryReason.INVALID_ARGUMENTS, tool=spec.id, message=clip(fault.message, MAX_MESSAGE)
        )
    what = f"{fault.message}, near {echo(fault.near)}" if fault.near else fault.message
    mend = _PARSE_MENDS.get(fault.kind, "Send one complete JSON object")
    validator = Validator(spec.payload.json_schema)
    example = example_for(validator, None, spec.payload.example, fits=fits, reads=changes_nothing(spec))
    if example is not None:  # whatever was meant, it is not in the example
        example = replace(example, left_out=frozenset({()}))
    return _failure(
        RetryReason.INVALID_ARGUMENTS,
        spec.id,
        error=f"the arguments for {spec.id} cannot be read: {what}",
        message=f"{mend}; {spec.id} was not run: {what}",
        restrict_to_tool=True,
        **_example_fields(validator, example, None),
        issues=[FieldIssue(field="", constraint="invalid_format", format="json", expected_type="object")],
    )


def unknown_tool(name: str, shown: Sequence[str]) -> Failure:
    """Build the failure of a call to a tool that does not exist.

    It is the same for a tool that the agent may not use: the two must be indistinguishable.
    """
    wanted = plain(name, _MAX_NAME)
    by_last = {tool.split(".", 2)[-1]: tool for tool in shown}
    # The last part distinguishes tools. Whole ids of one toolset are all similar.
    last = get_close_matches(wanted.split(".", 2)[-1], list(by_last), n=3, cutoff=0.6)
    whole = get_close_matches(wanted, shown, n=3, cutoff=0.85)
    names = list(dict.fromkeys([*(by_last[name] for name in last), *whole]))[:3]
    if names:
        advice = f"Did you mean {' or '.join(names)}?"
    elif shown:
        more = f" and {len(shown) - _MAX_SHOWN} more" if len(shown) > _MAX_SHOWN else ""
        advice = f"The tools are {', '.join(shown[:_MAX_SHOWN])}{more}."
    else:
        advice = "There are no tools to call now; answer without one."
    return _failure(
        RetryReason.TOOL_UNAVAILABLE,
        wanted,
        error=f"there is no tool `{wanted}`",
        message=f"There is no tool `{wanted}`. {advice}",
    )


def timeout(name: str, limit: timedelta, *, unknown: bool = True) -> Failure:
    """Build the failure of a tool that did not answer in time.

    Whether it had an effect is unknown, unless the tool changes nothing.
    """
    took = _duration_text(limit)
    error, hint = _failure(
        RetryReason.TIMEOUT,
        name,
        error=f"{name} did not answer within {took}",
        message=f"{name} did not answer within {took}, and may or may not have taken effect. "
        "Ask for less, check what happened before you repeat a change, or use another tool.",
        outcome_unknown=unknown,
    )
    return (error.model_copy(update={"outcome_unknown": True}) if unknown else error), hint


def rate_limited(name: str, message: str, retry_after: timedelta | None = None) -> Failure:
    """Build the failure of a tool over a rate limit."""
    when = f"in {_duration_text(retry_after)}" if retry_after is not None else "later"
    return _failure(
        RetryReason.RATE_LIMITED,
        name,
        error=f"{name} is over a limit: {plain(message, MAX_MESSAGE)}",
        message=f"{name} is over a limit. The same call may succeed {when}; go on without it until then.",
        retry_after=retry_after,
    )


def unavailable(name: str, message: str, retry_after: timedelta | None = None) -> Failure:
    when = (
        f" Try again in {_duration_text(retry_after)}, or"
        if retry_after is not None
        else " Go on without it, or"
    )
    return _failure(
        RetryReason.TOOL_UNAVAILABLE,
        name,
        error=f"{name} is unavailable: {plain(message, MAX_MESSAGE)}",
        message=f"{name} is unavailable now.{when} use another tool. Other arguments will not help.",
        retry_after=retry_after,
    )


def changed_since_shown(name: str, changes: Sequence[str]) -> Failure:
    """Build the failure of a call whose tool has changed since its approval.

    The tool differs from the one that was displayed, so a decision about the call is void.
    """
    what = plain("; ".join(changes), MAX_MESSAGE)
    error = (
        f"{name} was changed since this call was shown for approval ({what}), so that the call did not run"
    )
    _, hint = _failure(
        RetryReason.TOOL_UNAVAILABLE,
        name,
        error=error,
        message=f"{error}. Look at the tool again, and make a new call.",
    )
    return ToolError.new(clip(error, MAX_MESSAGE), code=APPROVAL_VOID), hint


def malformed_response(spec: ToolSpec, detail: Sequence[FieldIssue] | str) -> Failure:
    """Build the failure of a tool whose result does not fit its own schema.

    That is not the caller's fault. The tool ran. So other arguments are suggested only for a tool that
    changes nothing: for every other tool they would be a second effect.
    """
    faults = (
        plain(detail, MAX_MESSAGE)
        if isinstance(detail, str)
        else _join([sentence(issue) for issue in detail])
    )
    advice = (
        "Other arguments may give a good one, or use another tool."
        if changes_nothing(spec)
        else "It may have taken effect: check what happened before you call it again, with the same or with other arguments."
    )
    return _unusable_result(
        spec,
        error=f"{spec.id} gave a result that does not fit its own schema: {faults}",
        message=f"{spec.id} ran, but its result cannot be used. {advice}",
        issues=[] if isinstance(detail, str) else list(detail),
    )


def misfit_remark(detail: Sequence[FieldIssue] | str) -> str:
    """Build the note beside a delivered result that does not fit the tool's schema."""
    faults = detail if isinstance(detail, str) else _join([sentence(issue) for issue in detail])
    return clip(
        f"note: this result does not fit the tool's own schema: {plain(faults, MAX_MESSAGE)}", MAX_MESSAGE
    )


def oversized_result(spec: ToolSpec, size: int, limit: int = MAX_RESULT_BYTES) -> Failure:
    """Build the failure of a tool whose result is larger than a run may hold."""
    known = _names(spec.payload.json_schema, spec.payload.json_schema)
    narrowing = [f"`{name}`" for name in _NARROWING if name in known][:3]
    how = f"Narrow it with {', '.join(narrowing)}" if narrowing else "Ask for a smaller part"
    first = "" if changes_nothing(spec) else " If it changes something, check first what the call did."
    return _unusable_result(
        spec,
        error=f"the result of {spec.id} has {size:,} bytes, more than the {limit:,} allowed",
        message=f"{spec.id} ran, but its result of {size:,} bytes is more than the {limit:,} allowed. {how} and call it again.{first}",
        restrict_to_tool=True,
    )


_PARSE_MENDS = {
    "truncated": "Send the whole JSON object again, and make it shorter if it was cut off",
    "too_large": "Send less",
    "too_deep": "Send a flatter object",
    "empty": "Send a JSON object, `{}` if there is nothing to say",
    "number": "Send the object again with a number that can be kept as it is written",
    "duplicate_key": "Send one JSON object that gives each name once",
}


def _unusable_result(spec: ToolSpec, *, error: str, message: str, **hint: Any) -> Failure:
    unknown = not changes_nothing(spec)
    told, retry_hint = _failure(
        RetryReason.MALFORMED_RESPONSE, spec.id, error=error, message=message, outcome_unknown=unknown, **hint
    )
    return told.model_copy(update={"outcome_unknown": unknown}), retry_hint


def _failure(reason: str, tool: str, *, error: str, message: str, **hint: Any) -> Failure:
    retry_hint = RetryHint(reason=reason, tool=tool, message=clip(message, MAX_MESSAGE), **hint)
    return ToolError.new(clip(error, MAX_MESSAGE), code=reason), retry_hint


def _example_fields(
    validator: Validator, example: Example | None, sent: dict[str, Any] | None
) -> dict[str, Any]:
    if example is None:
        return {}
    return {
        "example_input": example.payload,
        "invented": [to_pointer(each) for each in example.open[:MAX_INVENTED]],
        "template": template_of(validator, example, sent),
    }


def _is_placeholder(payload: dict[str, Any], pointer: str) -> bool:
    tokens = to_tokens(pointer)
    return value_at(payload, tokens) == placeholder(tokens)


def _advise_leaving_out(sent: dict[str, Any], issues: Sequence[FieldIssue], example: Example | None) -> str:
    if example is None:
        return ""
    left = [
        field_name(issue.field)
        for issue in issues
        if issue.constraint != "unknown_field"
        and value_at(sent, to_tokens(issue.field)) is not ABSENT
        and value_at(example.payload, to_tokens(issue.field)) is ABSENT
    ]
    return f"; or leave out {', '.join(dict.fromkeys(left[:_MAX_TOLD]))}" if left else ""


def _list_known_fields(validator: Validator, issues: Sequence[FieldIssue]) -> str:
    # A wrong guess would leave out a field that limits the call.
    places = {
        to_tokens(issue.field)[:-1] for issue in issues if issue.constraint == "unknown_field" and issue.field
    }
    clauses: list[str] = []
    for place in sorted(places)[:_MAX_TOLD]:
        names = list(
            dict.fromkeys(
                name for each in locate(validator.schema, place) for name in _names(validator.schema, each)
            )
        )
        of = f" in {field_name(to_pointer(place))}" if place else ""
        shown = [field_name(to_pointer((name,))) for name in names[:_MAX_FIELDS]]
        more = f" and {len(names) - _MAX_FIELDS} more" if len(names) > _MAX_FIELDS else ""
        clauses.append(
            f"; the fields{of} are {', '.join(shown)}{more}" if shown else f"; there are no fields{of}"
        )
    return clip("".join(clauses), _MAX_SENTENCE) if clauses else ""


def _join(sentences: Sequence[str]) -> str:
    joined, room = "", MAX_MESSAGE - 200
    for index, item in enumerate(sentences):
        text = f"; {item}" if joined else item
        if len(joined) + len(text) > room:
            return f"{joined}; and {len(sentences) - index} more"
        joined += text
    return joined


def _issue_text(issue: FieldIssue, payload: dict[str, Any], validator: Validator) -> str:
    tokens = to_tokens(issue.field)
    close = None
    if issue.constraint == "unknown_field" and tokens:
        sent = value_at(payload, tokens[:-1])
        known = [
            name for each in locate(validator.schema, tokens[:-1]) for name in _names(validator.schema, each)
        ]
        close = closest_name(tokens[-1], [name for name in known if not (is_object(sent) and name in sent)])
    hides = validator.has_secrets and is_secret(validator.schema, tokens)
    value = ABSENT if hides else value_at(payload, tokens)
    return clip(sentence(issue, value, close=close), _MAX_SENTENCE)


def _names(root: Schema, schema: Schema) -> list[str]:
    return [name for part in expand(root, schema) for name in part.get("properties", {})]


def _duration_text(duration: timedelta) -> str:
    seconds = duration.total_seconds()
    if seconds < 120 or seconds % 60:
        return f"{seconds:g} s"
    return f"{seconds / 60:g} min"
