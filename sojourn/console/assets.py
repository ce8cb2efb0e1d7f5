"""Static files that pages load.

Each has a name with its digest, so that browsers can cache it forever.
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

__all__ = ["Asset", "asset", "name_of"]

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of `static/`."""

    body: bytes
    media_type: str
    digest: str


@cache
def _assets() -> dict[str, Asset]:
    found: dict[str, Asset] = {}
    for file in files("sojourn.console").joinpath("static").iterdir():
        suffix = file.name.rpartition(".")[2]
        if suffix in _TYPES:
            body = file.read_bytes()
            found[file.name] = Asset(body, _TYPES[suffix], hashlib.sha256(body).hexdigest()[:16])
    return found


def asset(name: str) -> Asset | None:
    """Return the file with this name, or None."""
    return _assets().get(name)


def name_of(name: str) -> str:
    """Return the path of a file, below `/static/`, with its digest.

    Raises:
        KeyError: There is none.
    """
    return f"{name}?v={_assets()[name].digest}"
