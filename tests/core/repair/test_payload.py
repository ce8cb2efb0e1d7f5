"""What of a refused payload is mended without asking, and what is left for a person."""

from datetime import date, datetime
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from sojourn import FieldIssue, RetryHint, Toolset
from sojourn.core.payload.hints import hint_for_issues
from sojourn.core.repair.payload import issues_in_hint, repair_payload

tools = Toolset("test.sites")


class Place(BaseModel):
    city: str
    floor: int = 0


class Visit(BaseModel):
    site_id: str
    mode: Literal["online", "offline"]
    limit: Annotated[int, Field(ge=1, le=10)] = 3
    day: date | None = None
    at: datetime | None = None
    code: Annotated[str, Field(pattern="^[a-z]+$", max_length=5)] | None = None
    kind: Annotated[Literal["site"], Field()] = "site"
    place: Place | None = None
    tags: list[str] = []


EXAMPLE = {"site_id": "s-1", "mode": "online"}


@tools.tool(read_only=True, examples=[EXAMPLE])
def look(args: Visit) -> str:
    """Read."""
    return args.mode


@tools.tool(destructive=True, examples=[EXAMPLE])
def wipe(args: Visit) -> str:
    """Destroy."""
    return args.mode


@tools.tool(examples=[EXAMPLE])
def visit(args: Visit) -> str:
    """Do something or other."""
    return args.mode


def mended(tool: Any, sent: dict[str, Any], **known: Any) -> tuple[dict[str, Any], list[str]]:
    """What becomes of a payload, with the hint that the boundary gives for it."""
    issues = tool.validator.issues(sent)
    assert issues, "the payload is valid"
    _, hint = hint_for_issues(tool.spec, sent, issues, tool.validator)
    outcome = repair_payload(hint, sent, spec=tool.spec, **known)
    if not outcome.missing:
        assert tool.validator.is_valid(outcome.payload)
    return outcome.payload, outcome.missing


def site(**fields: Any) -> dict[str, Any]:
    """Make a good payload, less what is given."""
    return {"site_id": "s-9", "mode": "online", **fields}


SAME = [
    pytest.param(site(limit="4"), site(limit=4), id="a number as text"),
    pytest.param(site(mode="OFFLINE"), site(mode="offline"), id="a word in other letters"),
    pytest.param(site(code=" abc "), site(code="abc"), id="blanks around"),
    pytest.param(site(day="2027-01-04T10:00:00Z"), site(day="2027-01-04"), id="the day of a moment"),
    pytest.param({"siteId": "s-9", "mode": "online"}, site(), id="a name in another case"),
    pytest.param(site(LIMIT=4), site(limit=4), id="an optional name in another case"),
    pytest.param(site(limit=None), site(), id="null for what may be left out"),
    pytest.param(site(tags="a"), site(tags=["a"]), id="one for a list of one"),
    pytest.param(site(place='{"city": "Lisbon"}'), site(place={"city": "Lisbon"}), id="JSON in a text"),
    pytest.param(
        site(place={"city": "Lisbon", "floor": "2"}), site(place={"city": "Lisbon", "floor": 2}), id="nested"
    ),
]
GUESSED = [
    pytest.param(site(limit=99), site(limit=10), ["limit"], id="a number out of range"),
    pytest.param(site(mode="offlne"), site(mode="offline"), ["mode"], id="a misspelt word"),
    pytest.param(site(colour="red"), site(), ["colour"], id="an unknown field"),
    pytest.param({"sit_id": "s-9", "mode": "online"}, site(), ["sit_id", "site_id"], id="a misspelt name"),
    pytest.param(
        site(at="2027-01-04T10:00"), site(at="2027-01-04T10:00:00Z"), ["at"], id="a moment of no zone"
    ),
]
MADE_UP = [
    pytest.param({"mode": "online"}, ["site_id"], id="a required id"),
    pytest.param({"site_id": "s-9"}, ["mode"], id="the first of a few words"),
    pytest.param(site(mode="inactive"), ["mode"], id="a word that means something else"),
    pytest.param(site(day="tomorrow"), ["day"], id="a day"),
    pytest.param(site(code="abcdefgh"), ["code"], id="a text cut to its length"),
    pytest.param(site(place={"floor": 1}), ["/place/city"], id="a nested field"),
    pytest.param(site(limit="many"), ["limit"], id="a number that is none"),
]


@pytest.mark.parametrize("tool", [look, wipe, visit])
@pytest.mark.parametrize(("sent", "payload"), SAME)
def test_another_form_of_the_same_is_mended_for_any_tool(tool, sent, payload):
    """What was sent is read as it was surely meant, whatever the tool does to the world (SR-92, SR-145)."""
    assert mended(tool, sent) == (payload, [])


@pytest.mark.parametrize(("sent", "payload", "missing"), GUESSED)
def test_a_likely_guess_is_made_only_for_a_tool_that_reads(sent, payload, missing):
    """Where a wrong guess would change something, it is left for a person; undeclared counts as a change."""
    assert mended(look, sent) == (payload, [])
    for tool in (wipe, visit):
        unchanged, left = mended(tool, sent)
        assert left == missing
        assert unchanged == sent


@pytest.mark.parametrize("tool", [look, wipe, visit])
@pytest.mark.parametrize(("sent", "missing"), MADE_UP)
def test_nothing_is_made_up(tool, sent, missing):
    """A value of the example that nobody sent is never taken, for reading neither: it may be the wrong site."""
    assert mended(tool, sent)[1] == missing


def test_a_default_fills_what_is_absent_and_replaces_nothing():
    """The planner's default stands in for an absent field, never for a refused value."""
    assert mended(wipe, {"mode": "online"}, defaults={"site_id": "s-3"}) == (site(site_id="s-3"), [])
    assert mended(wipe, site(mode="gone"), defaults={"mode": "offline"})[1] == ["mode"]


def test_what_the_schema_determines_is_no_guess():
    """A required field with a constant or a default in the schema is filled in."""
    hint = RetryHint(reason="missing_fields", tool=wipe.id, missing_fields=["kind", "limit"])
    assert repair_payload(hint, site(), spec=wipe.spec).payload == site(kind="site", limit=3)


def test_an_answer_settles_any_fault_but_not_by_repeating_it():
    """A person's value is taken for a faulty field, unless it is what was refused; a default yields to it."""
    sent = {"site_id": "s-9", "mode": "gone"}
    assert mended(wipe, sent, answers={"mode": "offline"}) == (site(mode="offline"), [])
    assert mended(wipe, sent, answers={"mode": "gone"})[1] == ["mode"]
    answered = mended(wipe, {"mode": "online"}, answers={"site_id": "s-4"}, defaults={"site_id": "s-3"})
    assert answered == (site(site_id="s-4"), [])


def test_an_answer_may_tell_more_but_replaces_nothing_else():
    """Fields of the tool that were not sent are taken along; what was not at fault stays, the rest is ignored."""
    told = {"site_id": "s-4", "limit": 2, "mode": "offline", "weather": "fine"}
    assert mended(wipe, {"mode": "online"}, answers=told) == (site(site_id="s-4", limit=2), [])


def test_an_answer_to_a_nested_field_is_by_its_pointer():
    """So that two fields of one name are told apart."""
    assert mended(wipe, site(place={"floor": 1}), answers={"/place/city": "Faro"}) == (
        site(place={"floor": 1, "city": "Faro"}),
        [],
    )


@pytest.mark.parametrize(
    ("hint", "fields"),
    [
        ({"missing_fields": ["mode"]}, ["/mode"]),
        (
            {
                "missing_fields": ["mode"],
                "issues": [
                    FieldIssue(field="/mode", constraint="missing_field"),
                    FieldIssue(field="/limit", constraint="rejected"),
                ],
            },
            ["/mode", "/limit"],
        ),
        ({"example_input": {"site_id": "s-9", "mode": "offline", "limit": 1}}, ["/mode", "/limit"]),
        ({}, []),
        ({"issues": [FieldIssue(field="", constraint="rejected")]}, [""]),
    ],
)
def test_the_faults_of_a_hint(hint, fields):
    """They are its issues and its missing fields; of a tool's own hint with an example only, what differs."""
    told = RetryHint(reason="invalid_arguments", tool=wipe.id, **hint)
    assert [issue.field for issue in issues_in_hint(told, site())] == fields


def test_a_tool_s_own_example_is_not_taken_for_what_was_meant():
    """A hint without issues says that another payload works, not that it is the one wanted."""
    hint = RetryHint(
        reason="invalid_arguments", tool=wipe.id, example_input={"site_id": "s-1", "mode": "online"}
    )
    assert repair_payload(hint, site(), spec=wipe.spec).missing == ["site_id"]


def test_an_unknown_tool_counts_as_a_change():
    """Without a spec only the form is mended."""
    hint = RetryHint(
        reason="invalid_arguments",
        tool="a.b.c",
        example_input={"n": 10, "flag": True, "list": []},
        issues=[
            FieldIssue(field="/n", constraint="invalid_range", maximum=10),
            FieldIssue(field="/flag", constraint="invalid_field_type", expected_type="boolean"),
            FieldIssue(field="/gone/deep", constraint="invalid_format"),
            FieldIssue(field="/list/0", constraint="invalid_field_type", expected_type="string"),
            FieldIssue(field="/gone/deeper", constraint="unknown_field"),
            FieldIssue(field="", constraint="rejected"),
        ],
    )
    sent = {"n": 11, "flag": "yes", "list": [None]}
    assert repair_payload(hint, sent) == repair_payload(hint, sent, answers={"other": 1})
    assert repair_payload(hint, sent).payload == {"n": 11, "flag": True, "list": [None]}
    assert repair_payload(hint, sent).missing == ["n", "/list/0"]
    assert sent == {"n": 11, "flag": "yes", "list": [None]}
