"""Each kind of wait, and one that the console does not know, in every template that shows waits."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sojourn import Principal, RunStatus
from sojourn.answers import WaitContext
from sojourn.console.answering import read_answer
from sojourn.console.form import Form
from sojourn.console.page import ConsoleState, Links, Visit
from sojourn.console.routes.inbox import InboxFilters
from sojourn.console.templating import _templates as templates
from sojourn.console.views.runs import RunHead
from sojourn.console.views.waits import title_of, wait_form, wait_line
from sojourn.http.service import Service
from sojourn.reader import FoundWaits
from sojourn.timeline import OpenWait, TokenUsage, WaitEntry
from tests.answers.views import APP, ASKED, OUTSIDE, READING, VIEWS

NOW = datetime(2027, 1, 1, tzinfo=UTC)

BUTTONS = {"question": "answer", "approval": "approve", "tool_results": "provide", "reading": "answer"}
"""The button of a form that answers a kind of wait."""


@pytest.fixture(params=VIEWS)
def view(request):
    """A wait of each kind."""
    return VIEWS[request.param]


@pytest.fixture
def visit():
    """A visitor who may do everything, at a service that is not connected."""
    asking = Principal(subject="ana", roles=["user", "approver", "operator"])
    return Visit(None, ConsoleState(Service(APP)), asking, Links(""))  # type: ignore[arg-type]


@pytest.fixture
def render(visit, view, monkeypatch):
    """Render a template, in which the record of the wait is described by the view."""
    monkeypatch.setitem(templates().filters, "wait_view", lambda _wait, _run_id: view)
    monkeypatch.setitem(templates().filters, "waits_of", lambda _status: [view])

    def rendered(source: str, **values: Any) -> str:
        found = templates().from_string(source)
        return found.render({"now": NOW, "visit": visit, "url": visit.url, "view": view, **values})

    return rendered


def form_of(view):
    """The form of a wait."""
    return wait_form(view, lambda _tool: None)


@pytest.mark.parametrize("macro", ["wait_form", "wait_in_place"])
def test_the_form_of_a_wait_has_its_button(render, view, macro):
    """In the inbox and beside other things it can be answered."""
    source = f'{{% from "wait_form.html" import {macro} %}}{{{{ {macro}(form, "/here", visit) }}}}'
    html = render(source, form=form_of(view))
    assert f'value="{BUTTONS[view.kind]}"' in html
    assert ('name="field0"' in html) is (view.form is not None)
    assert (OUTSIDE in html) is (view.kind == "approval" and macro == "wait_in_place")
    assert ('value="approve_sources"' in html) is (view.kind == "approval")


@pytest.mark.parametrize("is_waiting", [True, False])
def test_a_conversation_says_what_is_asked(render, view, is_waiting):
    """While it is open with its form, and afterwards without."""
    source = '{% from "talk_asked.html" import asked %}{{ asked(item, view, "/here", visit) }}'
    html = render(source, item=_entry(view, is_waiting=is_waiting))
    assert f'aria-label="{view.noun.capitalize()}"' in html
    assert ("boiler 7" in html) is (view.kind != "tool_results")
    assert (OUTSIDE in html) is (view.kind == "approval" and is_waiting)
    assert (f'value="{BUTTONS[view.kind]}"' in html) is is_waiting


def _entry(view, *, is_waiting: bool = True) -> WaitEntry:
    opened = OpenWait(view.run_id, view.wait, NOW, "0-000001-00000", "", "")
    closed_at = None if is_waiting else NOW
    return WaitEntry(key="e", at=NOW, event_id="0-000001-00000", opened=opened, closed_at=closed_at)


def test_the_tree_of_a_run_has_the_wait(render, view):
    """Its entry has the kind in words, and what is asked."""
    html = render('{% include "entry.html" %}', entry=_entry(view), run_id="r-1")
    assert ASKED[view.kind] in html
    assert view.noun.removeprefix("a ").removeprefix("an ").capitalize() in html


def test_the_side_of_a_run_has_the_wait(render, view):
    """What a run waits for stands beside its tree, with the form."""
    status = RunStatus(run_id="r-1", agent_id="ops.clerk", status="waiting", phase="waiting")
    head = RunHead(status, None, TokenUsage())  # type: ignore[arg-type]
    html = render('{% include "run_side.html" %}', head=head, status=status, run_id="r-1")
    assert ASKED[view.kind] in html
    assert f'value="{BUTTONS[view.kind]}"' in html


def test_the_inbox_lists_and_shows_the_wait(render, view):
    """Its row, its page and the list of runs have what is asked."""
    assert ASKED[view.kind] in title_of(view)
    assert ASKED[view.kind] in wait_line([view]) or view.call
    form = form_of(view)
    shown = render('{% include "inbox_open.html" %}', view=form, path=_path, query="")
    assert f"</svg>{form.word}" in shown
    assert (OUTSIDE in shown) is (view.kind == "approval")
    found = FoundWaits([], None, is_whole=True, count=1, unread=0)
    row = view.model_copy(update={"context": WaitContext(asked="look at it")})
    listed = render(
        '{% include "inbox_list.html" %}',
        rows=[row],
        found=found,
        filters=InboxFilters(),
        path=_path,
        query="",
        cursor="",
        at="",
        after="",
        before="",
        title_of=title_of,
    )
    for html in (shown, listed):
        assert ASKED[view.kind] in html
        assert form.word in html


def _path(run_id: str, await_id: str) -> str:
    return f"/inbox/{run_id}/{await_id}"


@pytest.mark.parametrize("kind", [kind for kind in VIEWS if kind != READING])
def test_a_button_answers_its_kind(kind):
    """The form of a kind gives an answer of this kind, and the button of another one none."""
    view = VIEWS[kind]
    given = {"digest": "d", "field0": "7", "call0-result": "7"}
    for do in {*BUTTONS.values()}:
        fields = {name: [text] for name, text in {"do": do, **given}.items()}
        answer, told = read_answer(form_of(view), Form(fields))
        if do == BUTTONS[kind]:
            assert answer is not None, told
            assert answer.kind == kind
        else:
            assert (answer, told.fault) == (None, "This form belongs to another kind of wait.")
