"""Views of our records as plain values, made by pure functions.

They use no clock, no request and no Temporal.

A view says in words what a record says in fields, and cuts what is too long for a page. Begin at
`run_rows.py`.
"""
