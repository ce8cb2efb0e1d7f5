"""Network: HTTP clients, and one way to repeat a request that the network let down.

Exactly one layer repeats. Outside activities it is `with_network_retry`; inside an activity it is
Temporal, which remembers across restarts how often it has tried, so that a request is made once
there and its failure is raised as one that Temporal repeats. Neither the HTTP client nor what
repeats is loaded before it is used.
"""

from sojourn.network.client import http_client, http_transport
from sojourn.network.faults import RETRIED_STATUSES, Fault, fault_of
from sojourn.network.retry import MAX_RETRIES, with_network_retry
from sojourn.network.retry_after import retry_after_of
from sojourn.network.timeouts import Timeouts, check_timeouts, timeouts_for
from sojourn.network.translation import network_faults
from sojourn.network.wording import format_fault, format_network_error

__all__ = [
    "MAX_RETRIES",
    "RETRIED_STATUSES",
    "Fault",
    "Timeouts",
    "check_timeouts",
    "fault_of",
    "format_fault",
    "format_network_error",
    "http_client",
    "http_transport",
    "network_faults",
    "retry_after_of",
    "timeouts_for",
    "with_network_retry",
]
