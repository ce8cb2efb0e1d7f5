"""Network: HTTP clients, and one way to repeat a request that the network let down.

The package decides what a failure of the network is, how it is worded, and which one layer repeats: outside activities
`with_network_retry`, inside an activity Temporal, which remembers across restarts how often it has tried. It knows
nothing of Sojourn but its errors, and loads neither the HTTP client nor what repeats before they are used. Begin at
`network_errors`, which recognises a failure; `retry` acts on it.
"""

from sojourn.network.client import Timeouts, check_timeouts, http_client, http_transport, timeouts_for
from sojourn.network.network_errors import (
    RETRIED_STATUSES,
    NetworkFailure,
    network_failure_of,
    retry_after_of,
)
from sojourn.network.retry import MAX_RETRIES, network_faults, with_network_retry
from sojourn.network.wording import format_network_error, format_network_failure

__all__ = [
    "MAX_RETRIES",
    "RETRIED_STATUSES",
    "NetworkFailure",
    "Timeouts",
    "check_timeouts",
    "format_network_error",
    "format_network_failure",
    "http_client",
    "http_transport",
    "network_failure_of",
    "network_faults",
    "retry_after_of",
    "timeouts_for",
    "with_network_retry",
]
