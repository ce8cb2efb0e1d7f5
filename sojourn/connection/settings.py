"""The standard Temporal settings of the server, and a few of Sojourn's own.

The address, namespace, API key and TLS come from `temporalio.envconfig`: environment variables
(`TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, `TEMPORAL_TLS_*`, ...) over a profile of `temporal.toml`.
"""

import os
import re
from typing import Any

from temporalio.envconfig import ClientConfig
from temporalio.service import GrpcCompression

from sojourn.contracts.ids import task_queue_fault
from sojourn.errors import DefinitionError
from sojourn.network.client import check_timeouts
from sojourn.private import is_this_machine
from sojourn.values.text import is_writable

__all__ = [
    "DEFAULT_TASK_QUEUE",
    "build_id",
    "codec",
    "connect_options",
    "deployment",
    "event_loop",
    "fair",
    "grpc_compression",
    "health_address",
    "key_ring",
    "live",
    "local_port",
    "max_activities",
    "metrics_address",
    "model_limits",
    "public_url",
    "requires_encryption",
    "task_queue",
    "tenants",
    "vault",
    "vault_key_ring",
]

DEFAULT_TASK_QUEUE = "sojourn"
"""The task queue of an app that has no name."""

_DEFAULT_PORT = 7233
_LAST_PORT = 65_535
_DEFAULT_ADDRESS = f"localhost:{_DEFAULT_PORT}"
_WEB_ADDRESS = re.compile(r"https?://[^\s<>\"'|@?#\\]+")
_COMPRESSIONS = {"gzip": GrpcCompression.GZIP, "none": GrpcCompression.NONE}


def connect_options(
    address: str | None = None, namespace: str | None = None, compression: str | None = None
) -> dict[str, Any]:
    """Return arguments for `temporalio.client.Client.connect`."""
    check_timeouts()
    try:
        options: dict[str, Any] = dict(ClientConfig.load_client_connect_config(override_env_vars=_readable()))
    except (RuntimeError, ValueError, OSError) as error:
        raise DefinitionError(
            f"the Temporal settings cannot be read ({_brief(error)}); see TEMPORAL_PROFILE, TEMPORAL_CONFIG_FILE "
            "and TEMPORAL_TLS_*"
        ) from None  # its text quotes the setting that it cannot read
    options.setdefault("target_host", _DEFAULT_ADDRESS)
    if address:
        options["target_host"] = address
    if namespace:
        options["namespace"] = namespace
    options["grpc_compression"] = grpc_compression(options["target_host"], compression)
    return options


def grpc_compression(address: str, explicit: str | None = None) -> GrpcCompression:
    """Return the compression of the argument, the setting, or the address.

    A server on this machine needs none; any other gets gzip.
    """
    name = explicit or os.environ.get("SOJOURN_GRPC_COMPRESSION", "").strip().lower()
    if name and name not in _COMPRESSIONS:
        raise DefinitionError("SOJOURN_GRPC_COMPRESSION must be gzip or none; correct its value")
    return _COMPRESSIONS[name or ("none" if is_this_machine(address.rpartition(":")[0]) else "gzip")]


def event_loop() -> str:
    """Return the event loop of `sojourn worker`: `uvloop` (the default) or `asyncio`."""
    name = os.environ.get("SOJOURN_EVENT_LOOP", "").strip().lower() or "uvloop"
    if name not in ("asyncio", "uvloop"):
        raise DefinitionError("SOJOURN_EVENT_LOOP must be uvloop or asyncio; correct its value")
    return name


def _readable() -> dict[str, str]:
    """Return the environment that is valid UTF-8, which the SDK's core can read."""
    return {name: value for name, value in os.environ.items() if is_writable(name + value)}


def local_port() -> int | None:
    """Return the port of a server on this machine, unless it is the default."""
    address = connect_options()["target_host"]
    host, _, text = address.rpartition(":")
    if not is_this_machine(host) or not text.isdecimal() or text == str(_DEFAULT_PORT):
        return None
    if len(text) > len(str(_LAST_PORT)) or not 0 < int(text) <= _LAST_PORT:
        raise DefinitionError(
            f"{address!a} is not an address: a port is 1 to {_LAST_PORT}; set TEMPORAL_ADDRESS to host:port"
        )
    return int(text)


def task_queue(explicit: str | None = None) -> str | None:
    """Return the task queue: the argument, else `SOJOURN_TASK_QUEUE`, else None."""
    name = explicit or os.environ.get("SOJOURN_TASK_QUEUE") or None
    if name is not None and (fault := task_queue_fault(name)):
        raise DefinitionError(fault)
    return name


def _brief(error: Exception) -> str:
    """Describe the fault of a settings file, without its lines: they may hold keys."""
    lines = [line for line in str(error).splitlines() if not re.match(r"\s*\d*\s*\|", line)]
    return " ".join(" ".join(lines).split())[:200]


def metrics_address(explicit: str | None = None) -> str | None:
    """Return the address and port of the Temporal SDK's own metrics, or None."""
    return _listening("metrics", 9464, explicit or os.environ.get("SOJOURN_METRICS_PORT"))


def health_address(explicit: str | None = None) -> str | None:
    """Return the address and port of a worker's health probe, or None."""
    return _listening("health", 8461, explicit or os.environ.get("SOJOURN_HEALTH_PORT"))


def _listening(purpose: str, example: int, text: str | None) -> str | None:
    """Return the address and port to listen at, by default on loopback."""
    if not text:
        return None
    host, _, port = text.strip().rpartition(":")
    if not (
        port.isascii()
        and port.isdigit()
        and len(port) <= len(str(_LAST_PORT))
        and 0 < int(port) <= _LAST_PORT
    ):
        raise DefinitionError(
            f"{purpose} port {text[:100]!a} is neither a port, such as {example}, nor an address and a port, such as "
            f"0.0.0.0:{example}"
        )
    return f"{host or '127.0.0.1'}:{port}"


def tenants() -> str | None:
    """Return the file with the quotas of tenants, or None."""
    return os.environ.get("SOJOURN_TENANTS") or None


def live() -> str | None:
    """Return the live transport, such as `redis://host:6379/0`, or None."""
    return os.environ.get("SOJOURN_LIVE") or None


def model_limits() -> str | None:
    """Return the Redis in which workers share the limits of models, or None."""
    name = os.environ.get("SOJOURN_MODEL_LIMITS", "").strip() or "worker"
    url = live() if name == "fleet" else name
    if name == "worker":
        return None
    if url is None or not re.match(r"(redis|rediss|redis\+unix)://", url):
        raise DefinitionError(
            "SOJOURN_MODEL_LIMITS must be worker, the address of a Redis (redis://HOST:PORT/DB), or fleet, if SOJOURN_LIVE has one"
        )
    return url


def codec() -> str | None:
    """Return the codec that encrypts payloads, as MODULE:CODEC, or None."""
    return os.environ.get("SOJOURN_CODEC") or None


def key_ring() -> str | None:
    """Return the key ring that encrypts payloads, as a file or MODULE:RING, or None."""
    return os.environ.get("SOJOURN_KEYRING") or None


def vault() -> str | None:
    """Return the vault of tokens, such as `folder:/PATH`, or None."""
    return os.environ.get("SOJOURN_VAULT") or None


def vault_key_ring() -> str | None:
    """Return the key ring of the vault, which is by default that of payloads."""
    return os.environ.get("SOJOURN_VAULT_KEYRING") or key_ring()


_DEPLOYMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_BUILD_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")


def deployment() -> str | None:
    """Return the worker deployment that workers join, or None if they join none."""
    name = os.environ.get("SOJOURN_DEPLOYMENT", "").strip() or None
    if name and not _DEPLOYMENT.fullmatch(name):
        raise DefinitionError(
            f"SOJOURN_DEPLOYMENT is {name[:100]!a}; a deployment's name has letters, digits, dashes and underscores"
        )
    return name


def build_id() -> str | None:
    """Return the build id of this worker's version, or None for the digest of its app."""
    id = os.environ.get("SOJOURN_BUILD_ID", "").strip() or None
    if id and not _BUILD_ID.fullmatch(id):
        raise DefinitionError(f"SOJOURN_BUILD_ID is {id[:100]!a}; a build id has letters, digits and ._+-")
    return id


def public_url(explicit: str | None = None) -> str:
    """Return the address at which people reach the console.

    It has no slash at its end. Empty without a setting.
    """
    url = (explicit or os.environ.get("SOJOURN_PUBLIC_URL", "")).strip().rstrip("/")
    if url and not _WEB_ADDRESS.fullmatch(url):
        raise DefinitionError(
            f"the public address of the console is {url[:100]!a}; write it as https://agents.example.com (SOJOURN_PUBLIC_URL)"
        )
    return url


def requires_encryption() -> bool:
    """Return whether messages in clear text are refused."""
    return _is_on("SOJOURN_ENCRYPTED_ONLY")


def fair() -> bool:
    """Return whether every activity of a worker goes by the server's queue."""
    return _is_on("SOJOURN_FAIR")


def max_activities(explicit: int | None = None) -> int | None:
    """Return the most activities of a worker at once, or None for the default."""
    text = str(explicit) if explicit is not None else os.environ.get("SOJOURN_MAX_ACTIVITIES", "").strip()
    if not text:
        return None
    if not re.fullmatch(r"[1-9][0-9]{0,4}", text):
        raise DefinitionError(
            f"the most activities of a worker (SOJOURN_MAX_ACTIVITIES) are a number from 1 to 99999, not {text[:100]!a}"
        )
    return int(text)


def _is_on(name: str) -> bool:
    value = os.environ.get(name, "").strip().lower()
    if value not in ("", "0", "false", "no", "off", "1", "true", "yes", "on"):
        raise DefinitionError(f"{name} must be 1 or 0; correct its value")
    return value in ("1", "true", "yes", "on")
