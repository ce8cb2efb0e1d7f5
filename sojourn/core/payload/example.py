"""Derive an example of a call that works, for a failed call (SR-116, SR-144).

Values are tried in this order of trust: the value sent, in another form with the same meaning (a misspelt name, `"5"`
for 5, JSON inside a string, an enum value in another case); then, unless the field can be left out, a likely reading
(a value just outside its bounds), the tool author's example at the same place, and what the schema determines.
What only these last ones give is marked as invented. A repair may uncover further issues, so the repairs run in rounds.

The first candidate that fits, in this order:

1. the prior input with its issues repaired, which keeps the caller's intent;
2. the tool author's example as a whole;
3. a payload made from the schema's defaults, enums, formats, patterns and bounds.

A schema does not state every rule: a type may have validators of its own. So the type validates each
candidate too. A prior input that fits the schema, as sent or repaired, but is refused by the type is tried
with other values at its issues. After that only 2 is left for it: a payload of made-up values would not keep
the caller's intent.

No example is better than a wrong one: a returned example is valid, and small enough to be sent to a model. It says which
of its values do not follow from the call.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import partial
from typing import Any

from sojourn.contracts.tool_error import FieldIssue
from sojourn.core.payload.coerce import (
    is_blank,
    is_spelling_of,
    keeps_meaning,
    letters,
    list_readings,
    null_differs,
)
from sojourn.core.payload.invented import Example, Tokens, find_invented, is_required, set_value
from sojourn.core.schema.budget import allowance
from sojourn.core.schema.sample import NoSampleError, sample, sample_field
from sojourn.core.schema.validate import Validator
from sojourn.values.json_fault import json_fault
from sojourn.values.json_value import (
    ABSENT,
    Schema,
    expand,
    is_array,
    is_object,
    json_type,
    locate,
    to_tokens,
    value_at,
)
from sojourn.values.text import closest_name
from sojourn.values.wire import MAX_PRIOR_INPUT_BYTES

__all__ = ["Judge", "derive_example", "example_for", "set_value"]

_ROUNDS = 8


def derive_example(
    validator: Validator, payload: dict[str, Any], author_example: Any = None, *, reads: bool = False
) -> Example | None:
    """Return a copy of the payload that fits the schema."""
    repair = _Repair(validator, deepcopy(payload), author_example, reads=reads)
    for _ in range(_ROUNDS):
        issues = validator.issues(repair.payload)
        if not issues:
            return Example(repair.payload, frozenset(repair.invented), frozenset(repair.left_out))
        before = deepcopy(repair.payload)
        repair.rename(issues)
        repair.settle(issues)
        if repair.payload == before:
            return None
    return None


class _Repair:
    """A payload under repair, and which of its values are invented."""

    def __init__(
        self, validator: Validator, payload: dict[str, Any], author_example: Any, *, reads: bool
    ) -> None:
        self.payload = payload
        self.invented: set[Tokens] = set()
        self.left_out: set[Tokens] = set()
        """Optional values that do not fit, and unknown values. A call without them may do more than the planner requested."""
        self._sent: dict[Tokens, Any] = {}
        """The value at each place before the repair."""
        self._validator = validator
        self._author_example = author_example
        self._reads = reads

    def rename(self, issues: list[FieldIssue]) -> None:
        # The intended field is the one with the closest name, a missing one before an absent one. If no name
        # is close, and one field is unknown and one is missing, it is the missing one if it takes the value.
        missing = [to_tokens(issue.field) for issue in issues if issue.constraint == "missing_field"]
        unknown = [to_tokens(issue.field) for issue in issues if issue.constraint == "unknown_field"]
        for tokens in filter(None, unknown):
            *place, name = tokens
            parent = value_at(self.payload, place)
            if not is_object(parent) or name not in parent:
                continue
            wanted = [each[-1] for each in missing if list(each[:-1]) == place and each[-1] not in parent]
            intended = closest_name(name, wanted) or closest_name(name, self._absent(place, parent))
            alone = len(wanted) == 1 and sum(list(each[:-1]) == place for each in unknown if each) == 1
            if intended is None and alone and self._takes((*place, wanted[0]), parent[name]):
                intended = wanted[0]
            if intended is not None:
                self._move(parent, (*place, name), (*place, intended))

    def _move(self, parent: dict[str, Any], tokens: Tokens, to: Tokens) -> None:
        parent[to[-1]] = parent.pop(tokens[-1])
        # Invented values in the old place get their new paths.
        self.invented = {
            (*to, *each[len(tokens) :]) if _is_within(each, tokens) else each for each in self.invented
        }
        if not self._reads and not is_spelling_of(tokens[-1], to[-1]):
            self.invented.add(to)

    def settle(self, issues: list[FieldIssue]) -> None:
        # What else is wrong there shows in the next round.
        done = set[Tokens]()
        for issue in sorted(issues, key=lambda each: each.constraint != "invalid_field_type"):
            tokens = to_tokens(issue.field)
            if tokens not in done:
                self._settle(issue, tokens)
                done.add(tokens)

    def _settle(self, issue: FieldIssue, tokens: Tokens) -> None:
        parent = value_at(self.payload, tokens[:-1])
        if not tokens or not (is_object(parent) or is_array(parent)):
            return
        if issue.constraint == "unknown_field" and is_object(parent):
            self._leave_out(tokens)
            return
        sent = value_at(self.payload, tokens)
        if (sent is ABSENT) != (issue.constraint == "missing_field"):
            return
        is_optional = is_object(parent) and sent is not ABSENT and not is_required(self._validator, tokens)
        if sent is None and is_optional:
            self._remove(tokens)
            return
        readings = list(self._readings(issue, sent))
        guesses = self._reads and not (is_optional and (is_blank(sent) or not sent))
        same = [
            each
            for each in readings
            # The items of a list of lists may be one list: which, only the caller can say.
            if keeps_meaning(issue, sent, each, reads=guesses)
            and not (is_array(parent) and each == [sent])
            and not (self._is_consent(tokens) and letters(sent) != letters(each))
        ]
        if same:
            self._put(tokens, same[0], follows=True)
        elif is_optional:
            self._leave_out(tokens)
        else:
            self._invent(issue, tokens, readings)

    def _invent(self, issue: FieldIssue, tokens: Tokens, readings: list[Any]) -> None:
        # If there is none, leave out the optional field around it.
        for value in (*readings, *self._others(issue)):
            self._put(tokens, value, follows=False)
            return
        if not self._drop_optional(tokens):
            for value in _sample_values(self._validator, tokens):
                self._put(tokens, value, follows=False)
                return

    def _put(self, tokens: Tokens, value: Any, *, follows: bool) -> None:
        # A value that is another form of an invented one is invented, too.
        was = self._sent.setdefault(tokens, value_at(self.payload, tokens))
        beside = dict(parent) if is_object(parent := value_at(self.payload, tokens[:-1])) else ABSENT
        follows = follows and not any(
            _is_within(tokens, each) or _is_within(each, tokens) for each in self.invented
        )
        set_value(value_at(self.payload, tokens[:-1]), tokens[-1], deepcopy(value))
        self._forget(tokens)
        if not follows and not any(_is_within(tokens, each) for each in self.invented):
            root, reads = self._validator.schema, self._reads
            self.invented.update(find_invented(root, value, tokens, was, beside=beside, reads=reads))

    def _remove(self, tokens: Tokens) -> None:
        value_at(self.payload, tokens[:-1]).pop(tokens[-1], None)
        self._forget(tokens)

    def _forget(self, tokens: Tokens) -> None:
        self.invented = {each for each in self.invented if not _is_within(each, tokens)}
        self.left_out = {each for each in self.left_out if not _is_within(each, tokens)}

    def _drop_optional(self, tokens: Tokens) -> bool:
        for length in range(len(tokens), 0, -1):
            parent = value_at(self.payload, tokens[: length - 1])
            if is_object(parent) and not is_required(self._validator, tokens[:length]):
                self._leave_out(tokens[:length])
                return True
        return False

    def _leave_out(self, tokens: Tokens) -> None:
        # A blank value was no choice, unless it may mean null.
        value = self._sent.get(tokens, value_at(self.payload, tokens))
        self._remove(tokens)
        says_nothing = is_blank(value) and not null_differs(self._validator, tokens)
        if not (says_nothing or self._reads):
            self.left_out.add(tokens)

    def _absent(self, place: list[str], parent: dict[str, Any]) -> list[str]:
        root = self._validator.schema
        parts = (part for schema in locate(root, place) for part in expand(root, schema))
        return [name for part in parts for name in part.get("properties", {}) if name not in parent]

    def _is_consent(self, tokens: Tokens) -> bool:
        # Such a value is a consent, so `yes` is not `true`.
        root = self._validator.schema
        parts = [part for found in locate(root, tokens) for part in expand(root, found)]
        return not self._reads and any("const" in part or len(part.get("enum") or ()) == 1 for part in parts)

    def _takes(self, tokens: Tokens, value: Any) -> bool:
        schemas = locate(self._validator.schema, tokens)
        return bool(schemas) and _fits(self._validator, schemas, value)

    def _readings(self, issue: FieldIssue, sent: Any) -> Iterator[Any]:
        # If the type was the issue, a value of the right type is enough: a later round repairs its contents.
        if sent is not ABSENT:
            schemas = locate(self._validator.schema, to_tokens(issue.field))
            for value in list_readings(issue, sent):
                if _is_expected(issue, value) or _fits(self._validator, schemas, value):
                    yield value

    def _others(self, issue: FieldIssue) -> Iterator[Any]:
        # For a broken pattern none is made from the schema alone, which would be a guess.
        tokens = to_tokens(issue.field)
        schemas, example = locate(self._validator.schema, tokens), value_at(self._author_example, tokens)
        others = [] if example is ABSENT else [example]
        others += issue.allowed or []
        yield from (value for value in others if _fits(self._validator, schemas, value))
        if issue.constraint != "invalid_pattern":
            yield from _sample_values(self._validator, tokens)


def _is_within(tokens: Tokens, place: Tokens) -> bool:
    return tokens[: len(place)] == place


def _sample_values(validator: Validator, tokens: Tokens) -> Iterator[Any]:
    schemas = locate(validator.schema, tokens)
    for schema in schemas or [{}]:  # a required field may be declared nowhere
        with suppress(NoSampleError):
            value = sample_field(validator.schema, schema)
            if _fits(validator, schemas, value):
                yield value


def _fits(validator: Validator, schemas: list[Schema], value: Any) -> bool:
    return not schemas or any(validator.is_valid(value, schema=schema) for schema in schemas)


def _is_expected(issue: FieldIssue, value: Any) -> bool:
    expected = (issue.expected_type or "").split(" or ") if issue.constraint == "invalid_field_type" else []
    return json_type(value) in expected or ("number" in expected and json_type(value) == "integer")


Judge = Callable[[dict[str, Any]], bool]
"""Whether a tool's own type accepts a payload that fits the tool's schema."""


def example_for(
    validator: Validator,
    prior: dict[str, Any] | None = None,
    author_example: Any = None,
    *,
    issues: Sequence[FieldIssue] = (),
    fits: Judge | None = None,
    reads: bool = False,
) -> Example | None:
    """Return a valid payload of at most 8 KB, or None."""
    with allowance():
        for candidate in _candidates(validator, prior, author_example, issues if fits else (), reads=reads):
            payload = candidate.payload
            if _is_small_object(payload) and validator.is_valid(payload) and (fits is None or fits(payload)):
                return candidate
    return None


def _candidates(
    validator: Validator,
    prior: dict[str, Any] | None,
    author_example: Any,
    issues: Sequence[FieldIssue],
    *,
    reads: bool,
) -> Iterator[Example]:
    sent = prior if prior is not None and _is_small_object(prior) else None
    repaired = None if sent is None else derive_example(validator, sent, author_example, reads=reads)
    if repaired:
        if repaired.payload != sent:
            yield repaired
        for value_of in (partial(value_at, author_example), partial(_value_at, validator)):
            yield from _replace_values(validator, repaired, issues, value_of, reads=reads)
    if is_object(author_example):
        yield _start_from(validator, author_example, sent, reads=reads)
    is_unexplained = prior is not None and not issues and validator.is_valid(prior)
    if not (repaired and repaired.payload) and not is_unexplained:
        with suppress(NoSampleError):
            yield _start_from(validator, sample(validator.schema, validator.schema), sent, reads=reads)


def _start_from(validator: Validator, payload: dict[str, Any], sent: Any, *, reads: bool) -> Example:
    # Values that both have follow from the call.
    made_up = find_invented(validator.schema, payload, sent=ABSENT if sent is None else sent, reads=reads)
    lost = [] if reads or sent is None else [(name,) for name in sent if name not in payload]
    return Example(payload, frozenset(made_up), frozenset(lost))


def _replace_values(
    validator: Validator,
    prior: Example,
    issues: Sequence[FieldIssue],
    value_of: Callable[[tuple[str, ...]], Any],
    *,
    reads: bool,
) -> Iterator[Example]:
    changed, invented = deepcopy(prior.payload), set(prior.invented)
    for issue in issues:
        tokens = to_tokens(issue.field)
        parent, value = value_at(changed, tokens[:-1]), value_at(changed, tokens)
        other = value_of(tokens) if tokens and value is not ABSENT else ABSENT
        if other is ABSENT or not (is_object(parent) or is_array(parent)):
            return
        set_value(parent, tokens[-1], deepcopy(other))
        invented = {each for each in invented if each[: len(tokens)] != tokens}
        invented.update(find_invented(validator.schema, other, tokens, value, reads=reads))
    if issues:
        yield Example(changed, frozenset(invented), prior.left_out)


def _value_at(validator: Validator, tokens: tuple[str, ...]) -> Any:
    for schema in locate(validator.schema, tokens):
        with suppress(NoSampleError):
            return sample(validator.schema, schema)
    return ABSENT


def _is_small_object(value: Any) -> bool:
    return is_object(value) and json_fault(value, max_bytes=MAX_PRIOR_INPUT_BYTES) is None
