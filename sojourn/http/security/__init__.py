"""Security of the HTTP service: authentication, limits, headers, the audit log, and which runs a principal may see.

The package decides whether a request reaches a route; it knows requests and problems, no route and no run. `middleware.py` has all
middleware in order; `principals.py` and `audit.py` are what routes use.
"""
