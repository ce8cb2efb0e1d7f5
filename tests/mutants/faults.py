"""The faults, as `faults/*.toml` lists them."""

import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Fault", "StaleError", "read_faults"]

FOLDER = Path(__file__).parent / "faults"


class StaleError(Exception):
    """The list does not fit the code: the text of a fault does not occur exactly once."""


@dataclass(frozen=True)
class Fault:
    """One change that the tests must notice."""

    package: str
    """The name of its list."""
    file: str
    """The file, from the root of the tree."""
    old: str
    """The text that it replaces, which occurs exactly once."""
    new: str
    harm: str
    """What it would do to users, as a clause."""
    noticed_in: tuple[str, ...] = ()
    """Files of tests that should notice it, beside those whose place mirrors the fault's."""

    @property
    def mirror(self) -> Path:
        """The path in `tests/` that mirrors the file, but for the beginning of a test's name."""
        path = Path(self.file)
        return Path("tests") / (path.relative_to("sojourn") if path.parts[0] == "sojourn" else path)

    def distance(self, test: str) -> int:
        """How far from the fault a file of tests is: 0 if it mirrors the fault's or is named, 1 if it is beside that, else 2."""
        path = Path(test)
        if path.parent != self.mirror.parent:
            return 0 if test in self.noticed_in else 2
        return 0 if test in self.noticed_in or path.stem.startswith(f"test_{self.mirror.stem}") else 1

    def places(self, root: Path, reach: int) -> list[str]:
        """The files and folders with the tests up to a distance, in a tree."""
        if reach == 2:
            return [
                f"tests/{self.mirror.parts[1]}",
                *(each for each in self.noticed_in if (root / each).exists()),
            ]
        files = [
            *self.noticed_in,
            *(
                str(path.relative_to(root))
                for path in (root / self.mirror.parent).glob(f"test_{self.mirror.stem}*.py")
            ),
        ]
        return [
            each
            for each in (files if reach == 0 else [*files, str(self.mirror.parent)])
            if (root / each).exists()
        ]

    @property
    def key(self) -> str:
        """What tells it from the others, whatever line it is in."""
        return f"{self.file}: {self.old.strip()}"

    def applied(self, source: str) -> str:
        """The source with the fault.

        Raises:
            StaleError: The text does not occur, or more than once.
        """
        if (count := source.count(self.old)) != 1:
            line = self.old.strip().partition("\n")[0]
            raise StaleError(f"{self.file} has {count} times: {line}")
        return source.replace(self.old, self.new)


def read_faults(root: Path, only: Collection[str] = ()) -> list[Fault]:
    """The faults whose package or file contains one of some texts, if there are any; all of them fit the tree at `root`.

    Raises:
        StaleError: Some do not fit; its text names all of these.
    """
    listed = [
        Fault(package=path.stem, **{**fields, "noticed_in": tuple(fields.get("noticed_in", ()))})
        for path in sorted(FOLDER.glob("*.toml"))
        for fields in tomllib.loads(path.read_text())["fault"]
    ]
    wanted = [
        fault for fault in listed if not only or any(each in f"{fault.package} {fault.file}" for each in only)
    ]
    stale: list[str] = []
    for fault in wanted:
        path = root / fault.file
        try:
            fault.applied(path.read_text() if path.exists() else "")
        except StaleError as error:
            stale.append(str(error))
    if stale:
        raise StaleError("\n".join(stale))
    return wanted
