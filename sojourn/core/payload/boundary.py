"""Check a payload, a result, and the bounds of a result at the tool boundary.

In: size and depth, parse, validate once. Out: encode by the result's type, artifacts, bounds; then
`result_check`. A failed check becomes a `ToolResult` with a hint. Services need not validate again (SR-118).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeGuard, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from sojourn.contracts.memory import WithMemory
from sojourn.contracts.taint import MAX_SOURCE, FromOutside, Taint, TaintSource
from sojourn.contracts.tool_call import ArgumentReading, InputRequired, ToolRequest
from sojourn.contracts.tool_error import FieldIssue, RetryHint, ToolError
from sojourn.contracts.tool_result import Artifact, Bounds, ToolResult, WithArtifacts
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.payload import hints
from sojourn.core.payload.example import Judge
from sojourn.core.payload.masking import split_issues
from sojourn.core.payload.memory import patch_fault
from sojourn.core.payload.parse import ParseFault, json_fault
from sojourn.core.payload.reading import read_payload, read_text, wrapper_issues
from sojourn.core.schema.validate import Validator, stray_issues
from sojourn.values.json_value import Schema, expand, is_object
from sojourn.values.text import clip, echo
from sojourn.values.visible import inert
from sojourn.values.wire import encode_readable

__all__ = [
    "Answer",
    "bounds_of",
    "build_result",
    "can_state_bounds",
    "check_payload",
    "describe_misfit",
    "inconsistency",
    "is_normalized",
    "issues_of",
    "malformed_result",
    "normalize_call",
    "note_inconsistency",
    "parse_call",
    "parse_payload",
    "picture_type",
    "read_call",
    "refusal",
    "refuse_payload",
    "state_bounds",
]


def can_state_bounds(schema: Schema) -> bool:
    """Check whether a result's schema has `returned`, which bounds require (SR-32)."""
    return any("returned" in part.get("properties", {}) for part in expand(schema, schema))


def state_bounds(result: ToolResult) -> ToolResult:
    bounds = bounds_of(result.result) if result.ok else None
    return result if bounds is None else result.model_copy(update={"bounds": bounds})


def bounds_of(result: Any) -> Bounds | None:
    """Return the bounds that a result states, unchanged.

    None if `returned` is not a count.
    """
    if not isinstance(result, dict):
        return None
    fields = cast("dict[str, Any]", result)
    returned = fields.get("returned")
    if not _is_count(returned):
        return None
    total = fields.get("total")
    made = Bounds(
        returned=returned,
        total=total if _is_count(total) else None,
        truncated=fields.get("truncated") is True,
        refinement_hint=_text(fields.get("refinement_hint")),
        next_cursor=_text(fields.get("next_cursor")),
    )
    return note_inconsistency(made, result)


def note_inconsistency(bounds: Bounds, result: Any) -> Bounds:
    """Add a note on inconsistencies to bounds, for the planner and the operator.

    No number is changed.
    """
    note = inconsistency(bounds, result)
    return bounds.model_copy(update={"note": note}) if note else bounds


def inconsistency(bounds: Bounds | None, result: Any) -> str | None:
    """Describe an inconsistency between a bounded result and its bounds."""
    fields = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
    if bounds is None:
        actual = f", not {echo(fields['returned'])}" if "returned" in fields else ""
        return f"a bounded tool's result is an object with `returned`, a number of items{actual}"
    odd = _inconsistent_figures(bounds, fields) or _inconsistent_texts(fields)
    if odd is None and bounds.truncated and not bounds.refinement_hint and not bounds.next_cursor:
        return "`truncated` without a `refinement_hint` or a `next_cursor`"
    return odd


def _inconsistent_figures(bounds: Bounds, fields: dict[str, Any]) -> str | None:
    returned, total = bounds.returned, bounds.total
    if total is not None and total < returned:
        return f"`total` ({echo(total)}) is less than `returned` ({echo(returned)})"
    if fields.get("total") is not None and total is None:
        return f"`total` is a number of items, or absent, not {echo(fields['total'])}"
    lists = [cast("list[Any]", value) for value in fields.values() if isinstance(value, list)]
    if len(lists) == 1 and len(lists[0]) != returned:
        return f"`returned` is {echo(returned)}, the list holds {len(lists[0])}"
    return None


def _inconsistent_texts(fields: dict[str, Any]) -> str | None:
    for name in ("refinement_hint", "next_cursor"):
        if fields.get(name) and not isinstance(fields[name], str):
            return f"`{name}` is a text, or absent, not {echo(fields[name])}"
    return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


MAX_FORMS = 10

MAX_REQUEST_STATE = 64_000

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Media types of pictures that every model that sees can read."""

Answer = tuple[ToolError, RetryHint | None]
"""The error of a call, and how to repair the call."""

Encode = Callable[[Any], Any]
"""Encodes a typed value as JSON; raises for a value of another type."""


def refusal(call: ToolRequest, answer: Answer) -> ToolResult:
    error, hint = answer
    return ToolResult(name=call.name, tool_call_id=call.tool_call_id, error=error, retry_hint=hint)


def parse_call(call: ToolRequest, injected: Collection[str] = ()) -> ToolRequest | ParseFault:
    """Parse the arguments of a call, or return the fault.

    Everything that decides about the call uses these parsed arguments.
    """
    if call.is_parsed:
        if fault := json_fault(call.payload):
            return fault
        bare = _drop_injected(call.payload, injected)
        return call if bare is call.payload else call.with_arguments(bare)
    text = read_text(call.raw or "")
    if isinstance(text, ParseFault):
        return text
    arguments = _drop_injected(text.payload, injected)
    if text.repairs:
        return call.read_as(arguments, [ArgumentReading(kind=repair) for repair in text.repairs])
    return call.with_arguments(arguments)


def _drop_injected(arguments: dict[str, Any], injected: Collection[str]) -> dict[str, Any]:
    if not any(name in arguments for name in injected):
        return arguments
    return {name: value for name, value in arguments.items() if name not in injected}


def normalize_call(spec: ToolSpec, validator: Validator, call: ToolRequest) -> ToolRequest:
    """Return a call with its parsed arguments normalized to the schema.

    `sojourn.core.payload.reading` has the rules. If there is nothing to normalize, return the same call. An
    executor that decodes by itself gets its arguments unchanged (SR-13).
    """
    if not is_normalized(spec):
        return call
    found = read_payload(validator, call.payload)
    return call.read_as(found.payload, found.readings) if found.readings else call


def is_normalized(spec: ToolSpec) -> bool:
    """Return whether the arguments of a tool are read before they are validated."""
    return spec.kind == "mcp" or not spec.decode_in_executor


def read_call(spec: ToolSpec, call: ToolRequest, fits: Judge | None = None) -> ToolRequest | ToolResult:
    """Parse the arguments of a call and remove injected fields."""
    made = parse_call(call, spec.injected)
    return (
        refusal(call, hints.unparsable_arguments(spec, made, fits)) if isinstance(made, ParseFault) else made
    )


def parse_payload(
    spec: ToolSpec, call: ToolRequest, fits: Judge | None = None
) -> dict[str, Any] | ToolResult:
    """Return the call's payload without injected fields."""
    made = read_call(spec, call, fits)
    return made if isinstance(made, ToolResult) else made.payload


def check_payload(
    spec: ToolSpec, validator: Validator, call: ToolRequest, fits: Judge | None = None
) -> dict[str, Any] | ToolResult:
    """Return the call's payload, valid against the tool's schema."""
    payload = parse_payload(spec, call, fits)
    if isinstance(payload, ToolResult):
        return payload
    if is_normalized(spec):
        found = read_payload(validator, payload)
        payload, is_valid = found.payload, found.fits
    else:
        is_valid = validator.is_valid(payload)
    strays = [*stray_issues(validator, payload), *wrapper_issues(validator, payload)]
    if is_valid and not strays:
        return payload
    explained = {issue.field for issue in strays}
    others = [] if is_valid else validator.issues(payload)
    issues = [*strays, *(each for each in others if each.field not in explained)]
    return refusal(call, hints.hint_for_issues(spec, payload, issues, validator, fits))


def refuse_payload(
    spec: ToolSpec,
    call: ToolRequest,
    sent: dict[str, Any],
    issues: Sequence[FieldIssue],
    validator: Validator,
    fits: Judge | None = None,
) -> ToolResult:
    """Return the result of a call whose payload has these issues."""
    shown, hidden = split_issues(issues, spec.injected)
    if hidden and not shown:
        return refusal(
            call, hints.unavailable(spec.id, "it could not be prepared; this is logged for its operator")
        )
    return refusal(call, hints.hint_for_issues(spec, sent, shown, validator, fits))


def issues_of(error: ValidationError) -> list[FieldIssue]:
    """Convert a pydantic error to issues.

    They come from the validators of a model, for a payload that the schema accepts. At most the first 20 are
    converted.
    """
    return [_issue_of(fault) for fault in error.errors(include_url=False, include_input=False)[:20]]


def _issue_of(fault: ErrorDetails) -> FieldIssue:
    field = "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in fault["loc"])
    if fault["type"] == "timezone_aware":  # the schema takes a time without an offset, and this type does not
        return FieldIssue(field=field, constraint="invalid_format", format="date-time")
    why = fault["msg"].removesuffix(", ")[:200]  # a bare `assert` has no text
    return FieldIssue(field=field, constraint="rejected", expected_type=why)


def build_result(
    spec: ToolSpec,
    call: ToolRequest,
    value: Any,
    encode: Encode,
    artifacts: Mapping[str, Encode] | None = None,
) -> ToolResult:
    """Build the result of a call from the tool's return value.

    If the value is not usable, the result is `malformed_response` with the reason (SR-37, SR-90).
    """
    try:
        result = _encode(value, encode, artifacts)
        if result.input_required:
            return _request_input(spec, call, result.input_required)
        if fault := patch_fault(result.memory):
            raise ValueError(fault)
        bounds = _bounds(spec, result)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        return malformed_result(spec, call, describe_misfit(error)).model_copy(
            update={"taint": _taint_of(value, call)}
        )
    of_call = {"name": call.name, "tool_call_id": call.tool_call_id, "bounds": bounds}
    return result.model_copy(update={**of_call, "taint": _taint_of(value, call), "confirm": None})


def _taint_of(value: Any, call: ToolRequest) -> Taint | None:
    """Return what a tool says of text from outside in its return value."""
    if isinstance(value, FromOutside):
        source = clip(inert(clip(str(cast("FromOutside[Any]", value).source), MAX_SOURCE)), MAX_SOURCE)
        return Taint().adding(
            TaintSource(tool=call.name, tool_call_id=call.tool_call_id, reason="outside", source=source)
        )
    if isinstance(value, WithMemory):
        return _taint_of(cast("WithMemory[Any]", value).result, call)
    return value.taint if isinstance(value, ToolResult) else None


def _bounds(spec: ToolSpec, result: ToolResult) -> Bounds | None:
    # None if a count is negative.
    stated = result.bounds
    if stated is None:
        return bounds_of(result.result) if spec.bounded and result.ok else None
    if stated.returned < 0 or (stated.total or 0) < 0:
        return None
    return note_inconsistency(stated, result.result)


def _encode(value: Any, encode: Encode, encoders: Mapping[str, Encode] | None) -> ToolResult:
    if isinstance(value, FromOutside):
        return _encode(cast("FromOutside[Any]", value).result, encode, encoders)
    if isinstance(value, WithMemory):
        kept = cast("WithMemory[Any]", value)
        return _encode(kept.result, encode, encoders).model_copy(update={"memory": kept.patch})
    if isinstance(value, ToolResult):
        result = encode(value.result) if value.ok and value.result is not None else value.result
        pairs = [(artifact.kind, artifact.data) for artifact in value.artifacts]
        made = _artifacts(pairs, encoders)
        if encoders is None:  # an MCP toolset says itself which pictures models may see
            types = {artifact.kind: artifact.media_type for artifact in value.artifacts}
            made = [each.model_copy(update={"media_type": types[each.kind]}) for each in made]
        return value.model_copy(update={"result": result, "artifacts": made})
    if not isinstance(value, WithArtifacts):
        return ToolResult(result=encode(value))
    whole = cast("WithArtifacts[Any]", value)
    return ToolResult(
        result=encode(whole.result), artifacts=_artifacts(list(whole.artifacts.items()), encoders)
    )


def _artifacts(pairs: Sequence[tuple[str, Any]], encoders: Mapping[str, Encode] | None) -> list[Artifact]:
    """Each kind occurs once, is declared, and has data of its type (SR-105)."""
    made: dict[str, Artifact] = {}
    for kind, data in pairs:
        if encoders is not None and kind not in encoders:
            raise ValueError(
                f"artifact {echo(kind)} is not declared; declared: {', '.join(encoders) or 'none'}"
            )
        if kind in made:
            raise ValueError(f"artifact {echo(kind)} is given twice")
        if data is not None:
            encoded = data if encoders is None else encoders[kind](data)
            shown_as = "" if encoders is None else picture_type(kind, encoded)
            made[kind] = Artifact(kind=kind, media_type=shown_as, data=encoded)
    return list(made.values())


def picture_type(kind: str, data: Any) -> str:
    """Return the media type of an artifact that models can see as a picture.

    It is of kind `image`, with a `mime_type` and `base64`. Empty for any other artifact.
    """
    if kind.partition("_")[0] != "image" or not is_object(data) or not isinstance(data.get("base64"), str):
        return ""
    media_type: Any = data.get("mime_type")
    return media_type if media_type in PICTURES else ""


def _request_input(spec: ToolSpec, call: ToolRequest, needed: InputRequired) -> ToolResult:
    # The question is in the name of the call's toolset unless it names a server.
    state = needed.request_state or ""
    if not needed.forms or len(needed.forms) > MAX_FORMS or len(state) > MAX_REQUEST_STATE:
        why = f"input_required holds 1 to {MAX_FORMS} forms and a state of at most {MAX_REQUEST_STATE:,} characters"
        return malformed_result(spec, call, why)
    if len(encode_readable(needed)) > 2 * MAX_REQUEST_STATE:
        return malformed_result(
            spec, call, f"its forms and its state have more than {2 * MAX_REQUEST_STATE:,} bytes together"
        )
    asks = needed.model_copy(update={"server": needed.server or f"{spec.id.service}.{spec.id.toolset}"})
    return ToolResult(name=call.name, tool_call_id=call.tool_call_id, input_required=asks)


def malformed_result(spec: ToolSpec, call: ToolRequest, why: str) -> ToolResult:
    """Return the result of a call whose tool ran, but returned something unusable."""
    return refusal(call, hints.malformed_response(spec, why))


def describe_misfit(error: Exception) -> str:
    """Return why a value does not fit its type, as a clause that repeats no value."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        return f"{place}: {first['msg']}" if place else first["msg"]
    return clip(str(error), 300)
