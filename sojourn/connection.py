"""Connection: a Temporal client that speaks Sojourn's data converter."""

from typing import Any

from temporalio.client import Client

from sojourn.converter import data_converter
from sojourn.errors import ServerUnavailable

__all__ = ["connect"]


async def connect(options: dict[str, Any]) -> Client:
    """Connect, with the options of `settings.connect_options`.

    Raises:
        ServerUnavailable: nothing answers there.
    """
    try:
        return await Client.connect(**options, data_converter=data_converter)
    except RuntimeError as error:
        brief = str(error).split("\n", 1)[0][:200]
        raise ServerUnavailable(
            f"no Temporal server answers at {options['target_host']} ({brief}); start one with "
            "`sojourn server`, or set TEMPORAL_ADDRESS"
        ) from error
