"""Views of our records as plain values, made by pure functions.

They use no clock, no request and no Temporal.

A view turns the fields of a record into words, and shortens texts that are too long for a page. Begin at
`runs.py`.
"""
