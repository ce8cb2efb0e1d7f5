"""The functions and the right calls of the Berkeley Function-Calling Leaderboard.

They are data in the wheel of `bfcl-eval`, whose own dependencies are heavy. So the tests are skipped unless `SOJOURN_BFCL` names
the folder of `pip install --no-deps --target FOLDER bfcl-eval`.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic_ai.profiles.google import GoogleJsonSchemaTransformer

from sojourn.core.schema import enforceable
from sojourn.core.schema.validate import Validator
from sojourn.models.names import Names
from sojourn.models.projection import project
from sojourn.testing.providers import ToolOffer
from sojourn.testing.providers.rules import anthropic, openai
from tests.core.payload.mutated_calls import altered, fate_of, mutations

FOLDER = os.environ.get("SOJOURN_BFCL")

pytestmark = pytest.mark.skipif(not FOLDER, reason="SOJOURN_BFCL names no folder of bfcl-eval")

TYPES = {
    "dict": "object",
    "hashmap": "object",
    "hashtable": "object",
    "float": "number",
    "double": "number",
    "long": "integer",
    "short": "integer",
    "byte": "integer",
    "bigint": "integer",
    "char": "string",
    "tuple": "array",
    "arraylist": "array",
    "queue": "array",
    "stack": "array",
    "set": "array",
}
"""The leaderboard's names of types, as its own code reads them; any other name but JSON Schema's is left out."""


def schema_of(node: Any) -> Any:
    """Return a function's parameters as JSON Schema."""
    if isinstance(node, list):
        return [schema_of(each) for each in node]
    if not isinstance(node, dict):
        return node
    made = {word: schema_of(value) for word, value in node.items()}
    if isinstance(kind := made.get("type"), str):
        kind = TYPES.get(kind.lower(), kind.lower())
        made.pop("type")
        if kind in ("object", "array", "string", "integer", "number", "boolean", "null"):
            made["type"] = kind
    return made


def lines(path: Path) -> Iterator[dict[str, Any]]:
    yield from map(json.loads, path.read_text().splitlines())


def cases() -> Iterator[tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]]:
    """Yield the functions of each question, by name, and its right calls."""
    data = Path(FOLDER or "") / "bfcl_eval" / "data"
    for path in sorted(set(data.glob("BFCL_v4_*.json")) - {data / "BFCL_v4_format_sensitivity.json"}):
        answers = data / "possible_answer" / path.name
        gold = {each["id"]: each["ground_truth"] for each in lines(answers)} if answers.exists() else {}
        for question in lines(path):
            functions = question.get("function") or []
            yield (
                {each["name"]: schema_of(each["parameters"]) for each in functions},
                gold.get(question["id"], []),
            )


def value_of(given: Any) -> Any:
    """Return one value of a right call, which lists the values that are right at each place."""
    if isinstance(given, dict):
        listed = {name: each if isinstance(each, list) else [each] for name, each in given.items()}
        return {name: value_of(each[0]) for name, each in listed.items() if each and "" not in each}
    return [value_of(each) for each in given] if isinstance(given, list) else given


def test_every_function_survives_its_projection_and_every_right_call_passes() -> None:
    """No provider refuses a function, and a right call fits the projection if and only if the boundary accepts it."""
    seen: Counter[str] = Counter()
    for functions, gold in cases():
        for name, schema in functions.items():
            enforceable.check(schema)
            made = project(schema)
            tool = ToolOffer(Names.name_of(name), "", made.schema)
            assert [*anthropic([tool]), *openai([tool])] == []
            GoogleJsonSchemaTransformer(made.schema).walk()
            seen["functions"] += 1
        for call in gold:
            if not isinstance(call, dict) or not set(call) <= set(functions):
                continue  # of another kind of question
            ((name, values),) = call.items()
            made = project(functions[name])
            payload = value_of(values)
            fits = Draft202012Validator(made.schema).is_valid(made.keys.to_model(payload))
            passes = Validator(functions[name]).is_valid(dict(made.keys.to_tool(made.keys.to_model(payload))))
            assert fits == passes
            seen["right calls" if passes else "calls that the function's own schema refuses"] += 1
    print(dict(seen))
    assert seen["functions"] > 1_000


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("closed", "reads"), [(True, None), (True, True), (False, None)])
def test_every_right_call_with_one_wrong_field_is_read_or_repaired(closed: bool, reads: bool | None) -> None:
    """What `tests/core/payload/test_mutated_calls.py` says of a few calls holds for all, as native and as foreign tools have them."""
    fates: Counter[tuple[str, str]] = Counter()
    for functions, gold in cases():
        for call in gold:
            if not isinstance(call, dict) or not set(call) <= set(functions):
                continue
            ((name, values),) = call.items()
            right = value_of(values)
            schema = enforceable.forbid_unknown_fields(functions[name]) if closed else functions[name]
            if not Validator(schema).is_valid(right):
                continue
            author = altered(right, schema)
            for mutation in mutations(right):
                fates[mutation.kind, fate_of(mutation, right, schema, author=author, reads=reads)] += 1
    print(*(f"{kind}: {fate} {count}" for (kind, fate), count in sorted(fates.items())), sep="\n")
    assert sum(fates.values()) > 30_000
