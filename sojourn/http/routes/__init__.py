"""The paths of the API, one noun per file.

A route reads a request, calls the service, and answers with a record. It decides which role a
request needs and which status an answer has. It may import everything of `sojourn.http` but the
application. Begin at `runs.py`.
"""
