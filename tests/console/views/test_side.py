"""Beside the tree of a run: what helps a stuck one, without what its head has said."""

from types import SimpleNamespace

from sojourn import Principal, RunStatus
from sojourn.console.page import Links, Visit
from sojourn.console.templating import _templates as templates

REASON = "no worker polls task queue night-shift"
COMMAND = "sojourn worker MODULE:APP --task-queue night-shift"


def test_the_reason_of_a_stuck_run_stands_once():
    """The head has it; the side has the command that helps, and other hints."""
    head = SimpleNamespace(mend=COMMAND, now=REASON, left=[], is_open=False)
    status = RunStatus(run_id="r", status="running", hints=[REASON, "a call is late"])
    visit = Visit(None, None, Principal(subject="ana", roles=["viewer"]), Links(""))  # type: ignore[arg-type]
    side = templates().get_template("run_side.html")
    html = side.render(head=head, status=status, visit=visit, run_id="r", url=Links(""), now=None)
    assert "This run is stuck" in html
    assert COMMAND in html
    assert (html.count(REASON), html.count("a call is late")) == (0, 1)
