"""The paths of the API, one noun a file: each reads a request, asks the service, and answers with a record.

A route decides which role a request needs and which status an answer has; it may import everything of `sojourn.http` but the
application. Begin at `runs.py`.
"""
