"""Timeouts: how long a provider may take to connect, to answer and to be written to.

Models that think before they speak are slow without being away, so they have more time (ME-12).
"""

import math
import os
import re
from dataclasses import dataclass
from typing import Final

from sojourn.errors import DefinitionError

__all__ = ["PROVIDER_TIMEOUTS", "Timeouts", "check_timeouts", "timeouts_for"]

_PREFIX = "SOJOURN_TIMEOUT_"
_DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds; each is a time without progress, not the length of the whole request."""

    connect: float
    """Until there is a connection, TLS included; also the wait for a free one."""
    read: float
    """Until the next bytes of the answer."""
    write: float
    """Until the next bytes of the request are taken."""


PROVIDER_TIMEOUTS: Final = {
    _DEFAULT: Timeouts(connect=10, read=120, write=120),
    "anthropic": Timeouts(connect=10, read=300, write=300),
    "claude": Timeouts(connect=10, read=300, write=300),
    "deepseek": Timeouts(connect=15, read=180, write=180),
}
"""What holds where the environment says nothing."""


def timeouts_for(provider: str | None = None) -> Timeouts:
    """The timeouts of a provider, in any case of letters; of one that is not known, the default.

    `SOJOURN_TIMEOUT_<PROVIDER>`, such as `SOJOURN_TIMEOUT_CLAUDE=10/600/300` (connect, read, write),
    wins over the table; `SOJOURN_TIMEOUT_DEFAULT` is for every provider that has no line of its own.

    Raises:
        DefinitionError: the setting cannot be read.
    """
    name = (provider or _DEFAULT).casefold()
    own = _set(name) or PROVIDER_TIMEOUTS.get(name)
    return own or _set(_DEFAULT) or PROVIDER_TIMEOUTS[_DEFAULT]


def check_timeouts() -> None:
    """Read every setting once, so that a wrong one is told at the start, not in the middle of a run.

    Raises:
        DefinitionError: names the setting that cannot be read.
    """
    for variable, written in os.environ.items():
        if variable.startswith(_PREFIX) and written:
            _parsed(variable, written)


def _set(name: str) -> Timeouts | None:
    """What the environment says for a provider; an empty setting says nothing."""
    variable = _PREFIX + re.sub(r"\W", "_", name.upper())
    written = os.environ.get(variable)
    return _parsed(variable, written) if written else None


def _parsed(variable: str, written: str) -> Timeouts:
    try:
        connect, read, write = (float(part) for part in written.split("/"))
    except ValueError:
        connect = read = write = 0.0
    if not all(0 < each < math.inf for each in (connect, read, write)):
        raise DefinitionError(
            f"{variable} is {written[:60]!r}; write it as connect/read/write, in seconds above 0, such as 10/300/300"
        )
    return Timeouts(connect, read, write)
