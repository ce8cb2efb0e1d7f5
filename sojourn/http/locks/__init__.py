"""The locks: who asks, what they may do, and what no request may be.

The package decides whether a request reaches a route; it knows requests and problems, no route and no run. Begin at `locked.py`, which
has the locks in their order; `principals.py` is what routes use.
"""
