"""Children: which reports of what a child run has spent count."""

from sojourn.contracts.run import Spent
from workflows.children import Children

SPENT = Spent(children_count=3)


def test_only_an_open_child_run_reports_what_it_spent() -> None:
    """A report, which anybody may send, is ignored before and after the child run, and for any other run."""
    children = Children()
    children.record_spent("r/c1", SPENT)
    with children.register("r/c1"):
        assert children.take_spent("r/c1") is None
        children.record_spent("r/c1", SPENT)
        children.record_spent("r/c2", SPENT)
    children.record_spent("r/c1", Spent(children_count=9))
    assert children.take_spent("r/c1") == SPENT
    assert children.take_spent("r/c1") is None
    assert children.take_spent("r/c2") is None
