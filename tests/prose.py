"""Check the prose of docstrings: `python -m tests.prose`, which `make check` runs.

The first line of a docstring is one clause of at most 80 characters, and a docstring says more than the name does. What users
read elsewhere, such as descriptions in schemas and the help of commands, is left out: a line of it has other bounds.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("activities", "planners", "sojourn", "toolsets", "workflows")

LONGEST = 80
PHRASES = re.compile(
    r"\b(somebody|nobody|whoever|anybody|everybody|(?:is|are|was|were|been) (?:told|asked|kept|taken)"
    r"|(?:none|null|empty|only|also|else) where|, where (?:it|they|there|this|a|an|the|no|none|one)|of which|by which"
    r"|at most what|what (?:it|they|he|she) (?:does|do|says?|has|have|needs?|holds?|takes?|did))\b",
    re.IGNORECASE,
)
"""Words that hide who acts, or a condition."""

ARTICLES = re.compile(r"\b(the|a|an|its|of)\b")
SHOWN = {"callback", "command", "delete", "get", "patch", "post", "put", "route", "tool"}
"""Decorators of functions whose docstring is a description or a help text."""

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def is_shown(node: Documented, path: Path) -> bool:
    """Whether users read a docstring in a schema or in the help of a command."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            calls = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
            names = {
                each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in calls
            }
            is_command = path.is_relative_to("sojourn/cli/commands") and not node.name.startswith("_")
            return is_command or bool(names & SHOWN)
        case ast.ClassDef():
            has_fields = any(isinstance(each, ast.AnnAssign) for each in node.body)
            is_plain = any("dataclass" in ast.unparse(each) for each in node.decorator_list)
            bases = {ast.unparse(base) for base in node.bases} - {"Protocol", "NamedTuple", "Exception"}
            return has_fields and not is_plain and bool(bases)
        case ast.Module():
            return False


def faults(node: Documented, text: str) -> Iterator[str]:
    """Say what is wrong with a docstring."""
    first = text.partition("\n")[0]
    if len(first) > LONGEST:
        yield f"its first line has {len(first)} characters, {LONGEST} are allowed"
    if ";" in first:
        yield "its first line has a semicolon: say one thing, and the rest below"
    if isinstance(node, ast.Module):
        if re.match(r"[`\w. ]{2,30}: ", first):
            yield "it begins with the module's name"
    elif "\n" not in text and repeats(node.name, text):
        yield "it repeats the name: say more, or delete it"


def vague(text: object) -> str | None:
    """Say which words of a docstring, of a field too, hide who acts or a condition."""
    found = PHRASES.search(text) if isinstance(text, str) else None
    return (
        found
        and f"{found[0]!r} hides who acts, or a condition: name the user, caller or worker, or say if or when"
    )


def repeats(name: str, text: str) -> bool:
    """Whether a text has no word beyond those of a name."""
    words = re.findall(r"[a-z]+", ARTICLES.sub("", text.lower()))
    parts = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_")
    return bool(words) and {word.rstrip("s") for word in words} <= {part.rstrip("s") for part in parts}


def found_in(path: Path) -> Iterator[str]:
    """Read a file, and return a line for each fault."""
    source = (ROOT / path).read_text()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and (fault := vague(token.string)):
            yield f"{path}:{token.start[0]}: {fault}"
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, kinds):
            continue
        text = ast.get_docstring(node)
        if text and not is_shown(node, path):
            for fault in faults(node, text):
                yield f"{path}:{node.body[0].lineno}: {fault}"
        for each in node.body:
            if (
                isinstance(each, ast.Expr)
                and isinstance(each.value, ast.Constant)
                and (fault := vague(each.value.value))
            ):
                yield f"{path}:{each.lineno}: {fault}"


def main() -> int:
    """Print all faults, and return 1 if there is one."""
    paths = sorted(path.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    lines = [line for path in paths if "template" not in path.parts for line in found_in(path)]
    print(*lines, sep="\n")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
