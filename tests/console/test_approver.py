"""The approver's view: what a page shows of a call's arguments is what runs, whatever a model has written into them."""

import os
import random
from datetime import timedelta

import pytest

from sojourn import Principal
from sojourn.answers import wait_view
from sojourn.console.answering import read_answer
from sojourn.console.form import Form
from sojourn.console.page import Links, Visit
from sojourn.console.templating import _templates as templates
from sojourn.console.views.values import MOST_ROWS, arguments_of
from sojourn.console.views.waits import form_in_place
from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.tool_call import GivenApproval
from sojourn.network import http_client
from tests.console.approver import json_shown, leaves, table_shown
from tests.console.office import office
from tests.hostile_payloads import payloads

__all__ = ["office"]

PAYLOADS = list(payloads(int(os.environ.get("SOJOURN_CASES", "120"))))

TABLE = '{% from "arguments.html" import arguments_table %}{{ arguments_table(arguments) }}'
ALONE = '{% from "wait_form.html" import wait_form %}{{ wait_form(view, "/here", visit, is_alone=true) }}'
PLACE = '{% from "wait_form.html" import wait_in_place %}{{ wait_in_place(view, "/here", visit) }}'


def same(value, other) -> bool:
    """Whether two values are equal and of one type, all the way down."""
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(same(value[name], other[name]) for name in value)
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(same, value, other))
    return type(value) is type(other) and value == other


def test_the_table_of_arguments_shows_what_runs():
    """Every value is read back from the page as it is, with its path, or from the JSON beside the first 200: hidden characters, escapes, numbers of 64 bits, texts that look like numbers."""
    for payload in PAYLOADS:
        arguments = arguments_of(payload)
        html = templates().from_string(TABLE).render(arguments=arguments)
        shown, expected = table_shown(html), dict(leaves(payload))
        assert len(shown) == min(len(expected), MOST_ROWS)
        for path, value in shown.items():
            assert same(value, expected[path]), path
        assert ("more values: show all" in html) == (len(expected) > MOST_ROWS)
        if arguments.left_out:
            assert same(json_shown(html.partition('class="whole"')[2]), payload)


def test_the_arguments_beside_other_things_show_what_runs():
    """On the page of a run and in a conversation the JSON of the arguments is that of the call."""
    visit = Visit(None, None, Principal(subject="ana", roles=["approver"]), Links(""))  # type: ignore[arg-type]
    page, shown = templates().from_string(PLACE), 0
    for payload in filter(None, PAYLOADS):
        wait = AwaitConfirmation(id="w", tool_call_id="c", tool="a.b.c", payload=payload, payload_digest="d")
        html = page.render(view=form_in_place(wait_view(wait, "r"), lambda _: None), visit=visit)
        if "too long" in html:
            assert 'name="do"' not in html
        else:
            assert same(json_shown(html), payload)
            shown += 1
    assert shown > len(PAYLOADS) / 2


LONG = 100_001


@pytest.mark.parametrize(
    "payload",
    [{"memo": "x" * LONG}, {"x" * LONG: 1}, {f"f{number}": "x" * 1_000 for number in range(300)}],
    ids=["value", "name", "values"],
)
def test_what_is_not_shown_whole_is_not_approved_there(payload):
    """Arguments of which a page shows only a part are approved by the command that shows all of them; they can be denied there."""
    wait = AwaitConfirmation(id="w", tool_call_id="c", tool="a.b.c", payload=payload, payload_digest="d")
    view = form_in_place(wait_view(wait, "r"), lambda _: None)
    visit = Visit(None, None, Principal(subject="ana", roles=["approver"]), Links(""))  # type: ignore[arg-type]
    html = templates().from_string(ALONE).render(view=view, visit=visit)
    assert ('value="approve' in html, 'value="deny"' in html) == (False, True)
    assert "<bdi>r</bdi> <bdi>w</bdi> --full" in html
    for do, is_taken in (
        ("approve", False),
        ("approve_tool", False),
        ("approve_sources", False),
        ("deny", True),
    ):
        body, _ = read_answer(view, Form({"do": [do], "digest": ["d"]}))
        assert (body is not None) == is_taken
    at_most = AwaitConfirmation.model_copy(wait, update={"payload": {"memo": "x" * (LONG - 1)}})
    html = (
        templates()
        .from_string(ALONE)
        .render(view=form_in_place(wait_view(at_most, "r"), lambda _: None), visit=visit)
    )
    assert 'value="approve"' in html


EXTRA = ("1", 1, "\\u202e", "\u202e", "a\u200b", "a", True, "true", None, "null", 2**53, 2**53 + 1)


def test_two_calls_that_differ_look_different():
    """No change of a value, not even of an invisible character or of a type, leaves the page as it was."""
    table, draw = templates().from_string(TABLE), random.Random(7)
    for payload in PAYLOADS:
        changed, other = ({**payload, "extra": draw.choice(EXTRA)} for _ in range(2))
        one, two = (table.render(arguments=arguments_of(each)) for each in (changed, other))
        assert (one == two) == same(changed, other)


async def test_the_receipt_shows_what_was_approved(office):
    """The page of a decided call has the arguments that ran, read back from its table."""
    texts = ["\u202egnp.exe\u202c", "\\u202e", "1e3", "<b>x</b>", "a\u200bb", " "]
    asked = [await office.asks(f"hostile {text}") for text in texts]

    async def decide(http, run, wait) -> None:
        at = f"/inbox/{run.id}/{wait.id}"
        shown = await http.get(at)
        receipt = await http.post(
            at, data={"do": "approve", "digest": wait.payload_digest}, follow_redirects=True
        )
        assert 'id="fate" class="fate is-closed receipt"' in receipt.text
        for page in (shown.text, receipt.text):
            assert table_shown(page.partition('class="arguments"')[2].partition("</section>")[0]) == {
                (name,): value for name, value in wait.payload.items()
            }

    async with http_client(base_url=office.url, headers={"Origin": office.url}, timeout=60) as http:
        for run, wait in asked:
            await decide(http, run, wait)


def test_the_form_says_how_far_several_approvals_are_and_to_whom_they_escalate():
    """Who has approved gets no button for it; the next one does, and so does a role to which it has escalated."""
    given = [GivenApproval(principal=Principal(subject="ana"), by="Ana <b>")]
    wait = AwaitConfirmation(
        id="w",
        tool_call_id="c",
        tool="a.b.c",
        payload={"x": 1},
        payload_digest="d",
        approvers=["lead", "finance"],
        approvals_needed=2,
        steps=["lead", "finance"],
        given=given,
        escalate_after=timedelta(hours=2),
        escalate_to=["director"],
        escalated=True,
    )
    view = form_in_place(wait_view(wait, "r"), lambda _: None)
    page, shown = templates().from_string(ALONE), {}
    for name, role in (("ana", "lead"), ("ben", "finance"), ("kim", "director")):
        visit = Visit(None, None, Principal(subject=name, roles=[role]), Links(""))  # type: ignore[arg-type]
        shown[name] = page.render(view=view, visit=visit)
    for html in shown.values():
        assert "1 of 2 approved: Ana &lt;b&gt;; next: finance" in html
        assert "Escalated to director 2 h after it was asked" in html
    assert 'value="approve"' not in shown["ana"]
    assert "The next approval is another person's." in shown["ana"]
    assert 'value="approve"' in shown["ben"]
    assert 'value="approve"' in shown["kim"]
