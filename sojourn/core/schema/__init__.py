"""Enforce JSON Schema 2020-12 at the tool boundary.

Validation is bounded, safe for hostile schemas, and returns each error as a `FieldIssue`. Begin with
`validate.py`. The keywords are in `dialect.py` and `keywords.py`.
"""
