"""A short name for the code and the declarations of an app, for its deployments."""

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

__all__ = ["digest_of_app"]

LENGTH = 12
"""Characters of a digest; two versions of one app do not share 48 bits by chance."""


def digest_of_app(module_name: str, version: str, declared: Sequence[dict[str, Any]]) -> str:
    """Return the digest of an app's code, its tools and Sojourn's version.

    The code is every loaded module of the package that declares the app; for a module outside of packages,
    every one in its folder. So load all of an app's code before its worker starts, as imports do.
    """
    whole = hashlib.sha256(version.encode())
    whole.update(json.dumps(declared, sort_keys=True, default=str).encode())
    for name, file in sorted(set(_sources(module_name))):
        whole.update(name.encode())
        whole.update(file.read_bytes())
    return whole.hexdigest()[:LENGTH]


def _sources(module_name: str) -> Iterator[tuple[str, Path]]:
    """Yield the files of the app's modules, with names that hold in any folder."""
    top = module_name.partition(".")[0]
    root = getattr(sys.modules.get(top), "__file__", None)
    if root is None:
        return
    folder = Path(root).resolve().parent
    is_package = Path(root).name == "__init__.py"
    for name, module in list(sys.modules.items()):
        source = getattr(module, "__file__", None)
        if not source or not source.endswith(".py"):
            continue
        if is_package and name.partition(".")[0] != top:
            continue
        file = Path(source).resolve()
        if not file.is_relative_to(folder) or "site-packages" in file.relative_to(folder).parts:
            continue
        yield str(file.relative_to(folder)), file
