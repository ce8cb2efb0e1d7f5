"""Queue of tenants: order, fair shares, and the cost ahead of a new item."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.values.fair_queue import FairQueue

TENANTS = "abc"

COSTS = st.integers(1, 50)

WORK = st.lists(st.tuples(st.sampled_from(TENANTS), COSTS), max_size=40)


def drain(queue):
    """Take all items out of a queue."""
    return [queue.pop() for _ in range(len(queue))]


def test_a_long_line_delays_no_other_line():
    """The first item of a tenant goes next, however many items of another tenant wait."""
    queue = FairQueue()
    for number in range(100):
        queue.push("noisy", f"n{number}")
    assert drain_some(queue, 3) == ["n0", "n1", "n2"]
    queue.push("quiet", "q0")
    queue.push("quiet", "q1")
    assert drain_some(queue, 5) == ["q0", "n3", "q1", "n4", "n5"]


def drain_some(queue, number):
    """Take some items out of a queue."""
    return [queue.pop() for _ in range(number)]


def test_time_without_work_gives_no_credit():
    """A tenant that did nothing for long gets its share from now on, and no more."""
    queue = FairQueue()
    queue.push("late", "l")
    for number in range(50):
        queue.push("busy", number)
    drain_some(queue, 40)
    for number in range(10):
        queue.push("late", f"l{number}")
    assert sum(str(each).startswith("l") for each in drain_some(queue, 10)) == 5


def test_an_item_that_does_not_fit_keeps_its_place():
    """The first item that fits goes; those before it are first again afterwards."""
    queue = FairQueue()
    for item in ("slow 1", "slow 2", "fast"):
        queue.push("a", item)
    queue.push("b", "slow 3")
    assert queue.pop(lambda item: item == "fast") == "fast"
    assert queue.pop(lambda item: item == "fast") is None
    assert drain(queue) == ["slow 3", "slow 1", "slow 2"]


def test_a_correction_counts_while_others_wait():
    """A tenant whose item cost more than was said waits for as much; without work there is no debt."""
    queue = FairQueue()
    queue.charge("a", 1000)
    for number in range(4):
        queue.push("a", f"a{number}")
        queue.push("b", f"b{number}")
    assert queue.pop() == "a0"
    queue.charge("a", 2)
    queue.charge("a", -1)
    assert drain_some(queue, 4) == ["b0", "b1", "a1", "b2"]
    queue.charge("c", 2)
    queue.push("c", "c")
    assert drain(queue) == ["a2", "b3", "a3", "c"]
    queue.push("a", "a4")
    queue.push("c", "c1")
    assert drain(queue) == ["a4", "c1"]


@given(WORK, WORK, st.integers(0, 30))
def test_shares_are_fair(before, after, popped):
    """Each item goes once, a tenant's in order; two tenants that both wait differ by at most one item each."""
    queue, pushed = FairQueue(), dict[str, list[tuple[str, int, int]]]()

    def push(work):
        for tenant, cost in work:
            item = (tenant, cost, len(pushed.setdefault(tenant, [])))
            pushed[tenant].append(item)
            queue.push(tenant, item, cost)

    push(before)
    gone = drain_some(queue, min(popped, len(queue)))
    push(after)
    busy = {tenant for tenant, items in pushed.items() if set(items) - set(gone)}
    served = dict.fromkeys(busy, 0)
    while busy:
        tenant, cost, _ = item = queue.pop()
        gone.append(item)
        served[tenant] += cost
        assert max(served[each] for each in busy) - min(served[each] for each in busy) <= 100
        busy -= {each for each in busy if set(pushed[each]) <= set(gone)}
    assert {tenant: [item for item in gone if item[0] == tenant] for tenant in pushed} == pushed
    assert (len(queue), queue.first(), queue.pop()) == (0, None, None)


@given(WORK, st.integers(0, 30), st.sampled_from(TENANTS))
def test_the_cost_ahead_is_what_goes_before(work, popped, tenant):
    """`ahead` is exactly the cost of the items that go before a new one."""
    queue = FairQueue()
    for each, cost in work:
        queue.push(each, cost, cost)
    drain_some(queue, min(popped, len(queue)))
    ahead = queue.ahead(tenant)
    queue.push(tenant, mine := object(), 1)
    before = 0
    while queue.first() is not mine:
        before += queue.pop()
    assert before == ahead


@given(WORK, st.data())
def test_a_removed_item_leaves_nothing(work, data):
    """The others go in the same order as if a removed item had never been there."""
    queue, without = FairQueue(), FairQueue()
    index = data.draw(st.integers(0, len(work)))
    for number, (tenant, cost) in enumerate(work):
        queue.push(tenant, number, cost)
        if number != index:
            without.push(tenant, number, cost)
    if index < len(work):
        queue.remove(work[index][0], index)
    assert drain(queue) == drain(without)


@pytest.mark.parametrize("tenant", ["a", "b"])
def test_a_line_that_ends_is_forgotten(tenant):
    """A queue keeps nothing of tenants whose items are gone."""
    queue = FairQueue()
    for number in range(1000):
        queue.push(f"t{number}", number)
    queue.push(tenant, mine := object())
    queue.remove(tenant, mine)
    drain(queue)
    assert queue._lines == {}
