"""The tree of an open page has what a page has that is opened now, whatever happened in between."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from sojourn.console.views.tree import OpenTree
from sojourn.timeline import CallFold, Row, fold_calls
from tests.timeline.test_folds import Story

ACTS = st.lists(
    st.one_of(
        st.sampled_from(
            [("begin", "sync"), ("begin", "sync"), ("begin", "find"), ("plan", ""), ("said", "so")]
        ),
        st.tuples(st.just("end"), st.integers(0, 5)),
        st.just(("look", "")),
    ),
    max_size=60,
)


def keys_of(row: Row) -> list[str]:
    return [entry.key for entry in row.entries] if isinstance(row, CallFold) else [row.key]


@dataclass
class Page:
    """The rows of an open page, by id: the keys of what each shows."""

    rows: dict[str, list[str]] = field(default_factory=dict)
    tree: OpenTree = field(default_factory=OpenTree)
    seen: int = -1

    def update(self, story: Story) -> None:
        """Apply what the stream sends, as the browser does."""
        timeline = story.timeline
        rows = fold_calls(timeline.entries)
        changes = self.tree.changes(rows, self.seen, dropped=timeline.dropped)
        if changes is None:
            self.rows = {row.key: keys_of(row) for row in rows}
        else:
            for at, row in changes.rows:
                if not at:
                    self.rows[row.key] = keys_of(row)
                elif at in self.rows:  # else the page has dropped it
                    self.rows = {
                        (row.key if key == at else key): (keys_of(row) if key == at else shown)
                        for key, shown in self.rows.items()
                    }
            for key in changes.gone:
                self.rows.pop(key, None)
        self.seen = timeline.version


@given(ACTS, st.sampled_from([8, 400]), st.booleans())
def test_an_open_page_becomes_what_a_new_one_is(acts, most, is_live):
    """Calls end in any order, folds form and grow, and the timeline drops its oldest entries: the last rows are the same, and none is there twice."""
    story, page, running = Story(most), Page(), list[str]()
    page.update(story)
    if is_live:  # a page that was opened at this version, whose stream begins now
        page.tree = OpenTree()
    for act, what in acts:
        if act == "begin":
            running.append(story.begin(what))
        elif act == "end" and running:
            call_id = running.pop(int(what) % len(running))
            if story.timeline.call(call_id):
                story.end(call_id)
        elif act == "look":
            page.update(story)
        elif act in ("plan", "said"):
            story.step(act, what)
    page.update(story)
    fresh = fold_calls(story.timeline.entries)
    shown = list(page.rows)[-len(fresh) :] if fresh else []
    assert shown == [row.key for row in fresh]
    assert [page.rows[row.key] for row in fresh[1:]] == [keys_of(row) for row in fresh[1:]]
    flat = [key for keys in page.rows.values() for key in keys]
    assert len(flat) == len(set(flat))


def test_two_folds_become_one():
    """The row of the second fold goes once the call between them has ended."""
    story, page = Story(400), Page()
    page.update(story)
    calls = [story.begin("sync") for _ in range(7)]
    for call_id in (*calls[:3], *calls[4:]):
        story.end(call_id)
    page.update(story)
    assert [len(keys) for keys in page.rows.values()] == [3, 1, 3]
    story.end(calls[3])
    page.update(story)
    assert [len(keys) for keys in page.rows.values()] == [7]
