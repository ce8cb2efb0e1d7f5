"""Enforce JSON Schema 2020-12 at the tool boundary.

Validation is bounded, safe for hostile schemas, and returns each error as a `FieldIssue`. The package
decides whether a schema can be enforced (`enforceable`) and whether a value fits it (`validate`). It may
import `values`, not tools or calls. Begin with `validate.py`. The keywords are in `dialect.py` and
`keywords.py`.
"""
