"""Keys: authentication by the keys of a file, which `sojourn keys` makes and revokes while the service runs."""

from os import PathLike
from pathlib import Path

import structlog
from starlette.requests import Request

from sojourn.contracts.principal import Principal
from sojourn.errors import DefinitionError
from sojourn.http.locks.bearer import bearer_of
from sojourn.http.locks.key_file import PREFIX, Key, change_time, key_of, read_keys

__all__ = ["ApiKeys"]

_log = structlog.get_logger("sojourn.http")


class ApiKeys:
    """Lets in who sends a key of a file as `Authorization: Bearer`.

    A change of the file counts from the next request on, and for a request that lasts within 15 s. While the file is missing or cannot be read, no key opens.

    Args:
        file: The file of `sojourn keys create --file`.

    Raises:
        DefinitionError: The file cannot be read, or others than its owner may write it.
    """

    def __init__(self, file: str | PathLike[str]) -> None:
        self._path = Path(file)
        self._seen = change_time(self._path)
        self._keys = read_keys(self._path)

    async def __call__(self, request: Request) -> Principal | None:
        """The principal of the key that a request has; None where it has none that opens."""
        text = bearer_of(request)
        if not text.startswith(PREFIX):
            return None
        known = key_of(self._present(), text)
        return known.principal if known else None

    async def still_lets_in(self, request: Request, asking: Principal) -> bool:
        """Whether the key of a request that was let in still opens."""
        return await self(request) == asking

    def _present(self) -> list[Key]:
        """The keys, read again where the file has changed."""
        seen = change_time(self._path)
        if seen != self._seen:
            try:
                self._keys = read_keys(self._path)
            except DefinitionError as error:
                _log.error("keys_unreadable", reason=str(error))
                self._keys = []
            self._seen = seen
        return self._keys
