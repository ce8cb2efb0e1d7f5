"""Files: change what a page says of the files that it names, and save them together."""

import re
from collections.abc import Mapping
from pathlib import Path

__all__ = ["change", "save"]


def save(files: Mapping[Path, str]) -> None:
    """Write files, and put all in place at once, so that who watches them sees one change."""
    written = []
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(f".{file.name}.new")
        new.write_text(text)
        written.append((new, file))
    for new, file in written:
        new.replace(file)


def change(text: str, diff: str, name: str) -> str:
    """Replace lines of a file's text by a diff without line numbers; `...` in it begins another place.

    Raises:
        ValueError: The lines to replace are not in the file, or are there twice.
    """
    for hunk in diff.split("...\n"):
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] or "\n" for line in lines if not line.startswith("+"))
        after = "".join(line[1:] or "\n" for line in lines if not line.startswith("-"))
        place = re.compile(f"^{re.escape(before)}", re.MULTILINE)
        if (found := len(place.findall(text))) != 1:
            raise ValueError(f"{found} places of {name} have these lines:\n{before}\n{text}")
        text = place.sub(lambda _, after=after: after, text)
    return text
