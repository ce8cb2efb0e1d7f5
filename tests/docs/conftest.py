"""Fixtures: the Python blocks of a page as one module, served as it stands."""

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def blocks_of(page: str, language: str = "python") -> list[str]:
    """The fenced blocks of a page in one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture
def blocks() -> Callable[..., list[str]]:
    """The blocks of a page: `blocks("errors.md", "json")`."""
    return blocks_of


@pytest.fixture
def module_of(tmp_path, monkeypatch) -> Callable[..., ModuleType]:
    """A page's module, written to a folder of its own and imported from there: `module_of("tools.md", "plant")`."""

    def load(page: str, name: str) -> ModuleType:
        (tmp_path / f"{name}.py").write_text("\n\n".join(blocks_of(page)))
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return importlib.import_module(name)

    return load
