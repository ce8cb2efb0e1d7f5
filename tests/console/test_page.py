"""Pages of problems, apart from what a visitor opens."""

import pytest

from sojourn.console.form import Form
from sojourn.console.page import Links, problem_page
from sojourn.http.problems import Problem


@pytest.mark.parametrize(
    ("fields", "has_one_effect"),
    [
        ({"message_id": "m1", "made": "x", "text": "hello"}, True),
        ({"do": "switch", "at": "0-000001-00000", "branches": "2"}, True),
        ({"made": "x", "change": "nothing"}, True),
        ({"do": "answer", "await_id": "q", "answer": "this"}, True),
        ({"reason": "lunch"}, False),
        ({"do": "switch", "at": "0-000001-00000"}, False),
        ({"do": "approve", "await_id": "c", "digest": "d"}, False),
    ],
)
def test_only_a_form_with_one_effect_is_offered_again(
    fields: dict[str, str], *, has_one_effect: bool
) -> None:
    """Of another one, and of an approval, whose call is not in view, the page says to look first."""
    form = Form({name: [value] for name, value in fields.items()})
    page = problem_page(
        Problem(503, "service_stops", "the service stops", then=""), Links(""), None, form=form
    )
    text = bytes(page.body).decode()
    assert ("Send again</button>" in text) is has_one_effect
    assert ("it has no second effect" in text) is has_one_effect
    assert ("look at the run first" in text) is not has_one_effect
