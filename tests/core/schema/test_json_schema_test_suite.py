"""The JSON Schema Test Suite: schemas and verdicts that nobody here wrote, of each draft that is read.

`json_schema_test_suite.json.xz` has the required tests of draft-04 to 2020-12 of https://github.com/json-schema-org/JSON-Schema-Test-Suite, under the MIT
licence (copyright 2012 Julian Berman): by draft and file, the groups as they are.
"""

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn.core.schema.enforceable import check
from sojourn.core.schema.validate import Validator

SUITE = json.loads(lzma.decompress(Path(__file__).with_name("json_schema_test_suite.json.xz").read_bytes()))
DRAFTS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}

REFUSED = {
    "anchor": "references by name: a schema refers to itself by #/... alone",
    "boolean_schema": "a schema of a payload is an object, not true or false",
    "defs": "a reference to the metaschema leaves the schema",
    "definitions": "a reference to the metaschema leaves the schema",
    "dynamicRef": "dynamic references",
    "recursiveRef": "dynamic references",
    "ref": "references by $id and to other documents, which nobody fetches",
    "refRemote": "references to other documents, which nobody fetches",
    "unevaluatedItems": "dynamic references",
    "unevaluatedProperties": "dynamic references",
}
"""By file: why groups of it are refused when the schema is read, rather than judged in another way."""

OTHERWISE = {
    ("draft2020-12", "format"): "a format is enforced: a date that is none would reach the tool",
    ("draft2019-09", "vocabulary"): "a metaschema of one's own is not read",
    ("draft2020-12", "vocabulary"): "a metaschema of one's own is not read",
}
"""By draft and file: why some verdicts are other than the suite's. All of them are stricter."""


def groups(draft: str) -> Iterator[tuple[str, Any, list[Any]]]:
    """The groups of a draft: the file, the schema, which names its draft, and the tests."""
    for name, found in SUITE[draft].items():
        for group in found:
            schema = group["schema"]
            named = isinstance(schema, dict) and "$schema" not in schema
            yield name, {"$schema": DRAFTS[draft], **schema} if named else schema, group["tests"]


def test_verdicts_are_those_of_the_suite(subtests: pytest.Subtests) -> None:
    """Each schema is judged as the suite does, or refused when it is read, for a reason that is named above."""
    for draft in DRAFTS:
        with subtests.test(draft=draft):
            refused, otherwise, right = set[str](), list[tuple[str, Any, bool]](), 0
            for name, schema, tests in groups(draft):
                try:
                    check(schema)
                except ValueError:
                    refused.add(name)
                    continue
                validator = Validator(schema)
                for test in tests:
                    if (verdict := validator.is_valid(test["data"])) == test["valid"]:
                        right += 1
                    else:
                        otherwise.append((name, test["description"], verdict))
                    assert verdict == (not validator.issues(test["data"])), (name, test["description"])
            assert refused <= REFUSED.keys()
            assert [each for each in otherwise if (draft, each[0]) not in OTHERWISE or each[2]] == []
            assert (
                right
                > {"draft4": 570, "draft6": 750, "draft7": 830, "draft2019-09": 1_090, "draft2020-12": 1_100}[
                    draft
                ]
            )


def test_each_reason_is_of_a_test() -> None:
    """No reason is left over once its groups are read."""
    seen = set[str]()
    for draft in DRAFTS:
        for name, schema, _ in groups(draft):
            try:
                check(schema)
            except ValueError:
                seen.add(name)
    assert seen == REFUSED.keys()
