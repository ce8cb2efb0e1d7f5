"""Who asks, and what they may do: every route gets its principal from here.

The package decides who sent a request and which roles it needs; it knows requests and problems, no route and no run. Begin
at `principals.py`.
"""
