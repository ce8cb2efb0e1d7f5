"""The screens in docs/screens/ are those of a real terminal; test_demo.py checks the demo's."""

import os

import pytest

pytestmark = pytest.mark.usefixtures("campaigns")


async def test_the_screens_are_as_written(capturing, monkeypatch):
    """New captures of `run`, `show`, also of a conversation, `list`, `fork`, `retry`, `catalog` and `doctor` equal the files."""
    for name in [name for name in os.environ if name.startswith("SOJOURN_") and name != "SOJOURN_MODEL"]:
        monkeypatch.delenv(name)  # `doctor` names what is set
    for name in ("TEMPORAL_ADDRESS", "SOJOURN_OPS_DB", "LOGNAME", "PYTHONPATH"):
        monkeypatch.setenv(
            name, os.environ.get(name, "") if name == "PYTHONPATH" else ""
        )  # restored afterwards
    shown = await capturing.screens()
    assert {path.stem for path in capturing.SCREENS.glob("*.txt")} == {*shown, "demo"}
    picture = (capturing.SCREENS / f"{capturing.PICTURE}.svg").read_text()
    text = (capturing.SCREENS / f"{capturing.PICTURE}.txt").read_text()
    assert picture == capturing.picture(text, "sojourn show")
    assert [*filter(None, (capturing.capture(name, text, check=True) for name, text in shown.items()))] == []
