"""Translate RPC errors and undecodable payloads, and retry during server restarts."""

import asyncio
import time

from temporalio.service import RPCError, RPCStatusCode

from sojourn.connection.tls_faults import tls_fault
from sojourn.errors import InvalidInput, RunError, RunNotFound, RunUnreadable, ServerUnavailable
from sojourn.values.text import plain

__all__ = ["OutageRetry", "is_page_outdated", "translated", "unreadable"]

LONGEST_OUTAGE = 60.0
"""Seconds without an answer before a restarting server counts as unavailable."""

_TOO_LARGE = "received message larger than max"
"""The words of gRPC's error for a request larger than 4 MB.

Its status is that of a busy server, but a retry does not help.
"""

_AWAY = {
    RPCStatusCode.UNAVAILABLE,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.CANCELLED,
    RPCStatusCode.UNKNOWN,
}


def is_page_outdated(error: RPCError) -> bool:
    """Return whether the token of a history page is outdated.

    The server has then loaded the run again, so the history has to be read again.
    """
    return b"CurrentBranchChangedFailure" in error.raw_grpc_status


class OutageRetry:
    """Retries while a server restarts, with growing delays.

    It gives up after a minute without an answer.
    """

    def __init__(self) -> None:
        self.answered()

    def answered(self) -> None:
        """Record an answer, so that the next failure begins a new outage.

        The new outage begins with the shortest delay.
        """
        self._since: float | None = None
        self._delay = 0.1

    async def may_retry(self, error: RPCError) -> bool:
        """Wait before a retry, and return whether to retry.

        True if the server is unavailable or has loaded the run again. False for any other error, or
        after an outage of more than `LONGEST_OUTAGE`.
        """
        if error.status not in _AWAY and not is_page_outdated(error):
            return False
        now = time.monotonic()
        if self._since is None:
            self._since = now
        # Measured from the first failure: if a server does not respond, each attempt lasts longer
        # than a minute.
        if now - self._since > LONGEST_OUTAGE:
            return False
        await asyncio.sleep(self._delay)
        self._delay = min(self._delay * 2, 2.0)
        return True


def translated(error: RPCError, run_id: str | None) -> RunError:
    """Translate an RPC error into one of Sojourn's errors.

    This is the only place that translates them.
    """
    if b"NamespaceNotFound" in error.raw_grpc_status:
        return InvalidInput(
            f"{plain(error.message, 300).rstrip('.')}; name another with TEMPORAL_NAMESPACE or --namespace, or make it with "
            "`temporal operator namespace create`",
            run_id=run_id,
        )
    if error.status == RPCStatusCode.NOT_FOUND:
        return RunNotFound(
            f"there is no run {run_id!r} in this namespace: it was never started, or was deleted some time after its end "
            f"({error.message}); `sojourn list` shows the runs",
            run_id=run_id,
        )
    if error.status in _AWAY:
        if tls_message := tls_fault(error.message):
            return ServerUnavailable(f"no connection to the Temporal server: {tls_message}", run_id=run_id)
        return ServerUnavailable(
            f"the Temporal server does not answer ({error.message[:200]}); is it running?", run_id=run_id
        )
    if error.status == RPCStatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE not in error.message:
        return ServerUnavailable(
            f"the Temporal server is busy ({error.message[:200]}); try again in a moment", run_id=run_id
        )
    return InvalidInput(f"the Temporal server refused: {error.message[:300]}", run_id=run_id)


def unreadable(run_id: str, reason: str) -> RunUnreadable:
    """Return the error for a run whose records this client cannot decode.

    Its text says what to do.
    """
    return RunUnreadable(
        f"the data of run {run_id} cannot be read here ({reason}); use the codec of its workers: "
        "--codec MODULE:CODEC, SOJOURN_CODEC, or in a program the codec of its client",
        run_id=run_id,
    )
