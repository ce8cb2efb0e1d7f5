"""Settings: where the server is, by the standard Temporal settings, and Sojourn's own few.

The address, namespace, API key and TLS come from `temporalio.envconfig`: environment variables
(`TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, `TEMPORAL_TLS_*`, ...) over a profile of `temporal.toml`.
"""

import os
import re
from typing import Any

from temporalio.envconfig import ClientConfig

from sojourn.errors import DefinitionError
from sojourn.network.client import check_timeouts

__all__ = [
    "DEFAULT_TASK_QUEUE",
    "codec",
    "connect_options",
    "encrypted_only",
    "live",
    "metrics_port",
    "task_queue",
]

DEFAULT_TASK_QUEUE = "sojourn"
"""Where workers look and clients start runs, unless told otherwise."""

_DEFAULT_ADDRESS = "localhost:7233"


def connect_options(address: str | None = None, namespace: str | None = None) -> dict[str, Any]:
    """Keyword arguments for `temporalio.client.Client.connect`; what is given here wins.

    Raises:
        DefinitionError: a setting cannot be read; told here, where everything starts.
    """
    check_timeouts()
    try:
        options: dict[str, Any] = dict(ClientConfig.load_client_connect_config())
    except (RuntimeError, ValueError, OSError) as error:
        raise DefinitionError(
            f"the Temporal settings cannot be read ({_brief(error)}); see TEMPORAL_PROFILE, TEMPORAL_CONFIG_FILE "
            "and TEMPORAL_TLS_*"
        ) from None  # its text quotes what it cannot read
    options.setdefault("target_host", _DEFAULT_ADDRESS)
    if address:
        options["target_host"] = address
    if namespace:
        options["namespace"] = namespace
    return options


def task_queue(given: str | None = None) -> str:
    """The task queue: given, else `SOJOURN_TASK_QUEUE`, else `sojourn`."""
    return given or os.environ.get("SOJOURN_TASK_QUEUE") or DEFAULT_TASK_QUEUE


def _brief(error: Exception) -> str:
    """What is wrong, and where; without the lines of the file, which a TOML parser quotes and which hold keys."""
    lines = [line for line in str(error).splitlines() if not re.match(r"\s*\d*\s*\|", line)]
    return " ".join(" ".join(lines).split())[:200]


def metrics_port(given: str | None = None) -> str | None:
    """Where the Temporal SDK's own metrics are served: given, else `SOJOURN_METRICS_PORT`, else nowhere."""
    return given or os.environ.get("SOJOURN_METRICS_PORT") or None


def live() -> str | None:
    """What carries live text between processes: `SOJOURN_LIVE`, such as `redis://host:6379/0`; else nothing."""
    return os.environ.get("SOJOURN_LIVE") or None


def codec() -> str | None:
    """What encrypts payloads: `SOJOURN_CODEC`, as MODULE:CODEC; else nothing."""
    return os.environ.get("SOJOURN_CODEC") or None


def encrypted_only() -> bool:
    """Whether messages in clear text are refused: `SOJOURN_ENCRYPTED_ONLY`, `1` or `true`; else not.

    Raises:
        DefinitionError: it says neither yes nor no.
    """
    said = os.environ.get("SOJOURN_ENCRYPTED_ONLY", "").strip().lower()
    if said not in ("", "0", "false", "no", "off", "1", "true", "yes", "on"):
        raise DefinitionError("SOJOURN_ENCRYPTED_ONLY must be 1 or 0; correct its value")
    return said in ("1", "true", "yes", "on")
