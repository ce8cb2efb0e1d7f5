"""Times and durations as people read them."""

from datetime import datetime, timedelta

__all__ = ["local", "took"]


def local(moment: datetime | None) -> str:
    """A moment in this machine's zone, to the second."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S") if moment else ""


def took(duration: timedelta | None) -> str:
    """A duration by its two largest units, such as `3 min 20 s`; below ten seconds `1.2 s`, below one `40 ms`."""
    if duration is None:
        return ""
    seconds = max(duration.total_seconds(), 0.0)
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    parts: list[str] = []
    left = int(seconds)
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])
