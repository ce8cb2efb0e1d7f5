"""How an end looks on a page: an answer, what a limit ended, and a conversation that was closed."""

from datetime import UTC, datetime

import pytest

from sojourn.console.page import Links
from sojourn.console.templating import _templates as templates
from sojourn.contracts.event import RunCompletedEvent
from sojourn.contracts.message import Message
from sojourn.contracts.run import RunOutput
from sojourn.timeline import Timeline

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("reason", "look", "word"),
    [
        ("answered", "completed", "Answered"),
        ("closed", "completed", "Answered"),
        ("max_tool_rounds", "gave_up", "Gave up"),
        ("retries_stopped", "gave_up", "Gave up"),
    ],
)
def test_a_run_that_a_limit_ended_has_not_answered(reason, look, word):
    """Its last entry has the sign, the color and the words of a run that gave up, not those of an answer."""
    final = Message.assistant("Two sites are dark.")
    output = RunOutput(run_id="r", agent_id="a.b", final=final, reason=reason)
    event = RunCompletedEvent(event_id="0-000009-00000", run_id="r", turn_id="t1", time=AT, output=output)
    timeline = Timeline("r")
    timeline.feed(event)
    page = templates().get_template("entry.html")
    html = page.render(entry=timeline.entries[-1], run_id="r", url=Links(""), now=AT)
    assert f"the-end is-state-{look}" in html
    assert f"</svg>{word}</span>" in html
    assert (f'<span class="tag">{reason}</span>' in html) == (reason != "answered")
