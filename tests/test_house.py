"""Rules of the repository: imports, the place of files, pinned versions, and links in the documentation."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.layers import MISPLACED

ROOT = Path(__file__).parents[1]

FOLDERS = {
    ".ci",
    "activities",
    "bench",
    "deploy",
    "docs",
    "planners",
    "sojourn",
    "tests",
    "toolsets",
    "workflows",
}
CODE = {"activities", "sojourn", "workflows"}
PLAIN_FILES = {
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "constraints.txt",
    "docker-compose.yml",
    "mkdocs.yml",
    "pyproject.toml",
    "worker.py",
}
SETTINGS = {".dockerignore", ".editorconfig", ".env.example", ".gitignore", ".pre-commit-config.yaml"}

# Each name is split, since the test reads this file too.
REGISTRY_HOSTS = [
    "py" + "pi.org",
    "files.python" + "hosted.org",
    "registry.np" + "mjs.org",
    "registry.yarn" + "pkg.com",
    "proxy.go" + "lang.org",
    "index." + "crates.io",
]
INDEX_OPTION = re.compile(r"(?<!no-emit-)\b(extra-)?index[-_]url\b|\btrusted[-_]host\b", re.IGNORECASE)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def tracked() -> list[Path]:
    """Return the files that git tracks or would add, relative to the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for name in listed.split("\0") if name and (ROOT / (path := Path(name))).is_file()]


def pins() -> dict[str, Requirement]:
    """Return the pins of constraints.txt, by canonical name."""
    lines = (ROOT / "constraints.txt").read_text().replace("\\\n", "").splitlines()
    required = [Requirement(line.split("--hash")[0]) for line in lines if line and line[0] not in "# "]
    return {canonicalize_name(requirement.name): requirement for requirement in required}


def requirements() -> list[Requirement]:
    """Return every requirement of pyproject.toml."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    stated = [
        *pyproject["build-system"]["requires"],
        *pyproject["project"]["dependencies"],
        *pyproject["project"]["optional-dependencies"]["server"],
        *pyproject["project"]["optional-dependencies"]["mcp"],
        *pyproject["dependency-groups"]["dev"],
        *pyproject["dependency-groups"]["docs"],
    ]
    return [Requirement(line) for line in dict.fromkeys(stated)]


@pytest.mark.essential
@pytest.mark.usefixtures("processes")
def test_the_import_rules_hold() -> None:
    """import-linter finds no import that the house forbids."""
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [linter, "--no-cache"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def modules() -> dict[str, Path]:
    """Return the modules of the library, the workflow and the activities, by name."""
    found = [path for path in tracked() if path.suffix == ".py" and path.parts[0] in CODE]
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in found}


def imports_of(name: str, path: Path, known: Collection[str]) -> set[str]:
    """Return the known modules that a module imports: at its top, in functions and under TYPE_CHECKING."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            inner = {f"{base}.{alias.name}" for alias in node.names}
            found |= (inner & {*known}) or {base}
    return (found & {*known}) - {name}


@pytest.mark.essential
@pytest.mark.usefixtures("processes")
def test_no_two_modules_import_each_other() -> None:
    """There is no import cycle, not even through imports in functions or under TYPE_CHECKING."""
    known = modules()
    left = {name: imports_of(name, path, known) for name, path in known.items()}
    assert len(left) > 300
    assert left["sojourn.authoring.app"] >= {"sojourn.worker", "sojourn.authoring.agent"}
    while free := [name for name, imported in left.items() if not imported & left.keys()]:
        for name in free:
            del left[name]
    assert left == {}, "an import cycle"


def packages() -> dict[Path, str]:
    """Return the docstring of each package below a top-level package."""
    found = {path.parent for code in CODE for path in (ROOT / code).rglob("*/__init__.py")}
    return {path: ast.get_docstring(ast.parse((path / "__init__.py").read_text())) or "" for path in found}


def test_a_package_says_what_it_decides_and_where_to_begin() -> None:
    """Each package has a docstring of more than 80 characters, which names only files that exist."""
    short = [str(path) for path, docstring in packages().items() if len(docstring) <= 80]
    assert short == [], "say what the package decides, what it may import and where to begin"
    named = [path / name for path, text in packages().items() for name in re.findall(r"`(\w+\.py)`", text)]
    assert len(named) > 20
    assert [str(path) for path in named if not path.exists()] == []


@pytest.mark.essential
@pytest.mark.usefixtures("processes")
def test_the_pages_name_modules_that_exist() -> None:
    """house.md names only paths, and the glossary of docs/README.md only modules, that exist."""
    house = (ROOT / "docs" / "dev" / "house.md").read_text()
    paths = re.findall(r"`((?:sojourn|workflows|activities|tests)/[\w/]+(?:\.py|/))`", house)
    words = re.findall(r"\| `([\w.]+)` \|$", (ROOT / "docs" / "README.md").read_text(), re.MULTILINE)
    assert len(paths) > 20
    assert len(words) >= 20
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert [word for word in words if word not in modules()] == []


def test_house_md_names_tables_that_exist() -> None:
    """Where house.md says "`NAME` of `path`", the module at the path assigns that name."""
    house = (ROOT / "docs" / "dev" / "house.md").read_text()
    named = re.findall(r"`([A-Z_]+)` of `([\w/]+\.py)`|`([A-Z_]+)` in `([\w/]+\.py)`", house)
    pairs = [(first or third, second or fourth) for first, second, third, fourth in named]
    assert len(pairs) >= 6
    assert [
        pair
        for pair in pairs
        if not re.search(rf"^{pair[0]}\b.* = ", (ROOT / pair[1]).read_text(), re.MULTILINE)
    ] == []


@pytest.mark.essential
@pytest.mark.usefixtures("processes")
def test_the_top_level_holds_only_what_the_house_names() -> None:
    """A new file or folder at the root has to be listed in this module."""
    paths = tracked()
    assert {path.parts[0] for path in paths if len(path.parts) > 1} <= FOLDERS
    assert {path.name for path in paths if len(path.parts) == 1} <= PLAIN_FILES | SETTINGS


@pytest.mark.essential
@pytest.mark.usefixtures("processes")
def test_no_tracked_file_names_a_package_registry() -> None:
    """The machine that installs packages decides where they come from."""
    found: list[str] = []
    for path in tracked():
        text = (ROOT / path).read_bytes().decode(errors="replace")
        hosts = [host for host in REGISTRY_HOSTS if host in text]
        options = (
            [] if path == Path("tests/test_house.py") else [m.group() for m in INDEX_OPTION.finditer(text)]
        )
        found += [f"{path}: {word}" for word in hosts + options]
    assert found == []


def test_the_pins_name_no_index_and_no_path() -> None:
    """constraints.txt has no URL, no option and no path, so it works with any index on any machine."""
    assert not re.search(r"://|^-|[@ ]/|file:", (ROOT / "constraints.txt").read_text(), re.MULTILINE)


def test_every_requirement_is_pinned() -> None:
    """constraints.txt pins an allowed version of each requirement; `make lock` updates it."""
    versions = {name: [each.version for each in pin.specifier] for name, pin in pins().items()}
    assert {name for name, pinned in versions.items() if len(pinned) != 1} == set()
    assert [
        str(requirement)
        for requirement in requirements()
        if not any(
            requirement.specifier.contains(version, prereleases=True)
            for version in versions.get(canonicalize_name(requirement.name), [])
        )
    ] == [], "run `make lock`"


def test_every_extra_is_pinned() -> None:
    """`make lock` and `make sbom` name each extra of pyproject.toml, so that no dependency of one is missing."""
    (named,) = re.findall(r"^EXTRAS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {each.strip() for each in named.split("--extra ") if each} == set(extras)


def test_every_pin_has_a_hash() -> None:
    """Each pin of constraints.txt has a SHA-256 hash, by which the download is checked."""
    entries = (ROOT / "constraints.txt").read_text().replace("\\\n", "").splitlines()
    unhashed = [line for line in entries if line and line[0] not in "# " and "--hash=sha256:" not in line]
    assert unhashed == []


def test_the_entry_of_continuous_integration_is_executable() -> None:
    """`.ci/run` is executable."""
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.essential
@pytest.mark.usefixtures("processes")
def test_every_page_is_in_the_index() -> None:
    """docs/README.md links to every page of docs/."""
    index = {(ROOT / "docs" / link.split("#")[0]).resolve() for link in links(ROOT / "docs" / "README.md")}
    pages = {ROOT / path for path in tracked() if path.parts[0] == "docs" and path.suffix == ".md"}
    assert pages - {ROOT / "docs" / "README.md"} <= index


@pytest.mark.essential
@pytest.mark.usefixtures("processes")
def test_every_link_leads_to_a_file_and_a_heading() -> None:
    """The target of each relative link exists, with the heading that its anchor names."""
    pages = [path for path in tracked() if path.suffix == ".md"]
    followed = [(page, link) for page in pages for link in links(ROOT / page)]
    assert len(followed) > 100
    assert [f"{page} links to {link}" for page, link in followed if not leads(ROOT / page, link)] == []


def leads(page: Path, link: str) -> bool:
    """Return whether a link of a page leads to a file, and to a heading if it names one."""
    name, _, anchor = link.partition("#")
    target = page.parent / name if name else page
    return target.exists() and (not anchor or anchor in anchors(target))


def links(page: Path) -> list[str]:
    """Return the links of a Markdown page that stay in this repository."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return [link for link in LINK.findall(text) if not re.match(r"[a-z]+:", link)]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a Markdown page: of its headings, and of the names that the API reference generates."""
    text = page.read_text()
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    generated = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    return {*generated, *(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)}


def test_what_the_rest_does_not_read_has_none_of_it() -> None:
    """A test that starts programs is in a file that `make test-rest` reads."""
    assert MISPLACED == []
