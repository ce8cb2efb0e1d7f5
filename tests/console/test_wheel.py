"""The wheel: it carries the console's templates and files, and no more script than a page may load."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "sojourn" / "console"
MAX_SCRIPT = 100_000


@pytest.mark.usefixtures("processes")
def test_the_wheel_has_every_template_and_file(tmp_path):
    """As they are in the repository, so that the console works where it is installed."""
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=200)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        held = {name: packed.read(name) for name in packed.namelist() if name.startswith("sojourn/console/")}
    wanted = [file for kind in ("templates", "static") for file in (FOLDER / kind).iterdir()]
    assert len(wanted) > 25
    for file in wanted:
        assert held[f"sojourn/console/{file.parent.name}/{file.name}"] == file.read_bytes()


def test_there_is_little_script_and_it_says_whose_it_is():
    """All scripts together have at most 100 KB; each is named with whose it is, and what is not ours with its licence."""
    scripts = [*(FOLDER / "static").glob("*.js")]
    assert sum(file.stat().st_size for file in scripts) <= MAX_SCRIPT
    licences = (FOLDER / "static" / "LICENSES.txt").read_text()
    assert [file.name for file in scripts if file.name not in licences] == []


def test_no_template_has_a_script_or_a_style_of_its_own():
    """The policy lets none run, so that none would work."""
    for file in (FOLDER / "templates").iterdir():
        text = file.read_text()
        assert "style=" not in text, file.name
        assert "hx-on" not in text, file.name
        assert "<script>" not in text, file.name
