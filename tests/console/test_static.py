"""The console's templates and files: little script, whose it is, and none in a template."""

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "sojourn" / "console"
MAX_SCRIPT = 100_000


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
