"""Fields by names that every provider accepts, and back."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from sojourn import RetryHint
from sojourn.contracts.tool_error import FieldIssue
from sojourn.models.projection import Keys

LEGAL = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
NAMES = st.text(max_size=80) | st.sampled_from(
    ["$top", "top", "filter[id]", "filter_id", "", "名前", "a/b~c", "x" * 65]
)


def test_a_field_has_its_readable_characters() -> None:
    """The model's name of a field is what is legal of its own, with digits of its hash where that is not enough."""
    keys = Keys(["$top", "filter[id]", "Account Number", "名前", "", "x" * 65, "a", "@a"])
    assert [keys.name_of(name) for name in ("$top", "filter[id]", "Account Number", "a")] == [
        "top",
        "filter_id",
        "Account_Number",
        "a",
    ]
    assert keys.name_of("名前") == "field_7ec26292"
    assert keys.name_of("@a") == "a_5e75a6ff"
    assert not Keys(["a", "b.c-d_1"])


@given(st.lists(NAMES, unique=True, max_size=8))
@example(["$top", "top", "@top"])
def test_fields_have_different_legal_names_and_lead_back(names: list[str]) -> None:
    """Every field has a legal name of its own, which leads back to it."""
    keys = Keys(names)
    sent = [keys.name_of(name) for name in names]
    assert all(map(LEGAL.match, sent))
    assert len(set(sent)) == len(names)
    arguments = {name: index for index, name in enumerate(names)}
    assert dict(keys.to_tool(keys.to_model(arguments))) == arguments


def test_a_field_by_its_own_name_stays() -> None:
    """A model that knows the tool's own names may use them; a field under both names is for the boundary to refuse."""
    keys = Keys(["$top"])
    assert keys.to_tool({"$top": 1}) == [("$top", 1)]
    assert keys.to_tool({"$top": 1, "top": 2}) == [("$top", 1), ("$top", 2)]


def test_a_hint_has_the_model_s_names() -> None:
    """All that a model reads of a hint has the names by which it knows the fields."""
    hint = RetryHint(
        reason="missing_fields",
        tool="a.b.c",
        message="`$top` is required; `filter[id].x` must be an integer; `$topmost` is not a known field",
        missing_fields=["$top"],
        example_input={"$top": 1},
        prior_input={"filter[id]": {"x": "1"}},
        issues=[
            FieldIssue(field="/$top", constraint="missing_field"),
            FieldIssue(field="", constraint="rejected"),
        ],
    )
    read = Keys(["$top", "filter[id]"]).in_hint(hint)
    assert (
        read.message == "`top` is required; `filter_id.x` must be an integer; `$topmost` is not a known field"
    )
    assert (read.missing_fields, read.example_input, read.prior_input) == (
        ["top"],
        {"top": 1},
        {"filter_id": {"x": "1"}},
    )
    assert [issue.field for issue in read.issues] == ["/top", ""]
