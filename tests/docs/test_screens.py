"""The screens in docs/screens/ are what a real terminal shows today."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.durability


@pytest.fixture(scope="module")
def capturing() -> Any:
    """The script that records them."""
    spec = importlib.util.spec_from_file_location("capture", ROOT / "docs" / "capture.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["capture"] = module
    spec.loader.exec_module(module)
    return module


async def test_the_screens_are_as_written(capturing, monkeypatch):
    """`run`, `show`, `list`, `catalog` and `doctor`, recorded anew, differ in nothing."""
    for name in ("TEMPORAL_ADDRESS", "SOJOURN_OPS_DB", "LOGNAME"):
        monkeypatch.setenv(name, "")  # taken back when it is over
    shown = await capturing.screens()
    assert {path.stem for path in capturing.SCREENS.glob("*.txt")} == {*shown, "demo"}
    assert [*filter(None, (capturing.capture(name, text, check=True) for name, text in shown.items()))] == []


async def test_the_demos_screen_is_as_written(capturing):
    """The demo in a terminal, its questions answered by a person."""
    text = await capturing.demo()
    assert capturing.capture("demo", text, check=True) == ""
