"""The names under which files of tools are saved."""

import pytest

from sojourn.cli.outcome import _new_file


@pytest.mark.parametrize(
    "name", ["é" * 196 + ".pdf", "😀" * 200, "a." + "é" * 190, "report.pdf", "../../etc/passwd"]
)
def test_a_file_has_a_name_that_a_disk_takes(tmp_path, name):
    """Of at most 255 bytes, with its suffix, and in the folder; a second one has a number."""
    for _ in range(2):
        with _new_file(tmp_path, name) as file:
            file.write(b"x")
    first, second = sorted(tmp_path.iterdir(), key=lambda path: len(path.name))
    assert len(second.name.encode()) <= 255
    assert first.suffix == second.suffix
    assert name.startswith("a.") or first.suffix == (".pdf" if name.endswith(".pdf") else "")
    assert second.stem.endswith("-2")
