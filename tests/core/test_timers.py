"""Timers: told apart by their summaries, on Temporal's screens and in the fold."""

from sojourn.core.timers import EXPIRES, TIME_BUDGET, WAITS, expiry_of


def test_the_expiry_of_a_wait_names_it() -> None:
    """The wait's id can be read back, whatever a planner called it, and no other timer looks like one."""
    for await_id in ("q", "fix-a.b.c#2", "", TIME_BUDGET, EXPIRES):
        assert expiry_of(await_id).removeprefix(EXPIRES) == await_id
        assert expiry_of(await_id) not in (TIME_BUDGET, WAITS)
