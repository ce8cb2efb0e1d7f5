"""Make a Temporal client with Sojourn's data converter."""

import dataclasses
import re
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.converter import DefaultFailureConverterWithEncodedAttributes, PayloadCodec

from sojourn.connection import settings
from sojourn.connection.rpc_errors import is_key_fault, speaks_tls, tls_fault
from sojourn.converter.codec import load_codec
from sojourn.converter.data_converter import GuardedDataConverter, data_converter
from sojourn.errors import DefinitionError, ServerUnavailable, SojournError
from sojourn.private import STORAGE_LINK, is_private, runtime_path
from sojourn.serving.hardening.loop_guard import end_quietly
from sojourn.storage import FolderStorage, StorageDriver
from sojourn.telemetry import interceptors

__all__ = ["connect", "converter_with", "nearby_storage"]


async def connect(
    options: dict[str, Any], *, codec: PayloadCodec | None = None, encrypted_only: bool = False
) -> Client:
    """Connect, with the options of `settings.connect_options`."""
    converter = converter_with(codec, encrypted_only=encrypted_only)
    end_quietly()
    try:
        return await Client.connect(**options, data_converter=converter, interceptors=interceptors())
    except ValueError as error:
        raise DefinitionError(
            f"{options['target_host']!r} is not an address ({str(error)[:100]}); set TEMPORAL_ADDRESS to host:port"
        ) from error
    except RuntimeError as error:
        raise await _fault(str(error), options) from error


async def _fault(text: str, options: dict[str, Any]) -> SojournError:
    address = (
        options["target_host"] if options["target_host"].isprintable() else ascii(options["target_host"])
    )
    if is_key_fault(text):
        return DefinitionError(
            "the client certificate or its key cannot be read; TEMPORAL_TLS_CLIENT_CERT_PATH and "
            "TEMPORAL_TLS_CLIENT_KEY_PATH must name PEM files"
        )
    if tls_message := tls_fault(text, in_tls=_is_tls(options)):
        return ServerUnavailable(f"no connection to the server at {address}: {tls_message}")
    if "after connection" in text and not _is_tls(options) and await speaks_tls(address):
        return ServerUnavailable(
            f"no connection to the server at {address}: it requires TLS; set TEMPORAL_TLS=true"
        )
    return ServerUnavailable(
        f"no Temporal server answers at {address} ({_brief(text)}); start one with `sojourn server`, or set "
        "TEMPORAL_ADDRESS"
    )


def _is_tls(options: dict[str, Any]) -> bool:
    tls = options.get("tls")
    return bool(tls) if tls is not None else bool(options.get("api_key"))


def converter_with(
    codec: PayloadCodec | None = None, *, encrypted_only: bool = False
) -> GuardedDataConverter:
    """Return Sojourn's data converter with a codec, for your own Temporal client.

    An argument takes precedence over a setting. Texts of errors are encrypted too.
    """
    codec = codec or _codec_of_settings()
    only = encrypted_only or settings.requires_encryption()
    if codec is None:
        if only:
            raise DefinitionError(
                "SOJOURN_ENCRYPTED_ONLY or --encrypted-only is set, but there is no codec; set SOJOURN_KEYRING or SOJOURN_CODEC"
            )
        return data_converter
    return dataclasses.replace(
        data_converter,
        payload_codec=codec,
        encrypted_only=only,
        failure_converter_class=DefaultFailureConverterWithEncodedAttributes,
    )


def _codec_of_settings() -> PayloadCodec | None:
    target, ring = settings.codec(), settings.key_ring()
    if target and ring:
        raise DefinitionError(
            "SOJOURN_CODEC and SOJOURN_KEYRING are both set; runs are encrypted by one of them"
        )
    if ring:
        from sojourn.crypto import SealingCodec  # noqa: PLC0415 - it loads cryptography
        from sojourn.crypto.key_ring import load_ring  # noqa: PLC0415

        return SealingCodec(load_ring(ring))
    return load_codec(target) if target else None


def _brief(text: str) -> str:
    found = re.search(r'message: "([^"]+)"', text)
    return (found[1] if found else text.split("\n", 1)[0])[:200]


def nearby_storage(server: str) -> StorageDriver | None:
    """Return the storage of a development server on this machine, or None."""
    link = runtime_path(server, STORAGE_LINK)
    if link is None or not is_private(link.parent):
        return None
    try:
        folder = link.readlink()
    except OSError:
        return None
    return FolderStorage(folder) if is_private(Path(folder)) else None
