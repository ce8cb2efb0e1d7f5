"""Alternatives: a hint never chooses one for the caller, and explains the one whose fields were sent."""

from typing import Any

import pytest

from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import RetryHint
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ToolSpec, TypeSpec
from sojourn.core.awaits.form import form_of
from sojourn.core.payload.boundary import check_payload
from sojourn.core.repair.payload import repair_payload
from sojourn.core.schema.enforceable import forbid_unknown_fields
from sojourn.core.schema.validate import Validator
from sojourn.models.names import Names
from sojourn.models.result_text import result_text

DELETE: dict[str, Any] = {
    "type": "object",
    "properties": {"all": {"const": True}, "id": {"type": "string"}},
    "oneOf": [{"required": ["all"]}, {"required": ["id"]}],
}
SEARCH: dict[str, Any] = {
    "oneOf": [
        {"properties": {"$top": {"type": "integer", "minimum": 1}}, "required": ["$top"]},
        {"properties": {"filter[id]": {"type": "string", "pattern": r"^c-\d+$"}}, "required": ["filter[id]"]},
    ],
    "properties": {"name": {"type": "string"}},
}
PATTERN = "`filter[id]` must match the pattern"


def spec_of(schema: dict[str, Any], example: Any = None) -> ToolSpec:
    payload = TypeSpec(name="Args", json_schema=schema, example=example)
    result = TypeSpec(name="R", json_schema={})
    return ToolSpec(id="shop.carriers.x", title="", description="", payload=payload, result=result)


def refused(spec: ToolSpec, payload: dict[str, Any]) -> tuple[RetryHint, str]:
    """The hint for a refused payload, and what a model reads."""
    answer = check_payload(
        spec, Validator(spec.payload.json_schema), ToolRequest(name=spec.id, payload=payload)
    )
    assert isinstance(answer, ToolResult), f"{payload} was accepted"
    assert answer.retry_hint
    return answer.retry_hint, result_text(answer.model_copy(update={"name": spec.id}), Names([spec.id]))


@pytest.mark.parametrize("example", [None, {"all": True}], ids=["no example", "an author's example"])
def test_of_two_alternatives_none_is_chosen(example: Any, subtests: pytest.Subtests) -> None:
    """If fields of two alternatives were sent, the hint names both, has no example, and asks a person which one it is."""
    rows = [
        (DELETE, {"all": True, "id": "c-7"}, ["all", "id"]),
        (SEARCH, {"filter[id]": "c-1", "$top": 1}, ["filter[id]", "$top"]),
    ]
    for schema, payload, names in rows:
        for closed in (False, True):
            with subtests.test(payload=payload, closed=closed):
                spec = spec_of(forbid_unknown_fields(schema) if closed else schema, example)
                hint, text = refused(spec, payload)
                listed = ", ".join(f"`{name}`" for name in names)
                assert f"again: give only one of {listed}\n" in text
                assert "arguments" not in text.split("\n", 2)[2]
                assert (hint.mended(), hint.example_input, hint.template) == (None, None, None)
                question = hint.question()
                assert question.missing_fields == names
                assert (
                    question.question == f"Which one of {' and '.join(f'`{name}`' for name in names)} "
                    "is it, and what should it be?"
                )
                form = form_of(spec, question.missing_fields)
                assert form
                assert list(form["properties"]) == names


def test_a_person_chooses_between_alternatives() -> None:
    """A person's answer to that question replaces the other alternative."""
    spec, sent = spec_of(DELETE), {"all": True, "id": "c-7"}
    hint, _ = refused(spec, sent)
    assert repair_payload(hint, sent, spec=spec).missing == ["all", "id"]
    chosen = repair_payload(hint, sent, spec=spec, answers={"id": "c-7"})
    assert (chosen.payload, chosen.missing) == ({"id": "c-7"}, [])


def test_the_alternative_that_was_sent_is_explained() -> None:
    """A bad value of one alternative is named by its rule, and is refused also beside a good value of the other one."""
    spec = spec_of(SEARCH)
    assert PATTERN in refused(spec, {"filter[id]": "x1"})[1]
    for closed in (SEARCH, forbid_unknown_fields(SEARCH), {"$ref": "#/$defs/s", "$defs": {"s": SEARCH}}):
        hint, text = refused(spec_of(closed), {"filter[id]": "x1", "$top": 1})
        assert PATTERN in text
        assert "arguments that fit" not in text
        assert hint.mended() is None
    good = {"$top": 1, "name": "a", "more": 2}
    assert check_payload(spec, Validator(SEARCH), ToolRequest(name=spec.id, payload=good)) == good, (
        "undeclared fields of an open schema pass"
    )


def test_an_alternative_is_invented_even_if_it_has_only_one_value() -> None:
    """The constant of an alternative that nobody chose, and `true` in place of `false`, are named as invented."""
    for payload in ({}, {"all": False}):
        hint, text = refused(spec_of(DELETE), payload)
        assert hint.invented == ["/all"]
        assert hint.mended() is None
        assert "arguments that fit" not in text


def test_a_value_that_an_example_leaves_out_is_named() -> None:
    """An example that does not come from the call, and so lacks a value that was sent, cannot be sent as it is."""
    schema = {
        "properties": {"a": {"const": 1}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["a", "b"]}],
    }
    hint, text = refused(spec_of(schema, {"a": 1}), {"a": 1, "b": "x"})
    assert (hint.example_input, hint.invented, hint.mended()) == ({"a": 1}, ["/b"], None)
    assert "arguments that fit" not in text
