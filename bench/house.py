"""Measure the house: how often the code says a thing that it should say once.

Every number is read from the syntax tree, with the same rules for every commit. `make house` prints them for this checkout,
`make house ARGS=<commit>` beside those of another commit. They point at places to look at, and judge nothing.
"""

import argparse
import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = ("sojourn", "workflows", "activities")
FACES = ("sojourn/cli", "sojourn/http", "sojourn/console")
MIDDLE = ("sojourn/timeline", "sojourn/answers", "sojourn/reader", "sojourn/forms")

WAITS = re.compile(r"\b(Await|AwaitClarification|AwaitConfirmation|AwaitExternalTools)\b")
EVENT = re.compile(r"[A-Z]\w*Event")
BASE_EVENTS = {"Event", "BaseEvent"}
FEWEST_EVENTS = 4
"""Fewest kinds of events that a reducer handles."""


@dataclass(frozen=True)
class Source:
    """A file of the product."""

    path: str
    text: str
    tree: ast.Module

    def is_in(self, *folders: str) -> bool:
        """Whether the file is below one of the folders."""
        return self.path.startswith(tuple(f"{folder}/" for folder in folders))


@dataclass(frozen=True)
class Measure:
    """One row of the table."""

    title: str
    count: int
    places: list[str]


def git(*words: str) -> str:
    """Return what a git command prints."""
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def sources(commit: str | None) -> list[Source]:
    """Read the product's Python files from the checkout, or from a commit."""
    listed = git("ls-tree", "-r", "--name-only", commit, *PRODUCT) if commit else git("ls-files", *PRODUCT)
    paths = [path for path in listed.splitlines() if path.endswith(".py") and "/template/" not in path]
    if commit:
        texts = {path: git("show", f"{commit}:{path}") for path in paths}
    else:
        texts = {path: (ROOT / path).read_text() for path in paths if (ROOT / path).exists()}
    return [Source(path, text, ast.parse(text)) for path, text in texts.items()]


def classes(source: Source) -> Iterator[ast.ClassDef]:
    """All classes of a file."""
    return (node for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef))


def units(source: Source) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """The classes and functions at the top of a file."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return (node for node in source.tree.body if isinstance(node, kinds))


def functions(source: Source) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions and methods of a file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return (node for node in ast.walk(source.tree) if isinstance(node, kinds))


def place(source: Source, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Name a place in the code."""
    return f"{source.path}:{node.lineno} {node.name}"


def is_wait(node: ast.ClassDef) -> bool:
    """Return whether a class is an open wait.

    It extends a wait, has one as a field, or has the id of a wait beside a prompt or a payload.
    """
    fields = {
        field.target.id: ast.unparse(field.annotation)
        for field in node.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }
    extends = any(WAITS.search(ast.unparse(base)) for base in node.bases)
    holds = any(WAITS.search(kind) and "[" not in kind for kind in fields.values())
    names = {"await_id", "wait_id"} & set(fields)
    return extends or holds or bool(names and {"prompt", "question", "title", "payload"} & set(fields))


def open_waits(files: list[Source]) -> list[str]:
    """Find the classes that are an open wait, outside the core and the contracts."""
    return [
        place(source, node)
        for source in files
        if source.is_in("sojourn")
        and not source.is_in("sojourn/core", "sojourn/contracts", "sojourn/testing")
        for node in classes(source)
        if is_wait(node)
    ]


def calls_in(node: ast.AST) -> set[str]:
    """Return the last names of the functions that a piece of code calls."""
    found = set[str]()
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            name = call.func
            found.add(
                name.attr
                if isinstance(name, ast.Attribute)
                else name.id
                if isinstance(name, ast.Name)
                else ""
            )
    return found


def deciding(files: list[Source]) -> list[str]:
    """Find the functions that approve or deny a call."""
    return [
        place(source, node)
        for source in files
        if source.is_in(*FACES, *MIDDLE)
        for node in functions(source)
        if {"approve", "deny"} & calls_in(node)
    ]


def judging(files: list[Source]) -> list[str]:
    """Find the functions that check who may decide.

    They call the rule of the core, or compare a role with `approver`.
    """
    found = list[str]()
    for source in files:
        if not source.is_in(*FACES, *MIDDLE):
            continue
        for node in functions(source):
            names = [
                each.args[-1].value
                for each in ast.walk(node)
                if isinstance(each, ast.Call) and each.args and isinstance(each.args[-1], ast.Constant)
                if isinstance(each.func, ast.Name) and each.func.id in ("require", "has_role")
            ]
            if {"why_not", "refusal_of"} & {*calls_in(node)} or "approver" in names:
                found.append(place(source, node))
    return found


def comparing(files: list[Source]) -> list[str]:
    """Find the functions that compare an answer with an earlier one."""
    found = list[str]()
    for source in files:
        if not source.is_in(*FACES, *MIDDLE) or source.is_in("sojourn/timeline"):
            continue
        for node in functions(source):
            compares = any(
                isinstance(each, ast.Compare)
                and any(
                    isinstance(side, ast.Attribute) and side.attr in ("approved", "text", "by", "code")
                    for side in (each.left, *each.comparators)
                )
                for each in ast.walk(node)
            )
            takes = any("Answered" in ast.unparse(arg.annotation) for arg in node.args.args if arg.annotation)
            if compares and (takes or re.search(r"is_same|before|settled|answered", node.name)):
                found.append(place(source, node))
    return found


def reducers(files: list[Source]) -> list[str]:
    """Find the reducers outside the core: classes and loops that handle several kinds of events.

    A function that renders one event is no reducer, nor is a class that makes events: a kind counts if the code reads it.
    """
    found = list[str]()
    for source in files:
        if source.is_in("sojourn/core", "sojourn/contracts", "sojourn/testing", "workflows", "activities"):
            continue
        constants = {
            target.id: kinds_read(node.value)
            for node in source.tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in units(source):
            if not isinstance(node, ast.ClassDef) and not loops_over_events(node):
                continue
            names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            kinds = kinds_read(node).union(*(constants[name] for name in names & constants.keys()))
            if len(kinds) >= FEWEST_EVENTS:
                found.append(f"{place(source, node)} ({len(kinds)})")
    return found


def kinds_read(node: ast.AST) -> set[str]:
    """Return the kinds of events that code reads, without those that it only constructs."""
    made = {id(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)}
    names = [
        each.id if isinstance(each, ast.Name) else each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Name | ast.Attribute) and id(each) not in made
    ]
    return {name for name in names if EVENT.fullmatch(name)} - BASE_EVENTS


def loops_over_events(node: ast.AST) -> bool:
    """Whether a function has a loop whose variable is an event."""
    return any(
        isinstance(each, ast.For | ast.AsyncFor) and re.search(r"\bevent\b", ast.unparse(each.target))
        for each in ast.walk(node)
    )


def same_names(files: list[Source]) -> list[str]:
    """Find the names that two or more classes have."""
    named = defaultdict[str, list[str]](list)
    for source in files:
        for node in classes(source):
            named[node.name].append(source.path)
    return [f"{name}: {', '.join(paths)}" for name, paths in sorted(named.items()) if len(paths) > 1]


def caches(files: list[Source]) -> list[str]:
    """Find the caches that faces make by hand."""
    made = re.compile(r"\b(OrderedDict|WeakKeyDictionary|WeakValueDictionary|LRUCache|TTLCache)\b[\[(]")
    return [
        f"{source.path}:{number}"
        for source in files
        if source.is_in(*FACES)
        for number, line in enumerate(source.text.splitlines(), 1)
        if made.search(line)
    ]


def lines(files: list[Source], *folders: str) -> int:
    """Count the lines of the files below the folders, or of all."""
    return sum(source.text.count("\n") for source in files if not folders or source.is_in(*folders))


LISTS: dict[str, Callable[[list[Source]], list[str]]] = {
    "classes that are an open wait, outside core and contracts": open_waits,
    "functions that decide an approval": deciding,
    "functions that check who may decide": judging,
    "functions that compare an answer with the one before": comparing,
    "reducers over events, outside the core": reducers,
    "caches that faces make by hand": caches,
    "class names used twice or more": same_names,
}


def measures(files: list[Source]) -> list[Measure]:
    """Measure a tree."""
    found = [Measure(title, len(places := count(files)), places) for title, count in LISTS.items()]
    sizes = {
        "Python files of the product": len(files),
        "their lines": lines(files),
        "lines of cli, http, console and the middle": lines(files, *FACES, *MIDDLE),
        "files under 60 lines": sum(source.text.count("\n") < 60 for source in files),
    }
    return [*found, *(Measure(title, count, []) for title, count in sizes.items())]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit", nargs="?", help="a commit to compare with")
    parser.add_argument("--places", action="store_true", help="name each place")
    chosen = parser.parse_args()
    now = measures(sources(None))
    before = measures(sources(chosen.commit)) if chosen.commit else None
    for row, measure in enumerate(now):
        old = f"{before[row].count:>9,}" if before else ""
        print(f"{measure.title:<60}{old}{measure.count:>9,}")
        if chosen.places and measure.places:
            print(*(f"    {each}" for each in measure.places), sep="\n")


if __name__ == "__main__":
    main()
