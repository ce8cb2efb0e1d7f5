"""Connection: a Temporal client that speaks Sojourn's data converter."""

import re
from typing import Any

from temporalio.client import Client

from sojourn.converter import data_converter
from sojourn.ending import end_quietly
from sojourn.errors import DefinitionError, ServerUnavailable, SojournError
from sojourn.telemetry import interceptors
from sojourn.tls_faults import is_key_fault, speaks_tls, tls_fault

__all__ = ["connect"]


async def connect(options: dict[str, Any]) -> Client:
    """Connect, with the options of `settings.connect_options`.

    Raises:
        ServerUnavailable: nothing answers there, or TLS keeps us apart.
        DefinitionError: the address is none, or the client certificate cannot be read.
    """
    end_quietly()
    try:
        return await Client.connect(**options, data_converter=data_converter, interceptors=interceptors())
    except ValueError as error:
        raise DefinitionError(
            f"{options['target_host']!r} is no address ({str(error)[:100]}); TEMPORAL_ADDRESS is host:port"
        ) from error
    except RuntimeError as error:
        raise await _fault(str(error), options) from error


async def _fault(text: str, options: dict[str, Any]) -> SojournError:
    """Why there is no connection, and what to do about it."""
    address = options["target_host"]
    if is_key_fault(text):
        return DefinitionError(
            "the client certificate or its key cannot be read; TEMPORAL_TLS_CLIENT_CERT_PATH and "
            "TEMPORAL_TLS_CLIENT_KEY_PATH name PEM files"
        )
    if said := tls_fault(text, in_tls=_is_tls(options)):
        return ServerUnavailable(f"no connection to the server at {address}: {said}")
    if "after connection" in text and not _is_tls(options) and await speaks_tls(address):
        return ServerUnavailable(
            f"no connection to the server at {address}: it speaks TLS and was spoken to without; set TEMPORAL_TLS=true"
        )
    return ServerUnavailable(
        f"no Temporal server answers at {address} ({_brief(text)}); start one with `sojourn server`, or set "
        "TEMPORAL_ADDRESS"
    )


def _is_tls(options: dict[str, Any]) -> bool:
    tls = options.get("tls")
    return bool(tls) if tls is not None else bool(options.get("api_key"))


def _brief(text: str) -> str:
    """What went wrong, out of all the layers it went through."""
    found = re.search(r'message: "([^"]+)"', text)
    return (found[1] if found else text.split("\n", 1)[0])[:200]
