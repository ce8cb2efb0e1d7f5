"""JSON Schema 2020-12 as the tool boundary enforces it: bounded, safe for hostile schemas, each error a `FieldIssue`.

The package decides whether a schema can be enforced (`enforceable`) and whether a value fits it (`validate`);
it may import `values`, not tools or calls. Begin with `validate.py`; the keywords are in `dialect.py`
and `keywords.py`.
"""
