"""Children: what child runs say of themselves, and who is believed."""

from sojourn.contracts.spent import Spent
from workflows.children import Children

SPENT = Spent(children_count=3)


def test_only_a_child_at_work_is_believed() -> None:
    """Anybody may send the signal: before a child lives and after, and for a run that is none, it counts nothing."""
    children = Children()
    children.record_spent("r/c1", SPENT)
    with children.living("r/c1"):
        assert children.spent("r/c1") is None
        children.record_spent("r/c1", SPENT)
        children.record_spent("r/c2", SPENT)
    children.record_spent("r/c1", Spent(children_count=9))
    assert children.spent("r/c1") == SPENT
    assert children.spent("r/c1") is None
    assert children.spent("r/c2") is None
