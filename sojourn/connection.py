"""Connection: a Temporal client that speaks Sojourn's data converter."""

import re
from typing import Any

from temporalio.client import Client

from sojourn.converter import data_converter
from sojourn.errors import DefinitionError, ServerUnavailable
from sojourn.telemetry import interceptors

__all__ = ["connect"]


async def connect(options: dict[str, Any]) -> Client:
    """Connect, with the options of `settings.connect_options`.

    Raises:
        ServerUnavailable: nothing answers there.
        DefinitionError: the address is none.
    """
    try:
        return await Client.connect(**options, data_converter=data_converter, interceptors=interceptors())
    except ValueError as error:
        raise DefinitionError(
            f"{options['target_host']!r} is no address ({str(error)[:100]}); TEMPORAL_ADDRESS is host:port"
        ) from error
    except RuntimeError as error:
        raise ServerUnavailable(
            f"no Temporal server answers at {options['target_host']} ({_brief(str(error))}); start one with "
            "`sojourn server`, or set TEMPORAL_ADDRESS"
        ) from error


def _brief(text: str) -> str:
    """What went wrong, out of all the layers it went through."""
    found = re.search(r'message: "([^"]+)"', text)
    return (found[1] if found else text.split("\n", 1)[0])[:200]
