"""Authentication, limits, headers, audit log and tenancy of the HTTP service.

The package decides whether a request reaches a route, and which runs a principal may see. It knows
requests and problems, no route and no run. `middleware.py` has all middleware in order. Routes use
`principals.py` and `audit.py`.
"""
