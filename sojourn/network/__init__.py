"""HTTP clients, and retries after network failures.

The package decides which errors are network failures, how they are worded, and which one layer repeats the
request: Temporal inside an activity, since it counts attempts across restarts, and `with_network_retry`
everywhere else. Of Sojourn it imports only `sojourn.errors`, and it loads httpx2 and tenacity when they are
first used. Begin with `network_errors.py`, then `retry.py`.
"""

from sojourn.network.client import (
    Timeouts,
    check_timeouts,
    hide_logs,
    http_client,
    http_transport,
    timeouts_for,
)
from sojourn.network.network_errors import (
    RETRIED_STATUSES,
    NetworkFailure,
    format_network_error,
    format_network_failure,
    network_failure_of,
    retry_after_of,
)
from sojourn.network.retry import MAX_RETRIES, network_faults, with_network_retry

__all__ = [
    "MAX_RETRIES",
    "RETRIED_STATUSES",
    "NetworkFailure",
    "Timeouts",
    "check_timeouts",
    "format_network_error",
    "format_network_failure",
    "hide_logs",
    "http_client",
    "http_transport",
    "network_failure_of",
    "network_faults",
    "retry_after_of",
    "timeouts_for",
    "with_network_retry",
]
