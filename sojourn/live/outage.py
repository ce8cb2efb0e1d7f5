"""Outage: a log that says once that live text is unavailable, and once that it is available again."""

import structlog

__all__ = ["Outage"]

_log = structlog.get_logger("sojourn.live")


class Outage:
    """Whether a transport is unavailable; all publishers and subscribers of a transport share it.

    Args:
        is_logged: Whether the beginning and the end are logged.
    """

    def __init__(self, *, is_logged: bool = True) -> None:
        self._is_logged = is_logged
        self._has_begun = False

    def begin(self, error: Exception) -> None:
        """Take a failure; only the first one until `end` is logged."""
        if not self._has_begun and self._is_logged:
            reason = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
            _log.warning("live_text_unavailable", reason=reason, effect="runs go on, without deltas")
        self._has_begun = True

    def end(self) -> None:
        """Take a success; only the first one after a failure is logged."""
        if self._has_begun and self._is_logged:
            _log.info("live_text_available")
        self._has_begun = False
