"""The screens in docs/screens/ are what a real terminal shows today; the demo's is with the demo."""

import pytest

pytestmark = pytest.mark.durability


async def test_the_screens_are_as_written(capturing, monkeypatch):
    """`run`, `show`, `list`, `catalog` and `doctor`, recorded anew, differ in nothing."""
    for name in ("TEMPORAL_ADDRESS", "SOJOURN_OPS_DB", "LOGNAME"):
        monkeypatch.setenv(name, "")  # taken back when it is over
    shown = await capturing.screens()
    assert {path.stem for path in capturing.SCREENS.glob("*.txt")} == {*shown, "demo"}
    assert [*filter(None, (capturing.capture(name, text, check=True) for name, text in shown.items()))] == []
