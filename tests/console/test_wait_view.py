"""The view of a wait: what is long is shown, and what is too long says so."""

from datetime import UTC, datetime

import pytest

from sojourn import AwaitClarification, Principal
from sojourn.answers import wait_view
from sojourn.console.page import Links, Visit
from sojourn.console.templating import _templates as templates
from sojourn.console.templating import render
from sojourn.console.views.waits import MAX_TEXT, wait_form
from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import Annotations, ShownTool
from sojourn.timeline import Call


def view_of(wait, asked=""):
    """The form of an open wait."""
    return wait_form(wait_view(wait, "r-1"), lambda _: None, asked=asked)


@pytest.mark.parametrize(("length", "is_cut"), [(6_000, False), (MAX_TEXT, False), (MAX_TEXT + 1, True)])
def test_a_long_question_is_shown_and_what_is_cut_is_named(length, is_cut):
    """A question, what it explains and what was asked are whole up to a bound; beyond it the view names what it has cut."""
    text = "x" * (length - 1) + "!"
    view = view_of(AwaitClarification(question=text, clarifying_prompt=text), asked=text)
    for shown in (view.prompt, view.detail, view.asked):
        assert shown == text[:MAX_TEXT]
    assert view.cut == (frozenset({"prompt", "detail", "asked"}) if is_cut else frozenset())


def test_the_changes_of_a_tool_and_a_long_prompt_are_shown():
    """An approval has all of its prompt and of the changes of its tool; where there are too many, the view says so."""
    call = {"id": "w", "tool_call_id": "c", "tool": "shop.refund", "payload": {}, "payload_digest": "d"}
    long = "y" * 3_000
    view = view_of(AwaitConfirmation(**call, prompt=long, changes=[long]))
    assert (view.prompt, view.changes, view.cut) == (long, (long,), frozenset())
    assert view_of(AwaitConfirmation(**call, changes=["z"] * 51)).cut == {"changes"}
    assert view_of(AwaitConfirmation(**call, changes=["z" * (MAX_TEXT + 1)])).cut == {"changes"}


def test_who_is_offered_to_approve():
    """An approver is offered to approve a call and to deny it; whoever asked for one that takes four eyes may only deny it."""
    ana, ben = (Principal(subject=name, roles=["approver"]) for name in ("ana", "ben"))
    call = {"id": "w", "tool_call_id": "c", "tool": "shop.refund", "payload": {}, "payload_digest": "d"}
    view = view_of(AwaitConfirmation(**call, four_eyes=True, asked_by=Principal(subject="ana")))
    assert (view.wait.may_answer(ana), view.wait.may_approve(ana)) == (True, False)
    assert (view.wait.may_answer(ben), view.wait.may_approve(ben)) == (True, True)
    user = Principal(subject="eva", roles=["user"])
    assert (view.wait.may_answer(user), view.wait.may_approve(user)) == (False, False)
    question = view_of(AwaitClarification(question="which?"))
    assert (
        question.wait.may_answer(user),
        question.wait.may_answer(ana),
        question.wait.may_approve(ana),
    ) == (
        True,
        False,
        False,
    )


@pytest.mark.parametrize("is_known", [True, False])
def test_a_call_that_may_have_taken_effect_says_so(is_known):
    """Of a call that repeats one whose outcome is unknown the first sentence says so, and none that nothing more changes."""
    call = {"id": "w", "tool_call_id": "c", "tool": "shop.refund", "payload": {}, "payload_digest": "d"}
    shown = ShownTool(annotations=Annotations(idempotent=True)) if is_known else None
    first, again = (
        [
            each.text
            for each in view_of(AwaitConfirmation(**call, shown=shown, outcome_unknown=said)).consequences
        ]
        for said in (False, True)
    )
    assert "An earlier attempt may have taken effect" in again[0]
    assert not any("earlier attempt" in text for text in first)
    assert ("Safe to repeat (idempotent)." in first) is is_known
    assert "Safe to repeat (idempotent)." not in again


def test_an_approval_that_a_flow_asks_for_is_not_said_to_change_nothing():
    """Above the question of a flow stands that the flow continues with the approved value; a read-only tool of anybody else changes nothing."""
    call = {"id": "w", "tool_call_id": "c", "payload": {"question": "Pay 600?"}, "payload_digest": "d"}
    shown = ShownTool(annotations=Annotations(read_only=True))
    told = {
        tool: [each.text for each in view_of(AwaitConfirmation(tool=tool, shown=shown, **call)).consequences]
        for tool in ("sojourn.approvals.approve", "shop.orders.find")
    }
    assert told["sojourn.approvals.approve"] == ["The flow continues with what you approve."]
    assert told["shop.orders.find"] == ["Read-only: changes nothing."]


@pytest.mark.parametrize(
    ("said", "is_unknown"),
    [
        ("the bank is away; the call may have taken effect, its outcome is unknown", True),
        ("the bank is away", False),
    ],
)
def test_an_outcome_that_is_unknown_is_said_wherever_the_call_is_shown(said, is_unknown):
    """What decides on a repetition, and the failed call itself, say that it may have taken effect; nothing says then that repeating is harmless."""
    tool = ShownTool(annotations=Annotations(destructive=True, idempotent=True))
    call = {"id": "w", "tool_call_id": "c", "tool": "a.b.pay", "payload": {"to": "x"}, "payload_digest": "d"}
    wait = AwaitConfirmation(**call, shown=tool, outcome_unknown=is_unknown)
    visit = Visit(None, None, Principal(subject="ana", roles=["approver"]), Links(""))  # type: ignore[arg-type]
    source = '{% from "wait_form.html" import wait_in_place %}{{ wait_in_place(view, "/here", visit) }}'
    in_place = templates().from_string(source).render(view=view_of(wait), visit=visit)
    told = {each.text for each in view_of(wait).consequences}
    assert ("Safe to repeat (idempotent)." in told) is not is_unknown
    assert ("An earlier attempt may have taken effect; its outcome is unknown." in told) is is_unknown
    in_tree = tree_of(ToolError(message=said, outcome_unknown=is_unknown))
    assert ("An earlier attempt may have taken effect" in in_place) is is_unknown
    assert ("This call may have taken effect; its outcome is unknown." in in_tree) is is_unknown
    assert ("Outcome unknown:" in in_tree) is is_unknown


def test_a_plain_exception_is_no_alarm():
    """What a tool raised may come after its effect: one quiet sentence says so, below the error."""
    html = tree_of(ToolError(message="missing argument", code="TypeError", outcome_unknown=True))
    assert "Outcome unknown" not in html
    assert "outcome is unknown" not in html
    assert html.index("missing argument") < html.index("Effects before this error are not undone.")
    assert "not undone" not in tree_of(ToolError(message="no money", code="ToolFailed"))


def tree_of(error: ToolError) -> str:
    """A failed call in the page of its run."""
    entry = Call(
        key="call-c",
        event_id="0-000001-00000",
        at=datetime.now(UTC),
        call=ToolRequest(name="a.b.pay", payload={}, tool_call_id="c"),
        result=ToolResult(name="a.b.pay", tool_call_id="c", error=error),
        state="failed",
    )
    visit = Visit(None, None, Principal(subject="ana", roles=["approver"]), Links(""))  # type: ignore[arg-type]
    return render("entry.html", run_id="r", entry=entry, visit=visit, url=Links(""))
