"""Files: write what a page says into the files that it names."""

import re
from pathlib import Path

__all__ = ["change", "write"]


def write(file: Path, text: str, *, add: bool) -> None:
    """Write a file in one step, or add to its end after two empty lines."""
    if add:
        text = f"{file.read_text().rstrip()}\n\n\n{text}"
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f".{file.name}.new")
    new.write_text(text)
    new.replace(file)


def change(file: Path, diff: str) -> None:
    """Replace lines of a file by a diff without line numbers; `...` in it begins another place.

    Raises:
        ValueError: The lines to replace are not in the file, or are there twice.
    """
    text = file.read_text()
    for hunk in diff.split("...\n"):
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] or "\n" for line in lines if not line.startswith("+"))
        after = "".join(line[1:] or "\n" for line in lines if not line.startswith("-"))
        place = re.compile(f"^{re.escape(before)}", re.MULTILINE)
        if (found := len(place.findall(text))) != 1:
            raise ValueError(f"{found} places of {file.name} have these lines:\n{before}\n{text}")
        text = place.sub(lambda _, after=after: after, text)
    write(file, text, add=False)
