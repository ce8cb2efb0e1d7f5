"""The house keeps its rules: who imports whom, what lies where, what is pinned, what the docs link to."""

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

ROOT = Path(__file__).parents[1]

FOLDERS = {".ci", "activities", "bench", "docs", "planners", "sojourn", "tests", "toolsets", "workflows"}
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
    "pyproject.toml",
    "worker.py",
}
SETTINGS = {".dockerignore", ".editorconfig", ".env.example", ".gitignore", ".pre-commit-config.yaml"}

# Written in halves, since this file is judged too.
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
    """Return what constraints.txt pins, by canonical name."""
    lines = (ROOT / "constraints.txt").read_text().replace("\\\n", "").splitlines()
    required = [Requirement(line.split("--hash")[0]) for line in lines if line and line[0] not in "# "]
    return {canonicalize_name(requirement.name): requirement for requirement in required}


def wanted() -> list[Requirement]:
    """Return every requirement that pyproject.toml states."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    stated = [
        *pyproject["build-system"]["requires"],
        *pyproject["project"]["dependencies"],
        *pyproject["project"]["optional-dependencies"]["server"],
        *pyproject["project"]["optional-dependencies"]["mcp"],
        *pyproject["dependency-groups"]["dev"],
    ]
    return [Requirement(line) for line in dict.fromkeys(stated)]


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
    """Every module of the library and its shell, by name."""
    found = [path for path in tracked() if path.suffix == ".py" and path.parts[0] in CODE]
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in found}


def imports_of(name: str, path: Path, known: Collection[str]) -> set[str]:
    """What a module imports of ours, at its top, within functions and for type checkers alone."""
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


def test_no_two_modules_import_each_other() -> None:
    """Nothing is imported in a circle, in functions and for type checkers neither."""
    known = modules()
    left = {name: imports_of(name, path, known) for name, path in known.items()}
    assert len(left) > 300
    assert left["sojourn.authoring.app"] >= {"sojourn.worker", "sojourn.authoring.agent"}
    while free := [name for name, imported in left.items() if not imported & left.keys()]:
        for name in free:
            del left[name]
    assert left == {}, "a circle of imports"


def packages() -> list[Path]:
    """The packages of the library."""
    return [path for path in modules().values() if path.name == "__init__.py" and len(path.parts) > 2]


@pytest.mark.parametrize("path", packages(), ids=lambda path: ".".join(path.parent.parts))
def test_a_package_says_what_it_decides_and_where_to_begin(path: Path) -> None:
    """Each package's docstring has three sentences at most, and names files that are there."""
    told = ast.get_docstring(ast.parse((ROOT / path).read_text())) or ""
    assert len(told) > 80, "say what it decides, what it may know and where to begin"
    named = re.findall(r"`(\w+\.py)`", told)
    assert all((ROOT / path.parent / name).exists() for name in named), named


def test_the_pages_name_modules_that_are_there() -> None:
    """The house and the words of the documentation lead to code."""
    house = (ROOT / "docs" / "dev" / "house.md").read_text()
    paths = re.findall(r"`((?:sojourn|workflows|activities|tests)/[\w/]+(?:\.py|/))`", house)
    words = re.findall(r"\| `([\w.]+)` \|$", (ROOT / "docs" / "README.md").read_text(), re.MULTILINE)
    assert len(paths) > 20
    assert len(words) >= 20
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert [word for word in words if word not in modules()] == []


def test_the_top_level_holds_only_what_the_house_names() -> None:
    """A new file at the root is a decision, made here first."""
    paths = tracked()
    assert {path.parts[0] for path in paths if len(path.parts) > 1} <= FOLDERS
    assert {path.name for path in paths if len(path.parts) == 1} <= PLAIN_FILES | SETTINGS


def test_no_tracked_file_names_a_package_registry() -> None:
    """Where packages come from is the business of the machine that installs them."""
    found: list[str] = []
    for path in tracked():
        text = (ROOT / path).read_bytes().decode(errors="replace")
        hosts = [host for host in REGISTRY_HOSTS if host in text]
        options = (
            [] if path == Path("tests/test_house.py") else [m.group() for m in INDEX_OPTION.finditer(text)]
        )
        found += [f"{path}: {word}" for word in hosts + options]
    assert found == []


def test_the_pins_name_no_place() -> None:
    """constraints.txt installs the same from any index, on any machine."""
    assert not re.search(r"://|^-|[@ ]/|file:", (ROOT / "constraints.txt").read_text(), re.MULTILINE)


@pytest.mark.parametrize("requirement", wanted(), ids=lambda requirement: requirement.name)
def test_every_requirement_is_pinned(requirement: Requirement) -> None:
    """constraints.txt answers pyproject.toml; `make lock` mends it."""
    pinned = pins().get(canonicalize_name(requirement.name))
    assert pinned is not None, "run `make lock`"
    (version,) = (specifier.version for specifier in pinned.specifier)
    assert requirement.specifier.contains(version, prereleases=True), "run `make lock`"


def test_every_pin_has_a_hash() -> None:
    """Each download is checked."""
    entries = (ROOT / "constraints.txt").read_text().replace("\\\n", "").splitlines()
    unhashed = [line for line in entries if line and line[0] not in "# " and "--hash=sha256:" not in line]
    assert unhashed == []


def test_what_must_run_can_run() -> None:
    """The entry of continuous integration is executable."""
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_every_page_is_in_the_index() -> None:
    """docs/README.md leads to every page of docs/."""
    index = {(ROOT / "docs" / link.split("#")[0]).resolve() for link in links(ROOT / "docs" / "README.md")}
    pages = {ROOT / path for path in tracked() if path.parts[0] == "docs" and path.suffix == ".md"}
    assert pages - {ROOT / "docs" / "README.md"} <= index


@pytest.mark.parametrize("page", [path for path in tracked() if path.suffix == ".md"], ids=str)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    """No page sends its reader to a place that is not there."""
    for link in links(ROOT / page):
        name, _, anchor = link.partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        assert target.exists(), f"{page} links to {link}"
        if anchor:
            assert anchor in anchors(target), f"{page} links to {link}"


def links(page: Path) -> list[str]:
    """Return the links of a Markdown page that stay in this repository."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return [link for link in LINK.findall(text) if not re.match(r"[a-z]+:", link)]


def anchors(page: Path) -> set[str]:
    """Return the anchors that a Markdown page's headings have."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
