"""Kept: a bounded cache of what a process keeps of runs."""

from types import SimpleNamespace

from sojourn.serving import run_cache as module
from sojourn.serving.run_cache import RunCache, free_except


def kept_of(*run_ids: str, max_runs: int = 10, max_bytes: int = 100) -> RunCache[str]:
    """A cache with these runs, each of 10 bytes."""
    kept = RunCache[str](max_runs, max_bytes)
    for run_id in run_ids:
        kept.keep(run_id, run_id.upper(), 10)
    return kept


def test_the_run_that_was_used_least_recently_goes_first():
    """Beyond the number of runs, and beyond their bytes, the run whose last use is the oldest goes."""
    for kept in (kept_of("a", "b", max_runs=2), kept_of("a", "b", max_bytes=20)):
        assert kept.get("a") == "A"
        kept.keep("c", "C", 10)
        assert (kept.get("a"), kept.get("b"), kept.get("c")) == ("A", None, "C")
        assert (len(kept), kept.bytes) == (2, 20)


def test_a_value_that_is_too_large_alone_is_not_kept():
    """It takes the place of the run's value before, and the other runs stay."""
    kept = kept_of("a", "b")
    kept.keep("a", "too large", 101)
    assert (kept.get("a"), kept.get("b"), kept.bytes) == (None, "B", 10)


def test_a_run_that_is_not_in_memory_is_let_go_a_minute_after_its_last_use(monkeypatch):
    """While a run is in memory it stays, however old its last use; else a minute after that, or after it left."""
    now = 0.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    kept = kept_of("present", "away", "used")

    def left(*present: str) -> list[str]:
        free_except(present)
        return sorted(kept._slots)

    now = 59.0
    assert kept.get("used") == "USED"
    assert left("present") == ["away", "present", "used"]
    now = 61.0
    assert left("present") == ["present", "used"]
    now = 120.0
    assert left("present") == ["present"]
    now = 180.0
    assert left() == ["present"]
    now = 181.0
    assert left() == []
    assert kept.bytes == 0
