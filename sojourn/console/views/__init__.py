"""Views: what a page shows of our records, as plain values, made by pure functions: no clock, no request, no Temporal.

A view says in words what a record says in fields, and cuts what is too long for a page. Begin at `run_rows.py`.
"""
